"""Koordinator's Reservations as facts. Pure: one record in, one event out.

Tenants write the template and the owners, so every text and list is bounded: where the owners are too many, none is published, and
nobody is taken for one.

Source: koordinator-sh/koordinator, scheduling.koordinator.sh/v1alpha1 Reservation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from bus.envelope import Event
from bus.errors import ObservationError
from bus.events.constraints import keys_of
from bus.events.pods import (
    ReservationCondition,
    ReservationObserved,
    ReservationOwner,
    ReservationVanished,
)
from bus.kube.watch import records
from bus.kube.watch.labels import LabelPolicy, kept_labels, named, user_named
from bus.kube.watch.records import LONGEST_ID, LONGEST_NAME, Metadata, Record
from bus.sources import pod_objects, pods
from bus.sources.constraints import constraints_of, is_kept
from bus.sources.limits import whole_limits
from bus.sources.sealed_users import sealed

ORDER = "scheduling.koordinator.sh/reservation-order"

#: Most bytes of a reservation's owners in its fact, as JSON, and of the whole before its labels and owners are left out.
LARGEST_OWNERS = 8 * 1024
LARGEST_FACT = 56 * 1024
#: Longest duration, phase, policy, quantity or reason in a fact; and longest message.
LONGEST_WORD = 64
LONGEST_MESSAGE = 256
LONGEST_RESOURCE = 128
#: Most conditions, amounts and current owners of a status in one fact.
MOST_CONDITIONS = 8
MOST_AMOUNTS = 24
MOST_OWNERS = 32

#: No quantity of a template lies deeper.
LEVELS = 8
#: Fields with quantities as values.
_QUANTITIES = frozenset({"requests", "limits", "overhead"})

_encode = msgspec.json.Encoder(order="sorted").encode


class TemplateSpec(pod_objects.PodSpec, rename="camel"):
    """``spec.template.spec``."""

    priority_class_name: str | None = None


class TemplateMetadata(msgspec.Struct):
    """``spec.template.metadata``."""

    namespace: str | None = None
    labels: dict[str, str] | None = None


class Template(msgspec.Struct):
    """``spec.template``."""

    metadata: TemplateMetadata | None = None
    spec: TemplateSpec | None = None


class Restricted(msgspec.Struct):
    """``spec.restrictedOptions``."""

    resources: list[str] | None = None


class Taint(msgspec.Struct):
    """An entry of ``spec.taints``; only its presence matters."""


class _Spec(msgspec.Struct, rename="camel"):
    """The decoded part of ``spec``."""

    #: The API server knows no types in it: :func:`_template` reads it.
    template: dict[str, Any] | None = None
    owners: list[ReservationOwner] | None = None
    ttl: str | None = None
    expires: str | None = None
    allocate_once: bool | None = None
    pre_allocation: bool = False
    unschedulable: bool = False
    taints: list[Taint] | None = None
    allocate_policy: str = ""
    restricted_options: Restricted | None = None


class WrittenCondition(msgspec.Struct, rename="camel"):
    """An entry of ``status.conditions``."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_probe_time: str | None = None


class Current(msgspec.Struct):
    """An entry of ``status.currentOwners``."""

    uid: str = ""


class _Status(msgspec.Struct, rename="camel"):
    """The decoded part of ``status``."""

    phase: str = ""
    node_name: str = ""
    conditions: list[WrittenCondition] | None = None
    allocatable: dict[str, str] | None = None
    allocated: dict[str, str] | None = None
    current_owners: list[Current] | None = None


class Reservation(msgspec.Struct):
    """The decoded part of a Reservation."""

    metadata: Metadata
    spec: _Spec | None = None
    status: _Status | None = None


_NO_SPEC, _NO_STATUS, _NO_TEMPLATE = _Spec(), _Status(), Template()
_NO_POD, _NO_METADATA, _NO_POD_STATUS = TemplateSpec(), TemplateMetadata(), pod_objects.PodStatus()


def translate(record: Record, labels: LabelPolicy) -> Event:
    """``reservation.observed`` or ``reservation.vanished``.

    Raises MalformedJsonError or ObservationError: park the record and list again.
    """
    found = records.decoded(record.object, Reservation)
    metadata = records.identified(found.metadata)
    fact: ReservationObserved | ReservationVanished
    if records.is_delete(record):
        fact = ReservationVanished(
            uid=metadata.uid, name=metadata.name, resource_version=metadata.resource_version
        )
    else:
        fact = _observed(metadata, found.spec or _NO_SPEC, found.status or _NO_STATUS, labels)
        if len(_encode(fact)) > LARGEST_FACT:
            fact = msgspec.structs.replace(fact, labels={}, owners=(), owners_cut=True)
    return records.event_of(
        fact, record, key=fact.uid, uid=fact.uid, resource_version=fact.resource_version
    )


