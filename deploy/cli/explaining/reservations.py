"""Steps of ``bursar why`` for a reservation: its resources, and the pods in it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from bus.clock import format_stamp
from deploy.cli.explaining.placing import steps as waiting
from deploy.cli.explaining.withheld import NAMED, amounts_text, scheduler_of
from deploy.queries.scheduling import known
from projections.cluster.reservations import Reservation, Status, is_active
from projections.quota_trees.queries import Select
from reactors.engine.replica import Replica
from reactors.scheduling.reservations.rules import left

#: The prefix of a reservation's name.
PREFIX = "reservation/"


def steps(
    select: Select, cluster: str, name: str, sequence: int, now_us: int
) -> Iterator[dict[str, Any]]:
    """One step for the reservation of this name, and if it waits for a node, one with the reason."""
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
    """One step for each of these pods with a reservation."""
    replica = known(select, cluster)
    scheduler, pods = scheduler_of(replica), replica.cluster_state.pods
    own = scheduler.reservations if scheduler is not None else None
    for uid in sorted(uids):
        row = own.known.used(uid) if own is not None else None
        if row is not None and uid in pods:
            text = f"reservation {row.name} on node {row.node}"
            yield {
                "sequence": None, "time": format_stamp(now_us), "step": "uses",
                "about": f"Pod {pods[uid].namespace}/{pods[uid].name}", "quota": "", "reason": "",
                "numbers": "; ".join([text, *_numbers(replica, row, _status(replica, row))]),
                "based_on": sequence, "id": "",
            }  # fmt: skip


def _numbers(replica: Replica, row: Reservation, status: Status) -> Iterator[str]:
    if status.node:
        yield f"node {status.node}"
    reserved = status.allocatable or row.reserved
    yield f"reserves {amounts_text(reserved)}"
    pods = replica.cluster_state.pods
    users = [f"{pods[uid].namespace}/{pods[uid].name}" for uid in status.owners if uid in pods]
    if users:
        more = f" and {len(users) - NAMED} more" if len(users) > NAMED else ""
        yield f"{amounts_text(status.allocated)} used by {', '.join(users[:NAMED])}{more}"
    if is_active(status.phase, status.node):
        yield f"{amounts_text(left(reserved, status.allocated))} idle"
    if row.ttl_us is not None and 0 < row.ttl_us < 2**60:
        yield f"ends at {format_stamp(min(row.created_us + row.ttl_us, 2**52))}"


def _status(replica: Replica, row: Reservation) -> Status:
    """The scheduler's state of a reservation, else the reservation's own status."""
    scheduler = scheduler_of(replica)
    own = scheduler.reservations if scheduler is not None else None
    if own is not None:
        return own.known.status(row.uid)
    return Status(row.phase, row.node, row.reserved, row.allocated, row.current_owners)
