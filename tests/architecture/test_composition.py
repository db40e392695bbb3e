"""A class is cut by responsibility, not by inheritance: a concrete base has two subclasses or none. Source: docs/architecture.md.

A base is concrete where it has methods and is no protocol. Forms that add fields to another form, and errors, have none.
"""

import ast

from tests.architecture.product import PACKAGES, files, module_name, nodes


def imported(module):
    """By local name, the full name of everything that a module imports from others."""
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in module
        if isinstance(node, ast.ImportFrom) and not node.level
        for alias in node.names
    }


def is_concrete(one):
    bases = {ast.unparse(base).split("[")[0].split(".")[-1] for base in one.bases}
    is_abstract = bases & {"Protocol", "ABC"}
    return not is_abstract and any(
        isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) for part in one.body
    )


def cut_in_two(modules):
    """The concrete bases with a single subclass, by full name. ``modules``: the nodes of each."""
    classes = {
        name: [node for node in module if isinstance(node, ast.ClassDef)]
        for name, module in modules.items()
    }
    known = {f"{name}.{one.name}": one for name, found in classes.items() for one in found}
    names = {
        name: imported(module) | {one.name: f"{name}.{one.name}" for one in classes[name]}
        for name, module in modules.items()
    }

    def full(name, base):
        text = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
        first, _, rest = text.partition(".")
        found = names[name].get(first, first) + (f".{rest}" if rest else "")
        passed = set()
        while found not in known and found not in passed:
            # A module may hand on what it imports.
            passed.add(found)
            module, _, local = found.rpartition(".")
            found = names.get(module, {}).get(local, found)
        return found

    subclasses = {}
    for name, found in classes.items():
        for one in found:
            for base in one.bases:
                subclasses.setdefault(full(name, base), set()).add(f"{name}.{one.name}")
    return {
        base
        for base, found in subclasses.items()
        if len(found) == 1 and base in known and is_concrete(known[base])
    }


def test_a_concrete_base_has_two_subclasses_or_none():
    assert cut_in_two({module_name(path): nodes(path) for path in files(*PACKAGES)}) == set()


def test_a_base_is_found_across_modules_and_names():
    texts = {
        "p.base": "class Half:\n    def one(self): ...\nclass Form:\n    field: int",
        "p.handing": "from p.base import Half as Part",
        "p.whole": "from p import handing\nfrom p.base import Form\n"
        "class Whole(handing.Part): ...\nclass More(Form): ...",
        "p.kinds": "class Kind(Generic[K]):\n    def one(self): ...\n"
        "class First(Kind[int]): ...\nclass Second(Kind[str]): ...",
        "p.shapes": "class Says(Protocol):\n    def one(self): ...\nclass SaysMore(Says, Protocol): ...",
    }

    assert cut_in_two({name: tuple(ast.walk(ast.parse(text))) for name, text in texts.items()}) == {
        "p.base.Half"
    }
