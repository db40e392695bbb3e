"""The reservations that keep room from a pod: parts of steps of ``bursar why``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bus.kube.crds.keys import resource_text
from projections.cluster import Pod
from projections.cluster.reservations import requested
from reactors.engine.replica import Replica
from reactors.scheduling import NAME as SCHEDULING
from reactors.scheduling.cycle.passes import Scheduler
from reactors.scheduling.state import SchedulingState

#: Named reservations and pods.
NAMED = 3


def withheld(replica: Replica, pod: Pod) -> Iterator[str]:
    """The reservations whose kept room a pod lacks, a few of them."""
    scheduler = scheduler_of(replica)
    own = scheduler.reservations if scheduler is not None else None
    if scheduler is None or own is None:
        return
    columns, request, found = scheduler.columns, requested(pod.demand), 0
    matched = {one.uid for one in own.known.matched(pod)}
    for uid, row in sorted(replica.cluster_state.reservations.items()):
        kept, status = columns.counted(uid), own.known.status(uid)
        at = columns.row_of.get(kept.node) if kept is not None else None
        if kept is None or at is None or found == NAMED:
            continue
        rest = requested(kept.pod.demand)
        free = {
            name: int(columns.resources.free[at, column])
            for name, column in columns.resources.names.items()
        }
        lacking = [name for name, amount in request.items() if free.get(name, 0) < amount]
        if lacking and all(free.get(n, 0) + rest.get(n, 0) >= request[n] for n in lacking):
            whom = "pods like it, and has not enough left" if uid in matched else "other pods"
            found += 1
            yield f"node {kept.node}: reservation {row.name} keeps {amounts_text(rest)} for {whom}"
        elif uid in matched and status.phase == "Available" and lacking:
            found += 1
            yield f"node {kept.node}: reservation {row.name} is for it, and has {amounts_text(rest)} left"


def amounts_text(amounts: Mapping[str, int]) -> str:
    """Amounts of resources as a person writes them."""
    found = [f"{name} {resource_text(name, amount)}" for name, amount in sorted(amounts.items()) if amount]  # fmt: skip
    return ", ".join(found) or "nothing"


def scheduler_of(replica: Replica) -> Scheduler | None:
    """The scheduler; None without scheduling."""
    state = replica.states[SCHEDULING]
    assert isinstance(state, SchedulingState)
    return state.scheduler
