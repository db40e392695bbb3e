"""DeviceShare: parts of GPUs and whole ones, RDMA devices and FPGAs, by Koordinator's rules.

A profile names it; the default profile does not. Devices from 1,000 on are those for RDMA, from 2,000 on FPGAs.

Source: koordinator-sh/koordinator, "Fine-grained device scheduling"; docs/scheduling.md, "Shared GPUs".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

import msgspec
import numpy as np

from bus.events.devices import ALLOCATED, FIRST
from reactors.scheduling.allocations import allocated
from reactors.scheduling.columns import Bools, Columns, Ints, Rows
from reactors.scheduling.contract import (
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
from reactors.scheduling.device_boards import kept, parts_of
from reactors.scheduling.device_rooms import rooms
from reactors.scheduling.device_rules import (
    Part,
    Rules,
    Strategy,
    chosen,
    is_legal,
    requested,
)
from reactors.scheduling.hints import Hint
from reactors.scheduling.messages import DEVICES_TAKEN

#: A pod that has no devices.
NOTHING = "{}"
REASON = "Insufficient {} devices"
ILLEGAL = "the requests of {} devices are none that Koordinator knows"


class DeviceShare(msgspec.Struct, frozen=True):
    """Gives pods parts of cards. ``rules``: of which Koordinator; ``strategy``: spread (LeastAllocated) or pack."""

    name: ClassVar[str] = "DeviceShare"
    is_local: ClassVar[bool] = True
    helped_by: ClassVar[frozenset[Hint]] = frozenset({Hint.NODE, Hint.GONE})

    strategy: Strategy = "LeastAllocated"
    rules: Rules = "now"

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """Requests that mean nothing are refused; without any request there is nothing to say."""
        found = requested(cycle.pod.demand)
        for kind in sorted(found):
            if not is_legal(found[kind], self.rules):
                return Status(Code.UNRESOLVABLE, ILLEGAL.format(kind))
        if not found:
            return SKIP
        cycle.data[DEVICES] = True
        return None

    def filter(self, cycle: Cycle, rows: Rows) -> Sequence[Refused]:
        """Nodes without the room on so many of their devices."""
        columns, at = cycle.columns, np.arange(len(cycle.columns.nodes))[rows]
        known, refused = rooms(columns, at), list[Refused]()
        for kind, part in parts_of(cycle.pod, self.rules).items():
            devices = known.kinds[kind]
            lacking: Bools = devices.fitting(rows, part) < part.count
            if kind == "gpu" and not part.is_share:
                for one in np.flatnonzero(known.honors[at] & ~lacking).tolist():
                    lacking[one] = not self._of(columns, int(at[one]), kind, part)
            if lacking.any():
                never = devices.count[rows] < part.count
                refused.append(Refused(REASON.format(kind), lacking, lacking & never))
        return refused

    def distance(self, cycle: Cycle) -> int:
        """The same for every node."""
        return ONE_CHANGE

    def remedy(self, cycle: Cycle, row: int) -> str:
        """Room on devices."""
        parts, columns = parts_of(cycle.pod, self.rules), cycle.columns
        lacking = [kind for kind, part in parts.items() if not self._of(columns, row, kind, part)]
        return f"free {' and '.join(lacking) or 'other'} devices of node {columns.names[row]}"

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """How full the devices would be, over all kinds."""
        at = np.arange(len(cycle.columns.nodes))[rows]
        known, found = rooms(cycle.columns, at), np.zeros(at.size, np.int64)
        for kind, part in parts_of(cycle.pod, self.rules).items():
            found += known.kinds[kind].scores(rows, part, self.strategy)
        return found

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:
        """As parts of the best."""
        return scaled(scores)

    def cards(self, cycle: Cycle, row: int) -> tuple[int, ...]:
        """The devices of a pod on its node; RDMA devices and FPGAs at the PCIe switches of its cards, where these have some."""
        columns, found = cycle.columns, list[int]()
        board, near = kept(columns, row).board, set[str]()
        for kind, part in parts_of(cycle.pod, self.rules).items():
            minors = self._packed(cycle, row, kind, part) or self._of(
                columns, row, kind, part, near
            )
            near |= {board.switches[kind, one] for one in minors if (kind, one) in board.switches}
            found += (FIRST[kind] + minor for minor in minors)
        return tuple(found)

    def annotations(self, cycle: Cycle, row: int, cards: Sequence[int]) -> Mapping[str, str]:
        """The parts of its devices, as Koordinator's node agent reads them. What a pod without any said itself is taken from it."""
        board, parts = kept(cycle.columns, row).board, parts_of(cycle.pod, self.rules)
        text = allocated(board, parts, cards)
        if not text and cycle.pod.devices is None:
            return {}
        return {ALLOCATED: text or NOTHING}

    def reserve(self, cycle: Cycle, row: int) -> str:
        """Refused where others were counted on the same devices since they were chosen."""
        return DEVICES_TAKEN if cycle.pod.uid in kept(cycle.columns, row).over else ""

    def unreserve(self, cycle: Cycle) -> None:
        """The columns give devices back with the pod."""

    def _packed(self, cycle: Cycle, row: int, kind: str, part: Part) -> tuple[int, ...]:
        """The card of a share as who packs chooses it; () = as these rules do."""
        packer: Packs | None = cycle.data.get(PACKER)
        if packer is None or kind != "gpu" or not part.is_share or part.count > 1:
            return ()
        cards = kept(cycle.columns, row).devices[kind]
        fitting = [card.minor for card in cards if card.takes(part.amounts)]
        found = packer.card(cycle, row, fitting) if fitting else -1
        return (found,) if found in fitting else ()

    def _of(
        self, columns: Columns, row: int, kind: str, part: Part, near: Collection[str] = ()
    ) -> tuple[int, ...]:
        found = kept(columns, row)
        board, cards = found.board, found.devices.get(kind, ())
        if kind != "gpu":
            switches = {minor: at for (one, minor), at in board.switches.items() if one == kind}
            return chosen(part, cards, self.strategy, switch_of=switches, at_switch=near)
        # A share of one card is the better the fuller that is, or the emptier: nothing has to be near it.
        scope = None if part.is_share or board.table else board.scope
        return chosen(
            part, cards, self.strategy, table=board.table, honors=board.honors, scope=scope
        )
