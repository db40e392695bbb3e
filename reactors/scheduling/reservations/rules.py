"""Koordinator's rules of Reservations: permitted users, fitting pods, the choice of one, and its next status.

Pure. Amounts are by resource, cpu in milli and all others whole.

A reservation is for pods matching one of its owners in all fields. The policy determines the pod's part of it: by default the
whole request has to fit into the reservation; ``Aligned`` takes the rest of the reservation first and the difference from the
node; ``Restricted`` takes reserved resources from the reservation alone, and all others from the node.

Source: koordinator-sh/koordinator, "Resource Reservation", pkg/scheduler/plugins/reservation; docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from bus.clock import SECOND_US
from bus.events.constraints import LabelSelector, is_valid, keys_of, selects
from bus.events.pods import OwnerObject, ReservationCondition, ReservationOwner
from projections.cluster.reservations import (
    AVAILABLE,
    FAILED,
    PENDING,
    SUCCEEDED,
    Amounts,
    Status,
    order_of,
)

#: Reasons of the conditions Scheduled and Ready.
SCHEDULED, UNSCHEDULABLE, EXPIRED = "Scheduled", "Unschedulable", "Expired"
#: The time from the end of a reservation, by expiry or use, to its deletion.
KEPT_US = 24 * 3600 * SECOND_US
#: Annotations of the pod standing for a reservation.
RESERVE_POD = "scheduling.koordinator.sh/reserve-pod"
RESERVATION_NAME = "scheduling.koordinator.sh/reservation-name"
RESERVATION_NODE = "scheduling.koordinator.sh/reservation-node"


class Reference(msgspec.Struct, frozen=True):
    """An owner reference of a pod; ``controller`` None = without this flag."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class Applicant(msgspec.Struct, frozen=True):
    """The fields of a pod for the choice of its reservations."""

    namespace: str
    name: str
    uid: str = ""
    api_version: str = "v1"
    labels: Mapping[str, str] = {}
    references: tuple[Reference, ...] = ()


def invalid(has_template: bool, owners: int, has_ttl: bool, has_expires: bool) -> str:
    """The reason why a reservation is invalid, as a token; "" = it is valid."""
    if not has_template:
        return "missing_template"
    if not owners:
        return "missing_owners"
    return "" if has_ttl or has_expires else "missing_ttl_or_expires"


def owns(
    owners: Iterable[ReservationOwner], pod: Applicant, unkept: frozenset[str] = frozenset()
) -> bool:
    """Whether a pod matches one of the owners. Selectors with a label of ``unkept``, missing in the history, match no pod."""
    return any(
        _is_object(one.object, pod)
        and _is_controlled(one.controller, pod)
        and _is_selected(one.label_selector, pod, unkept)
        for one in owners
    )


def _is_object(named: OwnerObject | None, pod: Applicant) -> bool:
    # Its kind is ignored: only pods are compared.
    return named is None or (
        _fits(named.uid, pod.uid)
        and _fits(named.name, pod.name)
        and _fits(named.namespace, pod.namespace)
        and _fits(named.api_version, pod.api_version)
    )


def _is_controlled(named: OwnerObject | None, pod: Applicant) -> bool:
    if named is None:
        return True
    return _fits(named.namespace, pod.namespace) and any(
        named.controller in (None, one.controller)
        and _fits(named.uid, one.uid)
        and _fits(named.name, one.name)
        and _fits(named.kind, one.kind)
        and _has_version(named, one)
        for one in pod.references
    )


def _has_version(named: OwnerObject, one: Reference) -> bool:
    """Whether a reference has the named API version. An unknown version fits if the uid is named, too."""
    is_unknown = not one.api_version and bool(named.uid)
    return is_unknown or _fits(named.api_version, one.api_version)


def _is_selected(selector: LabelSelector | None, pod: Applicant, unkept: frozenset[str]) -> bool:
    if selector is None:
        return True
    return not keys_of(selector) & unkept and is_valid(selector) and selects(selector, pod.labels)


def _fits(wanted: str, text: str) -> bool:
    return not wanted or wanted == text


def left(reserved: Amounts, allocated: Amounts) -> dict[str, int]:
    """The free part of a reservation."""
    return {name: max(0, amount - allocated.get(name, 0)) for name, amount in reserved.items()}


def fits(request: Amounts, reserved: Amounts, allocated: Amounts) -> bool:
    """Whether a reservation has room for a pod's whole request. Resources not reserved have no room."""
    free = left(reserved, allocated)
    return all(amount <= free.get(name, 0) for name, amount in request.items())


