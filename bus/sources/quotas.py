"""Quotas as facts: Bursar's own and Koordinator's. Pure: one record in, one event out.

An unusable quota object (older than a rule, or stored past the webhook) is still an observation. The fact has its
``problem`` and no amounts: views show the quota, and it never counts as unlimited.

Koordinator keeps its extensions of Kubernetes in labels and annotations ``quota.scheduling.koordinator.sh/…``. Its
built-in quotas have limits beyond 64 bits of milli-cores; these are cut, as Go's ``MilliValue`` does.

Source: docs/quotas.md; docs/wrong-input.md C.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bus import strict
from bus.envelope import Event
from bus.errors import MalformedJsonError, QuantityError
from bus.events.quotas import (
    Budget,
    NamespaceRequirement,
    Queue,
    QuotaObserved,
    QuotaVanished,
    Serves,
)
from bus.kube.crds import keys, quotas, rules
from bus.kube.crds.selectors import NamespaceSelector
from bus.kube.watch import records
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import LARGEST_BODY, Metadata, Record, TooLargeError

PREFIX = "quota.scheduling.koordinator.sh/"
#: The default parent of quotas; no object.
ROOT = "koordinator-root-quota"
#: Most namespaces, or keys, of one ElasticQuota.
MOST_NAMED = 1024

_Texts = dict[str, str]


class QuotaMetadata(Metadata, rename="camel"):
    """The decoded part of a quota's metadata."""

    generation: int = 0


class Object(msgspec.Struct):
    """What is decoded of a quota. Its own model checks its spec."""

    metadata: QuotaMetadata
    spec: Any = None


class _ElasticSpec(msgspec.Struct):
    min: dict[str, str | int] | None = None
    max: dict[str, str | int] | None = None


class _UnusableError(Exception):
    """Why an object cannot be used; caught here."""


def translate(record: Record, labels: LabelPolicy, *, kind: str) -> Event:
    """``quota.observed`` or ``quota.vanished`` of one ``kind``: BizGroupResourceQuota or ElasticQuota.

    Raises MalformedJsonError or ObservationError: park the record and list again.
    """
    found = records.decoded(record.object, Object)
    metadata = found.metadata
    records.identified(metadata)
    namespace = metadata.namespace or ""
    if records.is_delete(record):
        vanished = QuotaVanished(
            uid=metadata.uid,
            kind=kind,
            name=metadata.name,
            namespace=namespace,
            resource_version=metadata.resource_version,
        )
        return _event(vanished, record)
    read = _elastic if kind == "ElasticQuota" else _business
    fact = QuotaObserved(
        uid=metadata.uid,
        kind=kind,
        name=metadata.name,
        namespace=namespace,
        resource_version=metadata.resource_version,
        created=records.stamp(metadata.creation_timestamp),
        generation=metadata.generation,
        **read(found),
    )
    try:
        return _event(fact, record)
    except TooLargeError as error:
        bare = QuotaObserved(
            uid=fact.uid,
            kind=kind,
            name=fact.name,
            namespace=namespace,
            resource_version=fact.resource_version,
            created=fact.created,
            generation=fact.generation,
            parent=fact.parent,
            tree=fact.tree,
            problem=f"spec: {error}",
        )
        return _event(bare, record)


def _event(fact: QuotaObserved | QuotaVanished, record: Record) -> Event:
    return records.event_of(
        fact, record, key=fact.uid, uid=fact.uid, resource_version=fact.resource_version
    )


def _business(found: Object) -> dict[str, Any]:
    spec, problems = quotas.understood(found.metadata.name, found.spec)
    if spec is None:
        return {"problem": "; ".join(problems), "parent": _named_parent(found.spec)}
    notes: list[str] = []
    amounts = _amounts(spec.hard, keys.key_amount, notes)
    elastic = spec.elastic or quotas.ElasticField()
    weight = elastic.shared_weight
    return {
        "parent": spec.parent_biz_group,
        "tree": elastic.tree_id,
        "hard": {key: n for key, n in amounts.items() if not key.startswith(keys.CASH)},
        "cash": {
            key.removeprefix(keys.CASH): n
            for key, n in amounts.items()
            if key.startswith(keys.CASH)
        },
        "min": _amounts(elastic.min, keys.resource_amount, notes),
        "max": _amounts(elastic.max, keys.resource_amount, notes),
        "weight": None if weight is None else _amounts(weight, keys.resource_amount, notes),
        "lends": elastic.allow_lent_resource,
        "is_parent": elastic.is_parent,
        "budget": _budget(spec.budget),
        "queue": _queue(spec.queue),
        "serves": Serves(tuple(dict.fromkeys(spec.namespaces)), _selector(spec.namespace_selector)),
        "charges_requests": spec.unstated_limits == "ChargeRequests",
        "notes": tuple(dict.fromkeys(notes)),
    }


def _named_parent(spec: Any) -> str:
    """The parent of an unusable quota, if that much is readable: its place in the tree is shown."""
    parent = spec.get("parentBizGroup") if isinstance(spec, dict) else None
    return parent if isinstance(parent, str) and rules.is_label(parent) else ""


