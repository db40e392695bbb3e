"""No file and no test outgrows a reader. Source: docs/architecture.md, CONTRIBUTING.md."""

import ast

from tests.architecture.product import PACKAGES, ROOT, files, nodes

PRODUCT_LINES, TEST_LINES, FUNCTION_LINES, CLASS_LINES = 400, 600, 40, 250


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
        for node in nodes(path)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.name.startswith("test")
    }

    assert {} == {name: lines for name, lines in functions.items() if lines > FUNCTION_LINES}


def lengths(*kinds):
    """Lines of every class or function of the product, by file and name."""
    return {
        f"{path.relative_to(ROOT)}::{node.name}": node.end_lineno - node.lineno + 1
        for path in files(*PACKAGES)
        for node in nodes(path)
        if isinstance(node, kinds)
    }


def test_no_class_of_the_product_has_more_than_250_lines():
    assert {} == {name: n for name, n in lengths(ast.ClassDef).items() if n > CLASS_LINES}


def test_of_a_hundred_functions_of_the_product_ninety_five_have_at_most_40_lines():
    found = sorted(lengths(ast.FunctionDef, ast.AsyncFunctionDef).values())

    assert found[len(found) * 95 // 100] <= FUNCTION_LINES
