"""Builds what msgspec needs to decode a class before threads share it.

msgspec builds it at the first use, and shows it to other threads before it is whole: a thread that decodes the same class
meanwhile reads a null pointer, and the process ends with a segmentation fault.

Source: msgspec 0.22, ``_core.c``: ``StructInfo_Convert`` keeps its result on the class, for classes that name themselves,
and then fills it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

#: Classes that were looked at before.
_known: set[type[msgspec.Struct]] = set()


def prepare() -> None:
    """Build it for each class that is loaded. Called where no other thread knows those that were loaded since the last call."""
    for one in _loaded(msgspec.Struct):
        if one not in _known:
            _known.add(one)
            try:
                msgspec.json.Decoder(one)
            except (NameError, TypeError):
                # Nobody decodes it: a field has a type that cannot be, or that is known to type checkers alone.
                continue


def _loaded(base: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for one in base.__subclasses__():
        yield one
        yield from _loaded(one)
