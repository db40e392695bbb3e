"""The product's files and their syntax trees, for tests that read code."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("bus", "projections", "reactors", "migrations", "deploy")


@cache
def files(*folders):
    """Every Python file below these folders of the checkout, by path."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


@cache
def tree(path):
    """The syntax tree of a file."""
    return ast.parse(path.read_text("utf-8"), str(path))


@cache
def nodes(path):
    """Every node of a file's syntax tree: many tests look at all of them."""
    return tuple(ast.walk(tree(path)))


def module_name(path):
    """`bus/events/pods.py` → `bus.events.pods`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports(path):
    """Every module that a file imports, by full name."""
    found = []
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.append(node.module)
    return tuple(found)
