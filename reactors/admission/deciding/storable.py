"""The size check of a journal's entry: it must fit into a message of the bus. Pure.

A workload may name many long resources, and a model may have many parts, each charged by its beginnings. Too large an entry
is refused before the bus, since the bus would refuse the entries beside it, too.

Source: docs/wrong-input.md.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from bus.errors import DemandError
from bus.events.admissions import AdmissionDecided

#: Bytes of one decision; a message of the stream carries 64 KiB.
LARGEST = 60 * 1024
#: Decisions of fewer amounts are not measured.
FEW = 100

F = TypeVar("F")


def is_too_large(fact: object) -> bool:
    """Whether a decision has more bytes than a message."""
    if not isinstance(fact, AdmissionDecided):
        return False
    live = fact.basis.live if fact.basis is not None else {}
    amounts = len(fact.demand) + len(fact.charge) + len(fact.deficits) + len(live)
    return amounts > FEW and len(msgspec.json.encode(fact)) > LARGEST


def storable(fact: F) -> F:
    """The entry itself. Raises DemandError if it is too large."""
    if is_too_large(fact):
        reason = f"its resources and models need more than {LARGEST} bytes of a journal"
        raise DemandError(path="spec", reason=reason)
    return fact
