"""Reads what an object of a governed kind asks for, by the entry of its kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import msgspec

from bus.errors import DemandError
from bus.kube.kinds import paths
from bus.kube.kinds.paths import bounded, count, find, one
from bus.kube.kinds.runtime_use import key_of, use_of
from bus.kube.kinds.shape import QUEUE_ANNOTATION, QUOTA_LABELS, Ask, Holds, Kind, PodSet
from bus.kube.kinds.templates import MOST_NAMED, Template, claims_of, pod_needs, template_at

#: Most pod sets of one object (docs/wrong-input.md D19).
MOST_SETS = 64
_QUOTA_LABELS = frozenset(QUOTA_LABELS)
#: Longest label value that Kubernetes accepts; the templates of custom resources are not checked by it.
LONGEST_LABEL = 63


class _Set(msgspec.Struct, frozen=True):
    at: str
    template: Template
    #: Of one pod.
    demand: dict[str, int]
    pods: int
    #: The containers of it that state no limit, or no request.
    unstated: dict[str, tuple[str, ...]]


def asked(kind: Kind, object: Mapping[str, Any]) -> Ask:
    """What ``object``, the decoded JSON of one of ``kind``, asks for now.

    Raises DemandError (fields ``path``, ``reason``) for a count that is none, an unreadable quantity, an amount above
    2**63 - 1, a gang larger than the workload, more than 64 pod sets, or templates that name different quotas: refuse
    the object. Source: docs/quotas.md; docs/wrong-input.md D1 to D5, D15, D19.
    """
    sets = list(_sets(kind, object))
    pods = bounded(sum(one.pods for one in sets), "spec")
    _check_gang(kind, object, pods)
    seconds = count(object, kind.deadline, default=-1, most=paths.MOST)
    priorities = (one.template.spec.priority_class_name for one in sets)
    scaled_set = _scaled_set(kind, sets)
    runtime = use_of(object) if kind.has_runtime else None
    rests, total = _rests(kind, object), _total(sets) if runtime is None else {key_of(runtime): 1}
    waits = rests and not _has_ended(kind, object)
    return Ask(
        demand={} if rests else total,
        pods=0 if rests else pods,
        deadline_s=None if seconds < 0 else seconds,
        suspended=rests,
        labels=_labels(object, sets),
        priority_class=next(filter(None, priorities), "")[:253],
        per_replica=scaled_set.demand if scaled_set else None,
        replicas=scaled_set.pods if scaled_set else None,
        wanted=total if waits else {},
        held=waits and kind.queues and _is_queued(object),
        unstated=_unstated(sets),
        claims=tuple(name for one in sets for name in claims_of(one.template.spec)),
        runtime=runtime or msgspec.UNSET,
    )


def scaled(ask: Ask, replicas: int) -> Ask:
    """What the workload of ``ask`` asks for once it is scaled to ``replicas``; nothing while it is suspended.

    Raises DemandError where the kind has no scale, or the amounts pass 2**63 - 1.
    """
    if ask.per_replica is None or ask.replicas is None:
        raise DemandError(path="spec.replicas", reason="this kind cannot be scaled")
    more = bounded(replicas, "spec.replicas", paths.MOST_REPLICAS) - ask.replicas
    if ask.suspended:
        return msgspec.structs.replace(ask, replicas=replicas)
    demand = dict(ask.demand)
    for name, amount in ask.per_replica.items():
        demand[name] = bounded(demand.get(name, 0) + more * amount, f"spec: {name}")
    demand = {name: amount for name, amount in demand.items() if amount}
    return msgspec.structs.replace(ask, demand=demand, pods=ask.pods + more, replicas=replicas)


def suspends(kind: Kind, object: Mapping[str, Any]) -> bool:
    """Whether the controller of ``object`` would take the flag that keeps it from running."""
    if any(value for path in kind.suspends_without for _, value in find(object, path)):
        return False
    return bool(kind.suspend) and _hold(object, kind.suspends_if)


def _sets(kind: Kind, object: Mapping[str, Any]) -> Iterator[_Set]:
    found = 0
    for entry in kind.sets:
        holders = list(find(object, entry.at))
        found += len(holders)
        if found > MOST_SETS:
            raise DemandError(path=entry.at, reason=f"more than {MOST_SETS} pod sets")
        if not holders and not entry.optional:
            raise DemandError(path=entry.at, reason="missing")
        for at, holder in holders:
            written = one(holder, entry.template, at)
            if written is None:
                raise DemandError(path=f"{at}.{entry.template}", reason="missing")
            template = template_at(written[1], written[0])
            demand, unstated = pod_needs(template, written[0])
            yield _Set(at, template, demand, pods_of(entry, holder, at), unstated)


def pods_of(entry: PodSet, holder: Any, at: str) -> int:
    """How many pods a set asks for. Raises DemandError for a count that is none."""
    pods = count(holder, entry.replicas, at, default=entry.default)
    if not (entry.at_least or entry.at_most or entry.times):
        return pods
    pods = max(pods, count(holder, entry.at_least, at, default=pods))
    pods = min(pods, count(holder, entry.at_most, at, default=pods))
    return pods * count(holder, entry.times, at, default=1)


def _total(sets: list[_Set]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one_set in sets:
        for name, amount in one_set.demand.items():
            sum_of = total.get(name, 0) + amount * one_set.pods
            if not 0 <= sum_of <= paths.MOST:
                bounded(sum_of, f"{one_set.at}: {name}")
            total[name] = sum_of
    return {name: amount for name, amount in total.items() if amount}


def _unstated(sets: list[_Set]) -> dict[str, tuple[str, ...]]:
    """Also of sets of no pods: they may be scaled."""
    if len(sets) == 1:
        return sets[0].unstated
    found: dict[str, dict[str, None]] = {}
    for one_set in sets:
        for key, names in one_set.unstated.items():
            found.setdefault(key, {}).update(dict.fromkeys(names))
    return {key: tuple(names)[:MOST_NAMED] for key, names in sorted(found.items())}


def _check_gang(kind: Kind, object: Mapping[str, Any], pods: int) -> None:
    """A gang of nobody, or of more pods than there are, can never start (docs/wrong-input.md D15)."""
    if not kind.gang or (found := one(object, kind.gang)) is None:
        return
    if count(object, kind.gang, default=0) < 1:
        raise DemandError(path=found[0], reason="a gang of nobody")
    if found[1] > pods:
        raise DemandError(path=found[0], reason=f"more than the {pods} pods of the workload")


def _scaled_set(kind: Kind, sets: list[_Set]) -> _Set | None:
    if len(sets) == 1:
        return sets[0]
    return next((one for one in sets if one.at == kind.scales), None)


def _rests(kind: Kind, object: Mapping[str, Any]) -> bool:
    """Whether it holds nothing now: suspended, stopped or ended."""
    if kind.active and any(running for _, running in find(object, kind.active)):
        return False
    if kind.suspend and (found := one(object, kind.suspend)):
        if type(found[1]) is not bool:
            raise DemandError(path=found[0], reason="neither true nor false")
        if found[1]:
            return True
    # By presence, whatever it says.
    if kind.stopped and kind.stopped in paths.mapping(object, "metadata.annotations"):
        return True
    return _has_ended(kind, object)


def _is_queued(object: Mapping[str, Any]) -> bool:
    return bool(paths.mapping(object, "metadata.annotations").get(QUEUE_ANNOTATION))


def _has_ended(kind: Kind, object: Mapping[str, Any]) -> bool:
    if kind.ended_conditions:
        for at, condition in find(object, "status.conditions.*"):
            is_true = paths.text(condition, "status", at) == "True"
            if is_true and paths.text(condition, "type", at, most=317) in kind.ended_conditions:
                return True
    return bool(kind.ended) and _hold(object, kind.ended)


def _hold(object: Mapping[str, Any], marks: tuple[Holds, ...]) -> bool:
    found = [(one(object, path), values) for path, values in marks]
    return all(value and value[1] in values for value, values in found)


def _labels(object: Mapping[str, Any], sets: list[_Set]) -> dict[str, str]:
    own = paths.mapping(object, "metadata.labels")
    written = [one.template.labels for one in sets]
    labels: dict[str, str] = {}
    present = _QUOTA_LABELS.intersection(chain(own, *written))
    for key in sorted(present):
        named = [own[key]] if own.get(key) else [one.get(key) for one in written]
        for value in filter(None, named):
            place = f"metadata.labels[{key}]"
            if type(value) is not str or len(value) > LONGEST_LABEL:
                raise DemandError(path=place, reason="no label value")
            # One workload is one charge: which of two quotas it should go to cannot be guessed.
            if labels.setdefault(key, value) != value:
                raise DemandError(path=place, reason="the pod templates name different values")
    return labels
