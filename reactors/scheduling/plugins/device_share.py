"""DeviceShare: parts of GPUs and whole ones, RDMA devices and FPGAs, by Koordinator's rules.

A profile names it; the default profile does not. Devices from 1,000 on are those for RDMA, from 2,000 on FPGAs, from 2**40 on
virtual functions.

Source: koordinator-sh/koordinator, "Fine-grained device scheduling"; docs/scheduling.md, "Shared GPUs".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np

from bus.events.constraints import DeviceTerms
from bus.events.devices import ALLOCATED, FIRST
from reactors.scheduling.columns.device_requests import requested
from reactors.scheduling.columns.table import Bools, Columns, Ints, Rows, is_by_claim
from reactors.scheduling.devices.allocations import allocated
from reactors.scheduling.devices.boards import kept, parts_of, terms_of
from reactors.scheduling.devices.choices import NO_TERMS, Packed, choice, functions, not_packed
from reactors.scheduling.devices.rooms import rooms
from reactors.scheduling.devices.rules import Card, Part, Rules, Strategy, is_legal
from reactors.scheduling.devices.terms import hint_of
from reactors.scheduling.framework.contract import (
    DEVICES,
    ONE_CHANGE,
    PACKER,
    SKIP,
    Code,
    Cycle,
    Packs,
    Refused,
    Status,
    scaled,
)
from reactors.scheduling.framework.refusals import refused_by
from reactors.scheduling.queueing.hints import Hint
from reactors.scheduling.queueing.messages import DEVICES_TAKEN

#: A pod without devices.
NOTHING = "{}"
REASON = "Insufficient {} devices"
PLACE = "no {} devices that lie as the pod wants them"
ILLEGAL = "the requests of {} devices are none that Koordinator knows"
UNREADABLE = "nobody can read the pod's annotation {}"
#: Kinds of pods with remembered devices, by their requests and terms.
MOST_KINDS = 16

#: By row: the version of the node's last change, and its devices found then.
Choices = dict[int, tuple[int, dict[str, tuple[int, ...]]]]

_encode = msgspec.msgpack.Encoder(order="sorted").encode


class DeviceShare(msgspec.Struct, frozen=True):
    """Gives pods parts of cards. ``rules``: Koordinator's release; ``strategy``: spread (LeastAllocated) or pack."""

    name: ClassVar[str] = "DeviceShare"
    is_local: ClassVar[bool] = True
    helped_by: ClassVar[frozenset[Hint]] = frozenset({Hint.NODE, Hint.GONE})

    strategy: Strategy = "LeastAllocated"
    rules: Rules = "now"

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """Meaningless requests are refused; a pod without any request is skipped."""
        found = requested(cycle.pod.demand)
        for kind in sorted(found):
            if not is_legal(found[kind], self.rules):
                return Status(Code.UNRESOLVABLE, ILLEGAL.format(kind))
        if not found:
            return SKIP
        if terms := terms_of(cycle.pod, self.rules):
            for key in terms.unreadable:
                return Status(Code.UNRESOLVABLE, UNREADABLE.format(key))
        cycle.data[DEVICES] = True
        return None

    def filter(self, cycle: Cycle, rows: Rows) -> Sequence[Refused]:
        """Nodes without the room on so many of their devices, or without devices in the requested arrangement."""
        columns, at = cycle.columns, np.arange(len(cycle.columns.nodes))[rows]
        known, refused = rooms(columns, at), list[Refused]()
        parts, terms = parts_of(cycle.pod, self.rules), terms_of(cycle.pod, self.rules)
        for kind, part in parts.items():
            devices = known.kinds[kind]
            lacking: Bools = devices.fitting(rows, part) < part.count
            if terms is None and kind == "gpu" and not part.is_share:
                for one in np.flatnonzero(known.honors[at] & ~lacking).tolist():
                    lacking[one] = not self._found(cycle, int(at[one]), parts)[kind]
            if lacking.any():
                never = devices.count[rows] < part.count
                refused.append(Refused(REASON.format(kind), lacking, lacking & never))
        return (
            refused if terms is None else [*refused, *self._ill_placed(cycle, at, parts, refused)]
        )

    def _ill_placed(
        self, cycle: Cycle, at: Ints, parts: Mapping[str, Part], refused: Sequence[Refused]
    ) -> list[Refused]:
        """Nodes with enough devices in a wrong arrangement. Evaluated node by node, and remembered."""
        known = _choices(cycle.columns, parts, terms_of(cycle.pod, self.rules), self.strategy)
        gone = refused_by(refused, at.size)
        lacking: dict[str, Bools] = {kind: np.zeros(at.size, np.bool_) for kind in parts}
        for one in range(at.size) if gone is None else np.flatnonzero(~gone).tolist():
            row, seen = int(at[one]), known.get(int(at[one]))
            if seen is None or seen[0] != cycle.columns.changed_at[row]:
                seen = int(cycle.columns.changed_at[row]), self._found(cycle, row, parts)
                known[row] = seen
            for kind in parts:
                lacking[kind][one] = not seen[1][kind]
        none = np.zeros(at.size, np.bool_)
        return [
            Refused(PLACE.format(kind), one, none) for kind, one in lacking.items() if one.any()
        ]

    def distance(self, cycle: Cycle) -> int:
        """The same for every node."""
        return ONE_CHANGE

    def remedy(self, cycle: Cycle, row: int) -> str:
        """Room on devices. Free cards do not help if claims give them."""
        if is_by_claim(cycle.columns, cycle.pod, row):
            return ""
        found = self._found(cycle, row, parts_of(cycle.pod, self.rules))
        lacking = [kind for kind, minors in found.items() if not minors]
        return f"free {' and '.join(lacking) or 'other'} devices of node {cycle.columns.names[row]}"

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """The fill of the devices, over all kinds."""
        at = np.arange(len(cycle.columns.nodes))[rows]
        known, found = rooms(cycle.columns, at), np.zeros(at.size, np.int64)
        for kind, part in parts_of(cycle.pod, self.rules).items():
            found += known.kinds[kind].scores(rows, part, self.strategy)
        return found

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:
        """As parts of the best."""
        return scaled(scores)

    def cards(self, cycle: Cycle, row: int) -> tuple[int, ...]:
        """The devices of a pod on its node; RDMA devices and FPGAs at the PCIe switches of its cards, if possible."""
        parts = parts_of(cycle.pod, self.rules)
        found = self._found(cycle, row, parts, self._packed(cycle, row))
        devices = (FIRST[kind] + minor for kind in parts for minor in found[kind])
        terms = terms_of(cycle.pod, self.rules)
        if terms is None:
            return tuple(devices)
        here = kept(cycle.columns, row)
        left = (
            functions(here, kind, hint_of(terms, kind), minor)
            for kind in parts
            for minor in found[kind]
        )
        return (*devices, *(several[0] for several in left if several))

    def annotations(self, cycle: Cycle, row: int, cards: Sequence[int]) -> Mapping[str, str]:
        """The parts of its devices, for Koordinator's node agent. A pod without any loses its own annotation."""
        board, parts = kept(cycle.columns, row).board, parts_of(cycle.pod, self.rules)
        text = allocated(board, parts, cards)
        if not text and cycle.pod.devices is None:
            return {}
        return {ALLOCATED: text or NOTHING}

    def reserve(self, cycle: Cycle, row: int) -> str:
        """Refused if other pods were counted on the same devices since their choice."""
        return DEVICES_TAKEN if cycle.pod.uid in kept(cycle.columns, row).over else ""

    def unreserve(self, cycle: Cycle) -> None:
        """Nothing to undo: the columns release devices with the pod."""

    def _packed(self, cycle: Cycle, row: int) -> Packed:
        """The packing plugin as the chooser of the card of a share."""
        packer: Packs | None = cycle.data.get(PACKER)

        def packed(kind: str, part: Part, cards: Sequence[Card]) -> tuple[int, ...]:
            if packer is None or kind != "gpu" or not part.is_share or part.count > 1:
                return ()
            fitting = [card.minor for card in cards if card.takes(part.amounts)]
            found = packer.card(cycle, row, fitting) if fitting else -1
            return (found,) if found in fitting else ()

        return packed

    def _found(
        self, cycle: Cycle, row: int, parts: Mapping[str, Part], packed: Packed = not_packed
    ) -> dict[str, tuple[int, ...]]:
        """By kind: its devices on a node."""
        terms = terms_of(cycle.pod, self.rules) or NO_TERMS
        return choice(kept(cycle.columns, row), parts, terms, self.strategy, packed)


def _choices(
    columns: Columns, parts: Mapping[str, Part], terms: DeviceTerms | None, strategy: Strategy
) -> Choices:
    """The remembered choices for pods of these parts and terms."""
    known: dict[Any, Any] = columns.tables.setdefault("device_choices", {})
    if known.get("layout") != columns.layout or len(known) > MOST_KINDS:
        known.clear()
        known["layout"] = columns.layout
    found: Choices = known.setdefault((_encode(parts), _encode(terms), strategy), {})
    return found
