"""Free room of the devices of all nodes, as columns of integers: fitting nodes, and their fill with a pod.

The answer for each node is that of :func:`reactors.scheduling.devices.rules.chosen`, apart from boards allowing certain groups of
cards only.

Source: docs/scheduling.md, "Shared GPUs".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from reactors.scheduling.columns.device_requests import (
    CORE,
    FPGA,
    MEMORY,
    NPU_CORE,
    NPU_CPU,
    NPU_DVPP,
    RATIO,
    RDMA,
)
from reactors.scheduling.columns.nodes import MOST
from reactors.scheduling.columns.table import Bools, Columns, Ints, Rows
from reactors.scheduling.devices.boards import kept
from reactors.scheduling.devices.rules import SCORED, WHOLE, Card, Part, Strategy

#: By kind: the amounts of a device.
NAMES = {
    "gpu": (CORE, RATIO, MEMORY, NPU_CORE, NPU_CPU, NPU_DVPP),
    "rdma": (RDMA,),
    "fpga": (FPGA,),
}
#: Devices of a node with room in the columns from the beginning.
WIDTH = 8


class DeviceColumns:
    """The devices of one kind."""

    def __init__(self, rows: int, names: tuple[str, ...]) -> None:
        self.names = names
        #: By name [nodes x devices]; 0 for a missing or unhealthy device.
        self.total = {name: np.zeros((rows, WIDTH), np.int64) for name in names}
        self.free = {name: np.zeros((rows, WIDTH), np.int64) for name in names}
        #: The same of all devices of a node together.
        self.wholes = {name: np.zeros(rows, np.int64) for name in names}
        self.lefts = {name: np.zeros(rows, np.int64) for name in names}
        self.is_healthy: Bools = np.zeros((rows, WIDTH), np.bool_)
        #: The number of devices of a node, healthy or not.
        self.count: Ints = np.zeros(rows, np.int64)

    def write(self, row: int, cards: tuple[Card, ...]) -> None:
        """Write the room left on the devices of a node."""
        if not cards and not self.count[row]:
            return
        missing = len(cards) - self.is_healthy.shape[1]
        if missing > 0:
            for several in (self.total, self.free):
                for name, amounts in several.items():
                    several[name] = np.pad(amounts, ((0, 0), (0, missing)))
            self.is_healthy = np.pad(self.is_healthy, ((0, 0), (0, missing)))
        size = len(cards)
        self.count[row] = size
        self.is_healthy[row, size:] = False
        self.is_healthy[row, :size] = [bool(card.total) for card in cards]
        for name in self.names:
            whole = [min(card.total.get(name, 0), MOST) for card in cards]
            left = [min(card.free.get(name, 0), MOST) for card in cards]
            self.total[name][row, size:] = self.free[name][row, size:] = 0
            self.total[name][row, :size], self.free[name][row, :size] = whole, left
            self.wholes[name][row], self.lefts[name][row] = sum(whole), sum(left)

    def fitting(self, rows: Rows, part: Part) -> Ints:
        """The number of devices of each node with the part free."""
        fits = self.is_healthy[rows].copy()
        for name, amount in part.amounts.items():
            if name not in self.names:
                return np.zeros(len(fits), np.int64)
            fits &= self.free[name][rows] >= min(amount, MOST)
        if MEMORY in self.names:
            if RATIO in part.amounts and MEMORY not in part.amounts:
                amount = min(part.amounts[RATIO], WHOLE)
                fits &= self.free[MEMORY][rows] >= amount * self.total[MEMORY][rows] // WHOLE
            elif MEMORY in part.amounts and RATIO not in part.amounts:
                sizes = self.total[MEMORY][rows]
                needed = min(part.amounts[MEMORY], MOST) / np.maximum(sizes, 1) * WHOLE
                fits &= (self.free[RATIO][rows] >= needed.astype(np.int64)) | (sizes == 0)
        counted: Ints = fits.sum(axis=1, dtype=np.int64)
        return counted

    def scores(self, rows: Rows, part: Part, strategy: Strategy) -> Ints:
        """The fill of each node, 0 to 100, over its amounts."""
        found = counted = np.zeros(len(self.count[rows]), np.int64)
        for name in SCORED:
            if name not in self.names:
                continue
            whole, left = self.wholes[name][rows], self.lefts[name][rows]
            asked = min(part.amounts.get(name, 0), MOST)
            used = np.where(whole >= left, whole - left + asked, whole)
            room = np.maximum(whole - used, 0) if strategy == "LeastAllocated" else np.minimum(used, whole)  # fmt: skip
            found = found + room * 100 // np.maximum(whole, 1)
            counted = counted + (whole > 0)
        return found // np.maximum(counted, 1)


class Rooms:
    """All kinds of devices, of the nodes of one layout of the columns."""

    def __init__(self, columns: Columns) -> None:
        rows = len(columns.nodes)
        self.layout = columns.layout
        self.kinds = {kind: DeviceColumns(rows, names) for kind, names in NAMES.items()}
        #: Boards allowing certain groups of cards only.
        self.honors: Bools = np.zeros(rows, np.bool_)
        self._written_at: Ints = np.full(rows, -1, np.int64)

    def follow(self, columns: Columns, at: npt.NDArray[np.intp]) -> None:
        """Read these rows again if they changed."""
        for row in at[self._written_at[at] != columns.changed_at[at]].tolist():
            found = kept(columns, row)
            for kind, cards in found.devices.items():
                self.kinds[kind].write(row, tuple(cards))
            self.honors[row] = found.board.honors
            self._written_at[row] = columns.changed_at[row]


def rooms(columns: Columns, at: npt.NDArray[np.intp]) -> Rooms:
    """The free room on the devices of these rows, and of others as of their last question."""
    known: Rooms | None = columns.tables.get("device_rooms")
    if known is None or known.layout != columns.layout:
        known = columns.tables["device_rooms"] = Rooms(columns)
    known.follow(columns, at)
    return known
