"""The statuses to write on reservations, by the scheduler's state. Pure.

Source: koordinator-sh/koordinator, "Resource Reservation"; docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from bus.clock import parse_stamp
from bus.errors import TimestampError
from projections.cluster import Pod
from projections.cluster.reservations import FAILED, SUCCEEDED, Reservation, Status
from reactors.scheduling.cycle.passes import Scheduler
from reactors.scheduling.reservations import rules
from reactors.scheduling.reservations.questions import WITHOUT_NODE, KnownReservations

#: Most letters of a message, and most owners, in a fact of a reservation (:mod:`bus.sources.reservations`): a longer text would
#: never be observed as written.
LONGEST_MESSAGE = 256
MOST_OWNERS = 32


class Wanted(msgspec.Struct, frozen=True):
    """The status to write on a reservation; ``status`` None = an ended reservation due for deletion.

    ``lost``: the missing node, as the condition of this.
    """

    row: Reservation
    status: Status | None
    lost: str = ""
    #: The existing owners.
    owners: tuple[Pod, ...] = ()

    @property
    def is_destructive(self) -> bool:
        """Whether it ends the reservation, or deletes it, for good."""
        return self.status is None or self.status.phase in (SUCCEEDED, FAILED)


def wanted(
    scheduler: Scheduler, pods: Mapping[str, Pod], rows: Mapping[str, Reservation], at_us: int
) -> Iterator[Wanted]:
    """The status to write on every reservation with another one."""
    own = scheduler.reservations
    for uid, row in rows.items() if own is not None else ():
        assert own is not None
        if row.is_terminating:
            continue
        if rules.is_kept_too_long(row.phase, row.conditions, _over_since_us(row), at_us):
            yield Wanted(row, None)
            continue
        seen = Status(row.phase, row.node, row.allocatable, row.allocated, row.current_owners, row.conditions)  # fmt: skip
        found, lost = _status(scheduler, own.known, pods, seen, uid)
        if _differ(found, seen):
            owners = tuple(pods[pod] for pod in found.owners if pod in pods)
            yield Wanted(row, found, lost, owners)


def _status(
    scheduler: Scheduler, known: KnownReservations, pods: Mapping[str, Pod], seen: Status, uid: str
) -> tuple[Status, str]:
    own = known.status(uid)
    if seen.phase in (SUCCEEDED, FAILED):
        return seen, ""
    if own.phase == FAILED:
        return rules.expired(seen), ""
    if seen.phase in WITHOUT_NODE:
        for queue in scheduler.queues.values():
            one = queue.get(uid)
            if one is not None and one.reason:
                return rules.unschedulable(seen, one.reason[:LONGEST_MESSAGE]), ""
        return seen, ""
    if seen.node and seen.node not in scheduler.columns.row_of:
        return rules.expired(seen), seen.node
    if any(pod in pods and not pods[pod].node for pod in own.owners):
        # A pod not bound yet may still give back its part.
        return seen, ""
    given = {**dict.fromkeys(own.allocatable, 0), **own.allocated}
    found = msgspec.structs.replace(seen, allocated=given, owners=own.owners)
    if own.phase == SUCCEEDED:
        return rules.used_up(found), ""
    return found, ""


def _differ(one: Status, other: Status) -> bool:
    ours, theirs = ({(c.type, c.is_true, c.reason, c.message) for c in s.conditions} for s in (one, other))  # fmt: skip
    return (
        one.phase != other.phase
        or not _are_owners(one.owners, other.owners)
        # Resources missing here may be another program's; the next write drops them.
        or any(amount != other.allocated.get(name, 0) for name, amount in one.allocated.items())
        or ours != theirs
    )


def _are_owners(owners: Sequence[str], recorded: Sequence[str]) -> bool:
    """Whether the recorded owners are these; a fact has a few of them at most."""
    if len(recorded) >= MOST_OWNERS:
        return set(recorded) <= set(owners)
    return set(recorded) == set(owners)


def _over_since_us(row: Reservation) -> int:
    """The time since when a reservation is over, by its condition, else by its observation."""
    stamps = [one.changed or one.probed for one in row.conditions if one.type == "Ready"]
    try:
        return max((parse_stamp(one) for one in stamps if one), default=row.seen_us)
    except TimestampError:
        return row.seen_us
