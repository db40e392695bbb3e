"""NodeNUMAResource: exclusive CPUs for pods of the classes LSE and LSR, and pods aligned to NUMA nodes, by Koordinator's rules.

A profile names it; the default profile does not. NodeResourceTopology objects report the CPU topology.

Source: koordinator-sh/koordinator, "CPU orchestration" and "NUMA Topology Scheduling"; docs/scheduling.md, "CPUs".
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Annotated, ClassVar

import msgspec
import numpy as np

from bus.events.constraints import HeldCpus
from projections.cluster import Pod
from reactors.scheduling.columns.table import Bools, Columns, Ints, Rows
from reactors.scheduling.cpus.giving import Ask, CpuRoom, given, impossible, refusal
from reactors.scheduling.cpus.picking import Bind, Strategy
from reactors.scheduling.cpus.rooms import ask_of, is_taken, policy_of, room_of, terms_of
from reactors.scheduling.cpus.wishes import PRODUCTION
from reactors.scheduling.framework.contract import ONE_CHANGE, SKIP, Code, Cycle, Refused, Status
from reactors.scheduling.queueing.hints import Hint
from reactors.scheduling.queueing.messages import CPUS_TAKEN


class _Kept(msgspec.Struct, frozen=True):
    """A node's CPUs and their holders, until the node changes."""

    layout: int
    changed_at: int
    room: CpuRoom


class _Policies(msgspec.Struct):
    """Nodes with a policy for NUMA nodes, up to a version of the columns."""

    layout: int
    version: int
    has: Bools


