"""Builds msgspec's decoders of a class before threads share it.

msgspec builds a decoder at the first use, and shows it to other threads before it is whole: another thread decoding
the same class meanwhile reads a null pointer, and the process ends with a segmentation fault.

Source: msgspec 0.22, ``_core.c``: ``StructInfo_Convert`` keeps its result on the class, for classes with references
to themselves, and then fills it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

#: Classes prepared before.
_known: set[type[msgspec.Struct]] = set()


def prepare() -> None:
    """Builds it for each loaded class. Called before other threads know the classes loaded since the last call."""
    for one in _loaded(msgspec.Struct):
        if one not in _known:
            _known.add(one)
            try:
                msgspec.json.Decoder(one)
            except (NameError, TypeError):
                # It is never decoded: a field has an impossible type, or one known to type checkers alone.
                continue


def _loaded(base: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for one in base.__subclasses__():
        yield one
        yield from _loaded(one)
