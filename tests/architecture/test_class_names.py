"""A public class has a name of its own in its package, so that a search finds it. Source: CONTRIBUTING.md."""

import ast
from collections import defaultdict

import pytest

from tests.architecture.product import ROOT, files

#: Each module there decodes one kind of objects, with classes named after the fields of that kind.
DECODERS = ROOT / "bus" / "sources"


@pytest.mark.parametrize("package", ["bus", "projections", "reactors", "deploy"])
def test_no_two_public_classes_of_a_package_have_one_name(package):
    found = defaultdict(list)
    for path in files(package):
        if DECODERS in path.parents:
            continue
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(ROOT)))

    assert {} == {name: paths for name, paths in found.items() if len(paths) > 1}
