"""Which definitions of the product does the product itself reach? By names as the modules import them; nothing is run.

Roots are what modules do when they are imported, what a decorator hands to a framework (a command, a validator, a
route), and the program's entry point. A class reaches all that its body names. What is named is not always called, and
what is looked up by a string is not seen: the first hides a dead function now and then, the second is for the list of
exceptions, with a reason.
"""

import ast
from collections import Counter
from functools import cached_property

from tests.architecture.product import PACKAGES, files, module_name, tree

#: Decorators that register nothing.
PLAIN = {
    "property", "staticmethod", "classmethod", "contextmanager", "asynccontextmanager", "cache", "lru_cache", "wraps",
    "runtime_checkable", "dataclass", "overload", "abstractmethod", "cached_property", "override",
}  # fmt: skip
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Module:
    """Top-level definitions of one module, and what each name in it stands for."""

    def __init__(self, name, tree):
        self.name = name
        self.definitions = {one.name: one for one in tree.body if isinstance(one, DEFINITIONS)}
        self.rest = [
            one
            for one in tree.body
            if not isinstance(one, (*DEFINITIONS, ast.Import, ast.ImportFrom)) and not _exports(one)
        ]
        self.imported = {}
        for one in tree.body:
            self.imported |= imported(one)


def imported(node):
    """Local name to (module, name), or to (module, "") for a module itself, of one import."""
    if isinstance(node, ast.ImportFrom) and node.module:
        return {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
    if isinstance(node, ast.Import):
        return {
            alias.asname or alias.name.partition(".")[0]: (
                alias.name if alias.asname else alias.name.partition(".")[0],
                "",
            )
            for alias in node.names
        }
    return {}


def _exports(node):
    return isinstance(node, ast.Assign) and any(
        isinstance(one, ast.Name) and one.id == "__all__" for one in node.targets
    )


def decorators(node):
    """Last names of a definition's decorators."""
    found = [one.func if isinstance(one, ast.Call) else one for one in node.decorator_list]
    return {one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "") for one in found}


class Product:
    """All modules, and what reaches what: nodes are (module, definition)."""

    def __init__(self, trees=None):
        self.trees = trees or {module_name(path): tree(path) for path in files(*PACKAGES)}
        self.modules = {name: Module(name, tree) for name, tree in self.trees.items()}
        #: What each piece of code names, by the piece: it is asked for more than once.
        self._uses = {}

    def resolved(self, module, name, local=()):
        """The definition that a name stands for, through imports and what packages hand on; None for others.

        ``local``: what a function imports itself.
        """
        if name in local:
            module, name = local[name]
        for _ in range(10):
            found = self.modules.get(module)
            if found is None:
                return None
            if name in found.definitions:
                return module, name
            if name not in found.imported:
                return None
            module, name = found.imported[name]
        return None

    def uses(self, module, node):
        """The definitions that a piece of code names."""
        if node not in self._uses:
            self._uses[node] = frozenset(self._named_in(module, node))
        return self._uses[node]

    def _named_in(self, module, node):
        inner, local = list(ast.walk(node)), {}
        for one in inner:
            if isinstance(one, (ast.Import, ast.ImportFrom)):
                local |= imported(one)
        for one in inner:
            found = None
            if isinstance(one, ast.Name):
                found = self.resolved(module, one.id, local)
            elif isinstance(one, ast.Attribute):
                found = self._attribute(module, one, local)
            if found is not None:
                yield found

    def _attribute(self, module, node, local):
        """``package.module.name``, with the package imported."""
        steps = [node.attr]
        inner = node.value
        while isinstance(inner, ast.Attribute):
            steps.append(inner.attr)
            inner = inner.value
        if not isinstance(inner, ast.Name):
            return None
        at = local.get(inner.id) or self.modules[module].imported.get(inner.id)
        if at is None:
            return None
        place = ".".join(filter(None, at))
        *between, last = reversed(steps)
        return self.resolved(".".join((place, *between)), last)

    def reached(self, roots=()):
        """Every definition that is reached from what modules do themselves."""
        waiting = list(roots)
        for name, module in self.modules.items():
            for one in module.rest:
                waiting += self.uses(name, one)
            for one in module.definitions.values():
                if decorators(one) - PLAIN:
                    waiting.append((name, one.name))
        found = set()
        while waiting:
            at = waiting.pop()
            if at not in found:
                found.add(at)
                waiting += self.uses(at[0], self.modules[at[0]].definitions[at[1]])
        return found

    def methods(self):
        """(module, class, method) of every public method that no decorator registers and no base outside may call."""
        for name, module in self.modules.items():
            for one in module.definitions.values():
                if isinstance(one, ast.ClassDef) and not self._overrides(name, one):
                    for method in one.body:
                        is_public = isinstance(method, FUNCTIONS) and not method.name.startswith(
                            "_"
                        )
                        if is_public and not decorators(method) - PLAIN:
                            yield name, one.name, method.name

    def _overrides(self, module, node):
        """Whether a base of a class is none of the product's: it may call any method."""
        plain = {
            "Protocol",
            "Struct",
            "Exception",
            "BaseModel",
            "Enum",
            "StrEnum",
            "Generic",
            "NamedTuple",
        }
        for base in node.bases:
            inner = base.value if isinstance(base, ast.Subscript) else base
            last = inner.attr if isinstance(inner, ast.Attribute) else getattr(inner, "id", "")
            if last not in plain and not (
                isinstance(inner, ast.Name) and self.resolved(module, inner.id)
            ):
                return True
        return False

    @cached_property
    def named(self):
        """How often each name is read as an attribute, anywhere in the product."""
        inner = (one for module in self.trees.values() for one in ast.walk(module))
        return Counter(one.attr for one in inner if isinstance(one, ast.Attribute))
