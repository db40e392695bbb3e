"""Measures rooms, floors and circles of a package on its files.

A *room* is what a newcomer opens as one thing: a folder of modules, or a module that stands beside folders. A folder that has
folders itself is no room: it is opened, and what is in it are rooms. A room stands one *floor* above the highest room that it
imports; who imports no other room stands on floor 1. An import runs *back up* where rooms import each other in a circle: with
none there is an order in which each imports lower ones only.

Imports inside functions count: who imports late to start sooner depends on the module all the same, and circles hide there.
Imports below ``if TYPE_CHECKING`` do not count in a package: they name a type and are never run. Neither do modules that a table
names as texts (``COMMANDS``). A folder's ``__init__`` is its face: whoever imports it imports the folder, and what is inside may.

One *folder* is measured by what stands in it: its children are files and folders, an arrow leads from child to child, and there
imports of types count too, for a reader follows them like others.
"""

import ast
from functools import cached_property
from pathlib import Path

from tests.architecture.product import tree


class Package:
    """The modules of a package below ``root`` and their imports of each other."""

    def __init__(self, root: Path, name: str):
        self.name = name
        self._files = {}
        for path in sorted((root / name).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            self._files[parts[:-1] if parts[-1] == "__init__" else parts] = path
        self._folders = {
            module for module, path in self._files.items() if path.name == "__init__.py"
        }

    @cached_property
    def imports(self):
        """(module, imported module), each as a tuple of names, to the line of the first such import."""
        return {pair: line for pair, (line, is_run) in self._found.items() if is_run}

    @cached_property
    def _found(self):
        """Imports as above and those of types alone, to (line, whether it can run)."""
        found = {}
        for module, path in self._files.items():
            for names, line, is_run in _imported(tree(path)):
                target = names if names in self._files else names[:-1]
                known = found.get((module, target))
                if (
                    target in self._files
                    and target != module
                    and (known is None or is_run > known[1])
                ):
                    found[module, target] = (line, is_run)
        return found

    def room(self, module):
        """The room of a module; None for a folder that is opened."""
        opened = {folder[:-1] for folder in self._folders if len(folder) > 1}
        for end in range(1, len(module) + 1):
            if module[:end] in self._folders - opened:
                return module[:end]
        return None if module in opened else module

    @cached_property
    def rooms(self):
        """Every room, to the rooms that it imports."""
        found = {room: set() for module in self._files if (room := self.room(module))}
        for module, target in self.imports:
            above, below = self.room(module), self.room(target)
            if above and below and above != below:
                found[above].add(below)
        return found

    @cached_property
    def floors(self):
        """Every room, to its floor. Raises ValueError where rooms import each other in a circle."""
        return floors(self.rooms)

    @cached_property
    def folders(self):
        """Every folder, to its children, each to the children that it imports, if only for a type."""
        found = {}
        for module in self._files:
            for depth in range(1, len(module)):
                found.setdefault(module[:depth], {}).setdefault(module[depth], set())
        for module, target in self._found:
            depth = _common(module, target)
            if depth < min(len(module), len(target)):
                found[module[:depth]][module[depth]].add(target[depth])
        return found

    @cached_property
    def circles(self):
        """The imports that tie files and folders of one folder in circles, by that folder: ``module:line -> module``."""
        beside = {}
        for (module, target), line in self.imports.items():
            depth = _common(module, target)
            if depth < min(len(module), len(target)):
                arrows = beside.setdefault(module[:depth], {})
                text = f"{'.'.join(module)}:{line} -> {'.'.join(target)}"
                arrows.setdefault((module[depth], target[depth]), []).append(text)
        return {
            ".".join(folder): texts
            for folder, arrows in beside.items()
            if (texts := [one for pair in _in_circles(arrows) for one in arrows[pair]])
        }


def floors(rooms):
    """Every room of those, each with what it imports, to its floor. Raises ValueError where they import each other in a circle."""
    left, found = dict(rooms), {}
    while left:
        free = {room for room, below in left.items() if below <= found.keys()}
        if not free:
            raise ValueError(f"a circle of rooms: {sorted(left)}")
        for room in free:
            found[room] = 1 + max((found[one] for one in left[room]), default=0)
        left = {room: below for room, below in left.items() if room not in free}
    return found


def _common(module, target):
    """How many names two modules have in common at their beginning."""
    depth = 0
    while module[depth : depth + 1] == target[depth : depth + 1] != ():
        depth += 1
    return depth


def _imported(node, is_run=True):
    """(names, line, whether it can run) of every import: of ``from a import b`` the names a, b."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from _imported(ast.Module(child.body, []), False)
            yield from _imported(ast.Module(child.orelse, []), is_run)
            continue
        if isinstance(child, ast.Import):
            for name in child.names:
                yield tuple(name.name.split(".")), child.lineno, is_run
        elif isinstance(child, ast.ImportFrom):
            assert not child.level, "an import by dots is not measured"
            above = tuple(child.module.split("."))
            yield from (((*above, name.name), child.lineno, is_run) for name in child.names)
        yield from _imported(child, is_run)


def _in_circles(arrows):
    """The arrows of which each end reaches the other."""
    below = {}
    for above, target in arrows:
        below.setdefault(above, set()).add(target)
    reached = {}
    for start in below:
        seen, more = set(), [start]
        while more:
            new = below.get(more.pop(), set()) - seen
            seen |= new
            more += new
        reached[start] = seen
    return [(a, b) for a, b in arrows if a in reached.get(b, ())]