def from_node(
    policy: str, restricted: Iterable[str], request: Amounts, reserved: Amounts, allocated: Amounts
) -> dict[str, int] | None:
    """The part of the node for a pod in a reservation; None if it must not use the reservation."""
    free = left(reserved, allocated)
    if policy == "Aligned":
        return {
            name: amount - taken
            for name, amount in request.items()
            if (taken := min(amount, free.get(name, 0))) < amount
        }
    if policy != "Restricted":
        return {} if fits(request, reserved, allocated) else None
    bound = set(restricted) & reserved.keys() or reserved.keys()
    if any(request.get(name, 0) > free[name] for name in bound):
        return None
    return {
        name: amount - min(amount, free.get(name, 0))
        for name, amount in request.items()
        if name not in bound and amount > free.get(name, 0)
    }


def score(request: Amounts, reserved: Amounts, allocated: Amounts) -> int:
    """The fill of a reservation with a pod, 0 to 100: the mean over the reserved resources, in integers."""
    kept = {name: amount for name, amount in reserved.items() if amount}
    if not kept:
        return 0
    found = sum(
        100 * (request.get(name, 0) + allocated.get(name, 0)) // amount
        for name, amount in kept.items()
    )
    return min(100, found // len(kept))


def preferred(orders: Iterable[tuple[str, str]]) -> str | None:
    """Of (name, text of its label) the name with the smallest order; None without a valid order."""
    known = [(order, name) for name, text in orders if (order := order_of(text))]
    return min(known)[1] if known else None


def is_kept_too_long(
    phase: str, conditions: Iterable[ReservationCondition], changed_us: int, now_us: int
) -> bool:
    """Whether an ended object is due for deletion: its status stays readable for a day. ``changed_us``: the time of its end."""
    reasons = {one.reason for one in conditions}
    is_expired = phase == FAILED and EXPIRED in reasons
    is_used_up = phase == SUCCEEDED and SUCCEEDED in reasons
    return (is_expired or is_used_up) and now_us - changed_us > KEPT_US


def scheduled(status: Status, node: str, reserved: Amounts) -> Status:
    """The status after its placement."""
    return _with(
        msgspec.structs.replace(
            status, phase=AVAILABLE, node=node, allocatable=reserved, allocated=dict.fromkeys(reserved, 0)
        ),
        ReservationCondition(SCHEDULED, True, SCHEDULED),
        _ready(),
    )  # fmt: skip


def unschedulable(status: Status, message: str) -> Status:
    """The status of a reservation refused by every node. Nothing if it has a node already."""
    if any(one.type == SCHEDULED and one.is_true for one in status.conditions):
        return status
    pending = msgspec.structs.replace(status, phase=status.phase or PENDING)
    return _with(pending, ReservationCondition(SCHEDULED, False, UNSCHEDULABLE, message))


def allocated(status: Status, uid: str, request: Amounts, *, once: bool) -> Status:
    """Give a pod its part. A second call counts once."""
    if uid in status.owners:
        return status
    given = {
        name: status.allocated.get(name, 0) + request.get(name, 0)
        for name in (status.allocatable or status.allocated or request)
    }
    found = msgspec.structs.replace(status, allocated=given, owners=(*status.owners, uid))
    return used_up(found) if once else found


def used_up(status: Status) -> Status:
    """The status of a single-use reservation after its use."""
    over = msgspec.structs.replace(status, phase=SUCCEEDED)
    return _with(over, ReservationCondition("Ready", False, SUCCEEDED))


def unreserved(status: Status, uid: str, request: Amounts) -> Status:
    """Take back the part of a pod not bound after all, also after it used up the reservation."""
    found = _returned(status, uid, request)
    if status.phase != SUCCEEDED:
        return found
    return _with(msgspec.structs.replace(found, phase=AVAILABLE), _ready())


def owner_gone(status: Status, uid: str, request: Amounts) -> Status:
    """Take back the part of a deleted pod, while the reservation is open for others."""
    return _returned(status, uid, request) if status.phase == AVAILABLE else status


def expired(status: Status) -> Status:
    """The status of an expired reservation, or of one without its node, after any phase."""
    failed = msgspec.structs.replace(status, phase=FAILED)
    return _with(failed, ReservationCondition("Ready", False, EXPIRED))


def _returned(status: Status, uid: str, request: Amounts) -> Status:
    if uid not in status.owners:
        return status
    given = {
        name: max(0, amount - request.get(name, 0)) for name, amount in status.allocated.items()
    }
    owners = tuple(one for one in status.owners if one != uid)
    return msgspec.structs.replace(status, allocated=given, owners=owners)


def _ready() -> ReservationCondition:
    return ReservationCondition("Ready", True, AVAILABLE)


def _with(status: Status, *conditions: ReservationCondition) -> Status:
    """A status with these conditions in the place of others of their types."""
    found = {one.type: one for one in status.conditions} | {one.type: one for one in conditions}
    return msgspec.structs.replace(status, conditions=tuple(found.values()))


def reserve_annotations(name: str, node: str) -> dict[str, str]:
    """The annotations of the pod standing for a reservation; its node is not its own yet."""
    found = {RESERVE_POD: "true", RESERVATION_NAME: name}
    return found | {RESERVATION_NODE: node} if node else found