def _amounts(found: dict[str, keys.Quantity], amount: Any, notes: list[str]) -> dict[str, int]:
    result = {}
    for key in sorted(found):
        result[key], is_rounded = amount(key, found[key])
        if is_rounded:
            notes.append(f"rounded_up:{key}")
    return result


def _selector(selector: NamespaceSelector | None) -> tuple[NamespaceRequirement, ...]:
    """All requirements of a selector, in an order independent of its spelling."""
    if selector is None:
        return ()
    found = [
        NamespaceRequirement(key, "In", (value,)) for key, value in selector.match_labels.items()
    ]
    for one in selector.match_expressions:
        found.append(NamespaceRequirement(one.key, one.operator, tuple(sorted(set(one.values)))))
    return tuple(sorted(set(found), key=lambda one: (one.key, one.operator, one.values)))


def _budget(budget: quotas.BudgetField | None) -> Budget:
    if budget is None:
        return Budget()
    windows = tuple(window.seconds() for window in budget.windows)
    return Budget(
        period=budget.period or ("Windows" if windows else "Total"),
        time_zone=budget.time_zone,
        windows=windows,
        exhaustion=budget.exhaustion,
        grace_seconds=budget.grace_seconds if budget.exhaustion == "GraceThenEvict" else 0,
    )


def _queue(queue: quotas.QueueField | None) -> Queue:
    if queue is None:
        return Queue()
    return Queue(queue.hold, queue.order, queue.max_head_delay_seconds, queue.gang)


# Koordinator's.


def _elastic(found: Object) -> dict[str, Any]:
    labels = found.metadata.labels or {}
    annotations = found.metadata.annotations or {}
    parent = labels.get(PREFIX + "parent", ROOT)
    place = {"parent": "" if parent == ROOT else parent[: records.LONGEST_NAME]}
    notes: list[str] = []
    try:
        spec = msgspec.convert(found.spec or {}, _ElasticSpec)
        return {
            **place,
            "tree": labels.get(PREFIX + "tree-id", "")[: records.LONGEST_NAME],
            "min": _resources("spec.min", spec.min or {}, notes),
            "max": _resources("spec.max", spec.max or {}, notes),
            "weight": _weight(annotations.get(PREFIX + "shared-weight")),
            "lends": labels.get(PREFIX + "allow-lent-resource") != "false",
            "is_parent": labels.get(PREFIX + "is-parent") == "true",
            "tree_root": labels.get(PREFIX + "is-root") == "true",
            "force_update": labels.get(PREFIX + "allow-force-update") == "true",
            "strict_max_keys": _names(annotations, "max-strict-check-resource-keys"),
            "namespaces": _names(annotations, "namespaces"),
            "notes": tuple(dict.fromkeys(notes)),
        }
    except msgspec.ValidationError as error:
        return {**place, "problem": f"spec: {error}"}
    except _UnusableError as error:
        return {**place, "problem": str(error)}


def _resources(field: str, found: dict[str, str | int], notes: list[str]) -> dict[str, int]:
    if len(found) > MOST_NAMED:
        raise _UnusableError(f"{field}: more than {MOST_NAMED} resources")
    result = {}
    for name in sorted(found):
        try:
            result[name], is_rounded = keys.resource_amount(name, found[name])
        except QuantityError as error:
            if not _is_beyond(found[name]):
                raise _UnusableError(f"{field}[{name[:80]}]: {error.reason}") from None
            result[name], is_rounded = keys.LARGEST, False
        if is_rounded:
            notes.append(f"rounded_up:{name}")
    return result


def _is_beyond(quantity: str | int) -> bool:
    """Whether it is a whole number above the limit: Koordinator's way to say unlimited."""
    text = str(quantity)
    return text.isascii() and text.isdigit() and len(text) <= len(str(keys.LARGEST))


def _weight(annotation: str | None) -> dict[str, int] | None:
    """The weight as written; None where it is missing, illegal or zero, as Koordinator takes ``max`` then."""
    if annotation is None:
        return None
    try:
        found = msgspec.convert(_json(annotation), dict[str, str | int])
        weight = _resources("weight", found, [])
    except (MalformedJsonError, msgspec.ValidationError, _UnusableError):
        return None
    return weight if any(weight.values()) else None


def _names(annotations: _Texts, name: str) -> tuple[str, ...]:
    text = annotations.get(PREFIX + name)
    if not text:
        return ()
    try:
        found = msgspec.convert(_json(text), list[str])
    except (MalformedJsonError, msgspec.ValidationError):
        raise _UnusableError(f"metadata.annotations[{PREFIX}{name}]: no JSON list") from None
    if len(found) > MOST_NAMED or any(len(one) > records.LONGEST_NAME for one in found):
        raise _UnusableError(f"metadata.annotations[{PREFIX}{name}]: too many, or too long")
    return tuple(dict.fromkeys(found))


def _json(text: str) -> object:
    return strict.loads(text.encode(), max_bytes=LARGEST_BODY)