def _observed(
    metadata: Metadata, spec: _Spec, status: _Status, policy: LabelPolicy
) -> ReservationObserved:
    template = _template(spec.template) if spec.template is not None else _NO_TEMPLATE
    pod, about = template.spec or _NO_POD, template.metadata or _NO_METADATA
    written = {**(about.labels or {}), **(metadata.labels or {})}
    labels, labels_cut = kept_labels(written, policy)
    resources, is_folded, resources_cut = pods.bounded_resources(
        pods.resources_of(pod, _NO_POD_STATUS, False)
    )
    constraints, constraints_cut = constraints_of(
        pod, pods.host_ports(pod), [], metadata.name, written, policy
    )
    owners = sealed(tuple(spec.owners or ()), tuple[ReservationOwner, ...], policy)
    is_cut = len(_encode(owners)) > LARGEST_OWNERS
    keys = {key for one in owners if not is_cut for key in keys_of(one.label_selector)}
    options = spec.restricted_options or Restricted()
    return ReservationObserved(
        uid=metadata.uid,
        name=metadata.name,
        resource_version=metadata.resource_version,
        created=records.stamp(metadata.creation_timestamp),
        deletion=records.stamp(metadata.deletion_timestamp),
        team=named(policy.team, written),
        user=user_named(policy, written),
        labels=labels,
        has_template=spec.template is not None,
        namespace=(about.namespace or "default")[:LONGEST_NAME],
        template_node=(pod.node_name or "")[:LONGEST_NAME],
        priority=pod.priority,
        priority_class=(pod.priority_class_name or "")[:LONGEST_NAME],
        resources=resources,
        limits=whole_limits(pods.limits_of(pod, _NO_POD_STATUS)),
        constraints=constraints,
        owners=() if is_cut else owners,
        unkept_labels=tuple(sorted(key for key in keys if not is_kept(key, policy))),
        owners_cut=is_cut,
        ttl=None if spec.ttl is None else spec.ttl[: LONGEST_WORD + 1],
        expires=records.stamp(spec.expires),
        allocate_once=spec.allocate_once is not False,
        pre_allocation=spec.pre_allocation,
        unschedulable=spec.unschedulable,
        has_taints=bool(spec.taints),
        allocate_policy=spec.allocate_policy[:LONGEST_WORD],
        restricted=tuple(
            one[:LONGEST_RESOURCE] for one in (options.resources or ())[:MOST_AMOUNTS]
        ),
        order=written.get(ORDER, "")[:LONGEST_WORD],
        phase=status.phase[:LONGEST_WORD],
        node=status.node_name[:LONGEST_NAME],
        conditions=tuple(map(_condition, (status.conditions or ())[:MOST_CONDITIONS])),
        allocatable=_amounts(status.allocatable),
        allocated=_amounts(status.allocated),
        current_owners=_uids(status.current_owners or ()),
        notes=records.notes(
            ("labels_cut", labels_cut),
            ("containers_folded", is_folded),
            ("resources_cut", resources_cut),
            ("constraints_cut", constraints_cut),
        ),
    )


def _template(written: dict[str, Any]) -> Template:
    try:
        return msgspec.convert(_texts(written), Template)
    except msgspec.ValidationError as error:
        raise ObservationError(f"spec.template: {error}") from None


def _texts(value: Any, levels: int = LEVELS) -> Any:
    """The same with quantities as texts: nobody has made ``cpu: 4`` one."""
    if isinstance(value, list) and levels:
        return [_texts(one, levels - 1) for one in value]
    if not isinstance(value, dict) or not levels:
        return value
    return {
        key: _quantities(one)
        if key in _QUANTITIES and isinstance(one, dict)
        else _texts(one, levels - 1)
        for key, one in value.items()
    }


def _quantities(written: dict[str, Any]) -> dict[str, Any]:
    return {
        name: str(one) if isinstance(one, int | float) and not isinstance(one, bool) else one
        for name, one in written.items()
    }


def _condition(one: WrittenCondition) -> ReservationCondition:
    return ReservationCondition(
        one.type[:LONGEST_WORD],
        one.status == "True",
        one.reason[:LONGEST_WORD],
        one.message[:LONGEST_MESSAGE],
        records.stamp(one.last_transition_time),
        records.stamp(one.last_probe_time),
    )


def _amounts(written: Mapping[str, str] | None) -> dict[str, str] | None:
    if written is None:
        return None
    # The order is that of names, so two watchers publish the same.
    kept = sorted(written)[:MOST_AMOUNTS]
    return {name[:LONGEST_RESOURCE]: written[name][:LONGEST_WORD] for name in kept}


def _uids(owners: Iterable[Current]) -> tuple[str, ...]:
    found = [one.uid for one in owners if one.uid and len(one.uid) <= LONGEST_ID]
    return tuple(found[:MOST_OWNERS])
