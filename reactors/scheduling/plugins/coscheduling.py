"""Coscheduling: pods of a gang get nodes together or not at all.

Pods of a strict gang, and of the gangs of its group, are placed in one pass or wait. Those of another gang keep the room that they
find, for as long as the gang says, until enough of them have some. Who was complete once is strict no more: a pod that takes
the place of a lost one starts by itself.

Source: koordinator-sh/koordinator, "Gang Scheduling"; Kubernetes, "Gang Scheduling"; docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar

import msgspec

from projections.cluster import Pod
from reactors.scheduling.columns import Columns
from reactors.scheduling.contract import Code, Cycle, Permission


class Coscheduling(msgspec.Struct, frozen=True):
    """Asks what is known of gangs; where nobody keeps that, as for a file that is checked, every pod starts by itself."""

    name: ClassVar[str] = "Coscheduling"
    is_local: ClassVar[bool] = True

    def pre_enqueue(self, pod: Pod, columns: Columns) -> str:
        """What its gang lacks before any node is looked at."""
        gang = columns.gangs.of(pod.uid) if columns.gangs is not None else None
        return gang.reason if gang is not None else ""

    def together(self, pod: Pod, columns: Columns) -> Sequence[str]:
        """The gangs that are placed together with a pod's own, while that is not complete and one of them is strict."""
        gangs = columns.gangs
        gang = gangs.of(pod.uid) if gangs is not None else None
        if gangs is None or gang is None or gang.is_complete:
            return ()
        keys = gangs.group(gang.key)
        return keys if any(gangs.is_strict(key) for key in keys) else ()

    def members(self, names: Sequence[str], columns: Columns) -> Sequence[str]:
        """The pods of these gangs; those of a complete one start by themselves."""
        assert columns.gangs is not None
        found = (columns.gangs.all.get(name) for name in names)
        return [uid for one in found if one is not None and not one.is_complete for uid in one.pods]

    def missing(self, names: Sequence[str], placed: Collection[str], columns: Columns) -> str:
        """Which gang has too few pods with a node."""
        assert columns.gangs is not None
        return columns.gangs.missing(names, placed)

    def permit(self, cycle: Cycle, row: int) -> Permission:
        """Success when every gang of the group has enough pods with a node; else the pod waits, in a strict gang for this pass."""
        gangs = cycle.columns.gangs
        gang = gangs.of(cycle.pod.uid) if gangs is not None else None
        if gangs is None or gang is None:
            return Permission(Code.SKIP)
        needs = gangs.needs(gang.key)
        if needs is not None and (needs.least is None or gang.is_complete):
            return Permission(Code.SUCCESS)
        missing = gangs.missing(gangs.group(gang.key))
        if not missing:
            return Permission(Code.SUCCESS)
        is_brief = needs is None or gangs.is_strict(gang.key)
        return Permission(Code.WAIT, missing, 0 if is_brief or needs is None else needs.wait_us)

    def permits(self, cycle: Cycle) -> Sequence[str]:
        """The pods of the group that wait."""
        gangs = cycle.columns.gangs
        gang = gangs.of(cycle.pod.uid) if gangs is not None else None
        return gangs.waiting(gangs.group(gang.key)) if gangs is not None and gang else ()

    def forbids(self, cycle: Cycle) -> Sequence[str]:
        """The pods of its strict gang that wait: they would wait in vain."""
        gangs = cycle.columns.gangs
        gang = gangs.of(cycle.pod.uid) if gangs is not None else None
        if gangs is None or gang is None or not gangs.is_strict(gang.key):
            return ()
        return gangs.waiting((gang.key,))
