"""Rules for the tests themselves: what several of them need stands in a plain module."""

from tests.architecture.product import ROOT, files, imports


def test_nothing_imports_from_a_test_file():
    """A shared part stands in a module beside its tests, so that a test may change without asking others."""
    borrowed = {
        f"{path.relative_to(ROOT)} -> {found}"
        for path in files("tests")
        for found in imports(path)
        if found.startswith("tests.") and any(p.startswith("test_") for p in found.split("."))
    }

    assert set() == borrowed
