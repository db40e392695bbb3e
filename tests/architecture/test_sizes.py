"""No file and no test outgrows a reader. Source: docs/architecture.md, CONTRIBUTING.md."""

import ast

from tests.architecture.product import PACKAGES, ROOT, files, tree

PRODUCT_LINES, TEST_LINES, FUNCTION_LINES = 400, 600, 40


def longer(paths, limit):
    lengths = {str(p.relative_to(ROOT)): len(p.read_text("utf-8").splitlines()) for p in paths}
    return {path: lines for path, lines in lengths.items() if lines > limit}


def test_no_file_of_the_product_has_more_than_400_lines():
    assert {} == longer(files(*PACKAGES), PRODUCT_LINES)


def test_no_file_of_tests_has_more_than_600_lines():
    assert {} == longer(files("tests"), TEST_LINES)


def test_no_test_function_has_more_than_40_lines():
    functions = {
        f"{path.relative_to(ROOT)}::{node.name}": node.end_lineno - node.lineno + 1
        for path in files("tests")
        for node in ast.walk(tree(path))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.name.startswith("test")
    }

    assert {} == {name: lines for name, lines in functions.items() if lines > FUNCTION_LINES}