class NodeNUMAResource(msgspec.Struct, frozen=True):
    """CPUs and NUMA nodes of pods. ``bind``: the default position of CPUs; ``strategy``: packs or spreads parts of nodes."""

    name: ClassVar[str] = "NodeNUMAResource"
    is_local: ClassVar[bool] = True
    helped_by: ClassVar[frozenset[Hint]] = frozenset({Hint.NODE, Hint.CPUS, Hint.GONE})

    bind: Bind = "FullPCPUs"
    strategy: Strategy = "MostAllocated"
    #: Most pods on the same CPU.
    most_pods: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1

    def key(self, cycle: Cycle) -> Hashable:
        """Whether the pod is a production pod: only these get exclusive CPUs."""
        return cycle.pod.priority in PRODUCTION

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """A part of a CPU cannot be exclusive; pods without terms for CPUs or NUMA nodes matter on nodes with a policy only."""
        ask, why = ask_of(cycle.pod, self.bind)
        if why:
            return Status(Code.UNRESOLVABLE, why)
        if ask.wish is None and not ask.policy and not self._policies(cycle.columns).any():
            return SKIP
        return None

    def filter(self, cycle: Cycle, rows: Rows) -> Sequence[Refused]:
        """Nodes without the CPUs, or without them on NUMA nodes as required by the node's policy or the pod's."""
        ask, columns = ask_of(cycle.pod, self.bind)[0], cycle.columns
        at = np.arange(len(columns.nodes))[rows]
        asked = np.ones(at.size, np.bool_)
        if ask.wish is None and not ask.policy:
            asked = self._policies(columns)[rows]
        found: dict[str, tuple[Bools, Bools]] = {}
        for place in np.flatnonzero(asked).tolist():
            room = self.room(columns, int(at[place]))
            why = refusal(ask, room)
            if why:
                none = (np.zeros(at.size, np.bool_), np.zeros(at.size, np.bool_))
                nodes, never = found.setdefault(why, none)
                nodes[place], never[place] = True, bool(impossible(ask, room))
        return [Refused(why, *found[why]) for why in sorted(found)]

    def distance(self, cycle: Cycle) -> int:
        """The same for every node."""
        return ONE_CHANGE

    def remedy(self, cycle: Cycle, row: int) -> str:
        """The change for a node to satisfy the pod."""
        ask, room = ask_of(cycle.pod, self.bind)[0], self.room(cycle.columns, row)
        name, why = cycle.columns.names[row], impossible(ask, room)
        if ask.wish is not None and not room.topology.is_valid:
            return f"let Koordinator's node agent tell the CPUs of {name}: it has no NodeResourceTopology with them"
        if why:
            return (
                f"let the pod want its CPUs and NUMA nodes otherwise, as {name} cannot have it so"
            )
        if ask.wish is None:
            return f"free what {name} has on single NUMA nodes"
        return f"free CPUs of {name}: {room.unclaimed} of {len(room.topology.cpus)} are free"

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status | None:
        """Pods without exclusive CPUs are not scored."""
        return SKIP if ask_of(cycle.pod, self.bind)[0].wish is None else None

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """The fill, or the emptiness, of the part of the node with the CPUs; parts larger than NUMA nodes count less."""
        ask, columns = ask_of(cycle.pod, self.bind)[0], cycle.columns
        at = np.arange(len(columns.nodes))[rows].tolist()
        if ask.wish is None:
            return np.zeros(len(at), np.int64)
        return np.array([_score(ask, self.room(columns, row)) for row in at], np.int64)

    def cpus(self, cycle: Cycle, row: int) -> HeldCpus | None:
        """The CPUs of a pod, and its parts of NUMA nodes. The pod's own annotation of these is removed."""
        found = given(ask_of(cycle.pod, self.bind)[0], self.room(cycle.columns, row))[0]
        return HeldCpus() if found is None and _claims(cycle.pod) else found

    def reserve(self, cycle: Cycle, row: int) -> str:
        """Refused if other pods hold the same CPUs, or the node has them no more."""
        own = [
            one for one in cycle.columns.placed_on(row) if one.pod.uid == cycle.pod.uid and one.cpus
        ]
        return (
            CPUS_TAKEN if any(is_taken(one, self.room(cycle.columns, row)) for one in own) else ""
        )

    def unreserve(self, cycle: Cycle) -> None:
        """Nothing to undo: the columns release CPUs with the pod."""

    def _policies(self, columns: Columns) -> Bools:
        known: _Policies | None = columns.tables.get((self.name, "policies"))
        if known is None or known.layout != columns.layout:
            known = _Policies(columns.layout, -1, np.zeros(len(columns.nodes), np.bool_))
            columns.tables[(self.name, "policies")] = known
        if known.version != columns.version:
            for row in np.flatnonzero(columns.changed_at > known.version).tolist():
                node = columns.nodes[row]
                known.has[row] = bool(policy_of(node, columns.facts.topology(columns.names[row])))
            known.version = columns.version
        return known.has

    def room(self, columns: Columns, row: int) -> CpuRoom:
        """The CPUs and NUMA nodes of a node, with the holdings of its pods."""
        tables: dict[int, _Kept] = columns.tables.setdefault(self, {})
        known, changed_at = tables.get(row), int(columns.changed_at[row])
        if known is None or (known.layout, known.changed_at) != (columns.layout, changed_at):
            node = columns.nodes[row]
            room = room_of(
                node, columns.facts.topology(columns.names[row]), columns.placed_on(row), self.strategy,
                self.most_pods, self.bind,
            )  # fmt: skip
            known = tables[row] = _Kept(columns.layout, changed_at, room)
        return known.room


def _claims(pod: Pod) -> bool:
    """Whether a pod has an annotation of its own CPUs, even an unreadable one: the node's agent may read it."""
    return terms_of(pod).holds is not None


def _score(ask: Ask, room: CpuRoom) -> int:
    found = []
    for sizes, free in zip(room.topology.parts, room.free_by, strict=True):
        fullness = [
            (size - free[key] + ask.needs if room.strategy == "MostAllocated" else free[key] - ask.needs) * 100 // size
            for key, size in sizes.items()
            if free.get(key, 0) >= ask.needs
        ]  # fmt: skip
        found.append(max(fullness, default=-1))
    level = next((at for at, one in enumerate(found) if one >= 0), None)
    # Of nodes with equal parts the node as a whole decides.
    return 0 if level is None else (found[level] + found[-1]) // 2 >> level
