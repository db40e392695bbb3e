"""What a page or a docstring names is there: paths of this repository, tests, and the pages that are given as sources."""

import ast
import re
from functools import cache

import pytest

from tests.architecture.product import PACKAGES, ROOT, files, tree

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
_PATH = re.compile(
    r"`((?:bus|projections|reactors|migrations|deploy|tests|docs)/[A-Za-z0-9_./-]+)`"
)
_LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
_SOURCE = re.compile(r"\b((?:docs/|[A-Za-z./-]*/)?[A-Za-z-]+\.md)\b")
#: A test or a file of tests, whole: `shortest_idle` names none.
_TEST = re.compile(r"(?<![A-Za-z0-9_])test_[A-Za-z0-9_]+")
#: A number of a list that is not in this repository.
_NUMBERED = re.compile(r"Source: (?:item|issue) \d+")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_and_link_of_a_page_is_there(page):
    text = page.read_text()
    named = {ROOT / path for path in _PATH.findall(text)}
    linked = {page.parent / path for path in _LINK.findall(text)}

    assert [] == sorted(str(path) for path in named | linked if not path.exists())


@cache
def collected():
    """Names of all files of tests, and of the functions in them that pytest collects."""
    found = set()
    for path in files("tests"):
        if path.name.startswith("test_"):
            found.add(path.stem)
            classes = [one for one in tree(path).body if isinstance(one, ast.ClassDef)]
            for body in (tree(path).body, *(one.body for one in classes)):
                found |= {
                    one.name
                    for one in body
                    if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
                }
    return found


def absent(text):
    """The tests that a text cites and that nobody can run."""
    return set(_TEST.findall(text)) - collected()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_that_a_page_cites_is_there(page):
    assert set() == absent(page.read_text())


def test_no_docstring_cites_a_test_that_is_not_there():
    assert {} == {
        str(path.relative_to(ROOT)): gone
        for path in files(*PACKAGES)
        if (gone := absent(path.read_text()))
    }


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("`test_docs.py`, `tests/architecture/test_docs.py`, `absent`", set()),
        ("| `test_every_test_that_a_page_cites_is_there` |", set()),
        ("| `test_every_test_that_a_page_cites_was_there` |", {"test_every_test_that_a_page_cites_was_there"}),
        ("`test_every_test`, a beginning", {"test_every_test"}),
        ("`tests/architecture/test_gone.py`", {"test_gone"}),
        ("`shortest_idle_seconds`", set()),
    ],
)  # fmt: skip
def test_a_cited_test_is_a_whole_name(text, gone):
    assert gone == absent(text)


def test_no_docstring_cites_a_page_that_is_not_here():
    cited = {
        (str(path.relative_to(ROOT)), name)
        for path in files(*PACKAGES)
        for name in _SOURCE.findall(path.read_text())
    }

    assert [] == sorted((path, name) for path, name in cited if not (ROOT / name).exists())


def test_no_docstring_cites_a_number_of_a_list_that_is_not_here():
    cited = [
        str(path.relative_to(ROOT))
        for path in files(*PACKAGES)
        if _NUMBERED.search(path.read_text())
    ]

    assert [] == cited
