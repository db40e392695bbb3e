"""The progress of a gang, and the causes of its pods' wait: steps of ``bursar why gang/NAMESPACE/NAME``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bus.clock import SECOND_US, format_stamp
from deploy.cli.explaining.placing import steps as pods
from deploy.queries.scheduling import known, known_gangs
from projections.cluster import ClusterState
from projections.quota_trees.queries import Select
from reactors.scheduling.gangs import phases
from reactors.scheduling.gangs.shape import Gang
from reactors.scheduling.gangs.state import Gangs

#: The prefix of a gang's name.
PREFIX = "gang/"
#: Pods of a gang with a line of their own.
MOST_SHOWN = 5


def steps(
    select: Select, cluster: str, name: str, sequence: int, now_us: int
) -> Iterator[dict[str, Any]]:
    """One step for each gang of this name, ``NAMESPACE/NAME`` or ``NAME``, and for the first of its waiting pods.

    Also for a PodGroup without remaining pods.
    """
    replica = known(select, cluster)
    gangs, state = known_gangs(replica, now_us), replica.cluster_state
    named = name.removeprefix(PREFIX)
    groups = {f"{one.namespace}/{one.name}" for one in state.pod_groups.values()}
    for key in sorted({*gangs.all, *groups}):
        if named not in (key, key.partition("/")[2]):
            continue
        gang = gangs.all.get(key, Gang(key))
        numbers = [*_numbers(gangs, gang), *_phase(state, gangs, key)]
        yield {
            "sequence": None, "time": format_stamp(now_us), "step": _step(gang), "about": f"gang {key}",
            "quota": "", "reason": gang.reason, "numbers": "; ".join(numbers),
            "based_on": sequence, "id": "",
        }  # fmt: skip
        waiting = [uid for uid in gang.pods if uid not in gang.bound and uid not in gang.assumed]
        yield from pods(select, cluster, waiting[:MOST_SHOWN], sequence, now_us)


def _phase(state: ClusterState, gangs: Gangs, key: str) -> Iterator[str]:
    """The phase by Koordinator's controller for the existing pods; a complete gang was Scheduled once."""
    needs = gangs.needs(key)
    if needs is None or needs.least is None:
        return
    pods = [
        one
        for one in state.pods.values()
        if one.constraints is not None
        and one.constraints.gang is not None
        and f"{one.namespace}/{one.constraints.gang.name}" == key
    ]
    begun = phases.SCHEDULED if key in gangs.all and gangs.all[key].is_complete else ""
    bound = sum(bool(one.node) for one in pods)
    yield f"phase {phases.settled(begun, needs.least, [one.phase for one in pods], bound)}"


def _step(gang: Gang) -> str:
    if gang.is_complete:
        return "complete"
    return "incomplete" if gang.reason else "waits"


def _numbers(gangs: Gangs, gang: Gang) -> Iterator[str]:
    needs = gangs.needs(gang.key)
    if needs is not None and needs.least is not None:
        wait = f"{needs.wait_us // SECOND_US} s at most"
        mode = "in one pass" if needs.is_strict else f"those that have a node wait {wait}"
        yield f"{needs.least} start together, {mode}"
    if needs is not None and needs.topology:
        yield f"all on nodes of one {needs.topology}"
    there = f"{len(gang.pods)} pods: {len(gang.bound)} on nodes, {len(gang.assumed)} to be bound"
    yield there + (f", {len(gang.waiting)} of them wait for the others" if gang.waiting else "")
    others = [key for key in gangs.group(gang.key) if key != gang.key]
    if others:
        yield f"together with {', '.join(others)}"
