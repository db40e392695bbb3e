"""Coscheduling: pods of a gang are placed together or not at all.

Pods of a strict gang, and of the gangs of its group, are placed in one pass or wait. Pods of another gang keep the room found for
them, for the gang's waiting time, until enough of them have some. A gang complete once is strict no more: a pod replacing a lost
one starts by itself.

By the rules of Koordinator 1.0 (``rules``) a strict gang is placed pod by pod: its pods keep their room while they wait for the
others, and the gang's schedule cycle selects the pods to try (:mod:`reactors.scheduling.gangs.cycles`).

A gang is placed in one domain if its PodGroup names a label, and, where possible, by the profile's ``topology``.

Source: koordinator-sh/koordinator, "Gang Scheduling"; Kubernetes, "Gang Scheduling"; docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import ClassVar, Literal

import msgspec

from projections.cluster import Pod
from reactors.scheduling.columns.table import Bools, Columns
from reactors.scheduling.framework.context import PluginContext
from reactors.scheduling.framework.contract import Alike, Code, Cycle, Permission, Status
from reactors.scheduling.gangs.shape import Gang
from reactors.scheduling.plugins.domains import fitting, numbers

#: Most domains tried for a gang in a pass.
MOST_TRIED = 8


class Coscheduling(msgspec.Struct, frozen=True):
    """Gangs for the framework. Without a state of gangs, as at the check of a file, every pod starts by itself.

    ``topology``: labels of nodes from the widest domain to the narrowest. A strict gang is placed in the narrowest domain with
    room for it: with ``strategy`` ``pack`` in the one with the least room, with ``spread`` in the one with the most.
    """

    name: ClassVar[str] = "Coscheduling"
    is_local: ClassVar[bool] = True

    topology: tuple[str, ...] = ()
    strategy: Literal["pack", "spread"] = "pack"
    rules: Literal["current", "v1.0"] = "current"

    @property
    def counts_cycles(self) -> bool:
        """Whether pods of strict gangs are tried once a cycle."""
        return self.rules == "v1.0"

    def pre_enqueue(self, pod: Pod, context: PluginContext) -> str:
        """The reason of a gang's wait before any node is evaluated."""
        gang = context.gangs.of(pod.uid) if context.gangs is not None else None
        return gang.reason if gang is not None else ""

    def together(self, pod: Pod, context: PluginContext) -> Sequence[str]:
        """The gangs placed together with a pod's own, until it is complete, if one of them is strict."""
        gangs = context.gangs
        gang = gangs.of(pod.uid) if gangs is not None else None
        if gangs is None or gang is None or gang.is_complete or self.counts_cycles:
            return ()
        keys = gangs.group(gang.key)
        return keys if any(gangs.is_strict(key) for key in keys) else ()

    def members(self, names: Sequence[str], context: PluginContext) -> Sequence[str]:
        """The pods of these gangs; those of a complete one start by themselves."""
        assert context.gangs is not None
        found = (context.gangs.all.get(name) for name in names)
        return [uid for one in found if one is not None and not one.is_complete for uid in one.pods]

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """The nodes of the domain tried for its gang, or of the gang's required domain."""
        columns, gangs = cycle.columns, cycle.context.gangs
        if columns.domain is not None:
            return Status(Code.SUCCESS, nodes=columns.domain)
        cycles = gangs.cycles if gangs is not None else None
        if cycles is not None and (why := cycles.refusal(cycle.pod.uid)):
            return Status(Code.UNRESOLVABLE, why)
        gang = gangs.of(cycle.pod.uid) if gangs is not None else None
        must = self._must(gang.key, cycle.context) if gang is not None else ""
        return Status(Code.SUCCESS, nodes=_home(gang, must, columns)) if gang and must else None

    def are_apart(self, names: Sequence[str], context: PluginContext) -> bool:
        """Whether one of these gangs needs a domain."""
        return bool(self.topology) or any(self._must(name, context) for name in names)

    def must_be_near(self, name: str, context: PluginContext) -> bool:
        """Whether its PodGroup requires nodes with one value of a label."""
        return bool(self._must(name, context))

    def _must(self, name: str, context: PluginContext) -> str:
        needs = context.gangs.needs(name) if context.gangs is not None else None
        return needs.topology if needs is not None else ""

    def domains(
        self, name: str, kinds: Callable[[], Sequence[Alike]], context: PluginContext
    ) -> tuple[Sequence[Bools | None], str]:
        """The domains with room for a gang's needs, those of the narrowest label first; None = all nodes are allowed."""
        assert context.gangs is not None
        gang, needs = context.gangs.all[name], context.gangs.needs(name)
        must = self._must(name, context)
        if needs is None or not (must or self.topology):
            return (None,), ""
        alike = kinds()
        needed = (needs.least or 0) - len(gang.bound) - len(gang.assumed)
        spare = max(0, sum(one.count for one in alike) - max(0, needed))
        found: list[Bools | None] = []
        for level in (*reversed(self.topology), *((must,) if must else ())):
            by = numbers(context.columns, (must, level))
            if must:
                by[~_home(gang, must, context.columns)] = 0
            found += fitting(by, alike, spare, is_spread=self.strategy == "spread")
        del found[MOST_TRIED:]
        if not must:
            found.append(None)
        return found, f"no {must} has room for the {needed} pods that gang {name} still needs"

    def lacking(self, name: str, context: PluginContext) -> int:
        """The number of further pods needed by a gang."""
        assert context.gangs is not None
        return context.gangs.lacking(name)

    def missing(self, names: Sequence[str], placed: Collection[str], context: PluginContext) -> str:
        """The gangs with too few placed pods, as a text."""
        assert context.gangs is not None
        return context.gangs.missing(names, placed)

    def permit(self, cycle: Cycle, row: int) -> Permission:
        """Success when every gang of the group has enough pods with a node; else the pod waits, in a strict gang for this pass."""
        gangs = cycle.context.gangs
        gang = gangs.of(cycle.pod.uid) if gangs is not None else None
        if gangs is None or gang is None:
            return Permission(Code.SKIP)
        needs = gangs.needs(gang.key)
        if needs is not None and (needs.least is None or gang.is_complete):
            return Permission(Code.SUCCESS)
        missing = gangs.missing(gangs.group(gang.key))
        if not missing:
            return Permission(Code.SUCCESS)
        is_brief = needs is None or (gangs.is_strict(gang.key) and not self.counts_cycles)
        return Permission(Code.WAIT, missing, 0 if is_brief or needs is None else needs.wait_us)

    def permits(self, cycle: Cycle) -> Sequence[str]:
        """The waiting pods of the group."""
        gangs = cycle.context.gangs
        gang = gangs.of(cycle.pod.uid) if gangs is not None else None
        return gangs.waiting(gangs.group(gang.key)) if gangs is not None and gang else ()

    def forbids(self, cycle: Cycle) -> Sequence[str]:
        """The waiting pods of its strict gang: they would wait in vain."""
        gangs = cycle.context.gangs
        gang = gangs.of(cycle.pod.uid) if gangs is not None else None
        if gangs is None or gang is None or not gangs.is_strict(gang.key):
            return ()
        return gangs.waiting((gang.key,))


def _home(gang: Gang, key: str, columns: Columns) -> Bools:
    """The nodes for pods of a gang in one domain: the domain of one of its pods, else all nodes with any domain."""
    label = columns.labels.of(key)
    placed = ((uid, columns.counted(uid)) for uid in gang.pods)
    found = (
        (uid, label[columns.row_of[one.node]])
        for uid, one in placed
        if one and one.node in columns.row_of
    )
    _, value = min((one for one in found if one[1]), default=("", 0))
    return label == value if value else label > 0
