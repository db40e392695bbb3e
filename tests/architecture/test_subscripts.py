"""Rows are read by name: the fourth value of a tuple has one. Source: CONTRIBUTING.md."""

import ast

from tests.architecture.product import PACKAGES, ROOT, files, nodes

#: The first number that needs a name.
FIRST = 3
#: Dictionaries that have numbers as keys.
BY_NUMBER = {
    ("deploy/cli/scheduling/bench.py", "one.allocation[100]"),
    ("reactors/webhook/exchange.py", "_STATUS_LINES[500]"),
}


def numbered(module):
    """The subscripts with a constant number of 3 or more."""
    return {
        ast.unparse(node)
        for node in module
        if isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and type(node.slice.value) is int
        and node.slice.value >= FIRST
    }


def test_no_row_is_read_by_a_number_of_3_or_more():
    found = {
        (str(path.relative_to(ROOT)), text)
        for path in files(*PACKAGES)
        for text in numbered(nodes(path))
    }

    assert found == BY_NUMBER


def test_numbers_below_slices_and_types_pass():
    module = ast.parse("x: tuple[int, int] = row[2], row[3:7], row[-1], row['3'], row[n]; row[4]")

    assert numbered(ast.walk(module)) == {"row[4]"}
