"""What a reservation keeps and who uses it, and what keeps room from a pod: steps of ``bursar why`` and parts of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from bus.clock import format_stamp
from bus.kube.crds.keys import resource_text
from deploy.queries.scheduling import known
from projections.cluster import Pod
from projections.cluster.reservations import Reservation, Status, is_active, requested
from projections.quota_trees.queries import Select
from reactors.engine.replica import Replica
from reactors.scheduling import NAME as SCHEDULING
from reactors.scheduling.passes import Scheduler
from reactors.scheduling.reservation_rules import left
from reactors.scheduling.state import SchedulingState

#: What is said before the name of a reservation.
PREFIX = "reservation/"
#: Reservations and pods that are named.
NAMED = 3


def steps(
    select: Select, cluster: str, name: str, sequence: int, now_us: int
) -> Iterator[dict[str, Any]]:
    """One step for the reservation of this name, and where it waits for a node one that says why."""
    from deploy.cli.explaining.placing import steps as waiting

    replica = known(select, cluster)
    rows, named = replica.cluster_state.reservations, name.removeprefix(PREFIX)
    for uid in sorted(uid for uid, row in rows.items() if named in (row.name, uid)):
        row, status = rows[uid], _status(replica, rows[uid])
        yield {
            "sequence": None, "time": format_stamp(now_us), "step": (status.phase or "waits").lower(),
            "about": f"reservation {row.name}", "quota": "", "reason": "",
            "numbers": "; ".join(_numbers(replica, row, status)), "based_on": sequence, "id": "",
        }  # fmt: skip
        yield from waiting(select, cluster, [uid], sequence, now_us)


def used(
    select: Select, cluster: str, uids: Collection[str], sequence: int, now_us: int
) -> Iterator[dict[str, Any]]:
    """One step for each of these pods that uses a reservation."""
    replica = known(select, cluster)
    scheduler, pods = _scheduler(replica), replica.cluster_state.pods
    own = scheduler.reservations if scheduler is not None else None
    for uid in sorted(uids):
        row = own.used(uid) if own is not None else None
        if row is not None and uid in pods:
            told = f"reservation {row.name} on node {row.node}"
            yield {
                "sequence": None, "time": format_stamp(now_us), "step": "uses",
                "about": f"Pod {pods[uid].namespace}/{pods[uid].name}", "quota": "", "reason": "",
                "numbers": "; ".join([told, *_numbers(replica, row, _status(replica, row))]),
                "based_on": sequence, "id": "",
            }  # fmt: skip


def withheld(replica: Replica, pod: Pod) -> Iterator[str]:
    """The reservations without whose room a pod lacks what it requests, a few of them."""
    scheduler = _scheduler(replica)
    own = scheduler.reservations if scheduler is not None else None
    if scheduler is None or own is None:
        return
    columns, request, found = scheduler.columns, requested(pod.demand), 0
    matched = {one.uid for one in own.matched(pod)}
    for uid, row in sorted(replica.cluster_state.reservations.items()):
        kept, status = columns.counted(uid), own.status(uid)
        at = columns.row_of.get(kept.node) if kept is not None else None
        if kept is None or at is None or found == NAMED:
            continue
        rest = requested(kept.pod.demand)
        free = {name: int(columns.free[at, column]) for name, column in columns.resources.items()}
        lacking = [name for name, amount in request.items() if free.get(name, 0) < amount]
        if lacking and all(free.get(n, 0) + rest.get(n, 0) >= request[n] for n in lacking):
            whom = "pods like it, and has not enough left" if uid in matched else "other pods"
            found += 1
            yield f"node {kept.node}: reservation {row.name} keeps {_amounts(rest)} for {whom}"
        elif uid in matched and status.phase == "Available" and lacking:
            found += 1
            yield f"node {kept.node}: reservation {row.name} is for it, and has {_amounts(rest)} left"


def _numbers(replica: Replica, row: Reservation, status: Status) -> Iterator[str]:
    if status.node:
        yield f"node {status.node}"
    reserved = status.allocatable or row.reserved
    yield f"reserves {_amounts(reserved)}"
    pods = replica.cluster_state.pods
    users = [f"{pods[uid].namespace}/{pods[uid].name}" for uid in status.owners if uid in pods]
    if users:
        more = f" and {len(users) - NAMED} more" if len(users) > NAMED else ""
        yield f"{_amounts(status.allocated)} used by {', '.join(users[:NAMED])}{more}"
    if is_active(status.phase, status.node):
        yield f"{_amounts(left(reserved, status.allocated))} idle"
    if row.ttl_us is not None and 0 < row.ttl_us < 2**60:
        yield f"ends at {format_stamp(min(row.created_us + row.ttl_us, 2**52))}"


def _amounts(amounts: Mapping[str, int]) -> str:
    found = [f"{name} {resource_text(name, amount)}" for name, amount in sorted(amounts.items()) if amount]  # fmt: skip
    return ", ".join(found) or "nothing"


def _status(replica: Replica, row: Reservation) -> Status:
    """What the scheduler knows of a reservation, else what its own status says."""
    scheduler = _scheduler(replica)
    own = scheduler.reservations if scheduler is not None else None
    if own is not None:
        return own.status(row.uid)
    return Status(row.phase, row.node, row.reserved, row.allocated, row.current_owners)


def _scheduler(replica: Replica) -> Scheduler | None:
    state = replica.states[SCHEDULING]
    assert isinstance(state, SchedulingState)
    return state.scheduler
