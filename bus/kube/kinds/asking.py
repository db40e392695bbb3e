"""Reads the demand of an object of a governed kind, by the entry of its kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import msgspec

from bus.errors import DemandError
from bus.kube.kinds import paths
from bus.kube.kinds.paths import bounded, count, find, one
from bus.kube.kinds.runtime_use import key_of, use_of
from bus.kube.kinds.shape import QUEUE_ANNOTATION, QUOTA_LABELS, Added, Ask, Holds, Kind, PodSet
from bus.kube.kinds.templates import (
    MOST_NAMED,
    Needs,
    PodTemplate,
    Quantities,
    TemplateContainer,
    TemplateResources,
    TemplateSpec,
    claims_of,
    pod_needs,
    template_at,
)

#: Most pod sets of one object (docs/wrong-input.md D19).
MOST_SETS = 64
#: Most containers of all its templates: summing 30,000 of them held up every other review for a second.
MOST_CONTAINERS = 1_000
#: Most requests and limits of these: 60,000 of them held up every other review for 0.2 s.
MOST_QUANTITIES = 8_192
_QUOTA_LABELS = frozenset(QUOTA_LABELS)
#: Longest label value in Kubernetes; it does not check templates of custom resources.
LONGEST_LABEL = 63


class _Set(msgspec.Struct, frozen=True):
    at: str
    template: PodTemplate
    #: Of one pod.
    demand: dict[str, int]
    pods: int
    #: Its containers without a limit, or without a request.
    unstated: dict[str, tuple[str, ...]]


def asked(kind: Kind, object: Mapping[str, Any]) -> Ask:
    """The current demand of ``object``, the decoded JSON of one of ``kind``.

    Raises DemandError (fields ``path``, ``reason``) for an invalid count, an unreadable quantity, an amount above
    2**63 - 1, a gang larger than the workload, more than 64 pod sets, or templates with different quotas: refuse
    the object. Source: docs/quotas.md; docs/wrong-input.md D1 to D5, D15, D19.
    """
    sets = list(_sets(kind, object))
    pods = bounded(sum(one.pods for one in sets), "spec")
    _check_gang(kind, object, pods)
    seconds = count(object, kind.deadline, default=-1, most=paths.MOST)
    priorities = (one.template.spec.priority_class_name for one in sets)
    scaled_set = _scaled_set(kind, sets)
    runtime = use_of(object) if kind.has_runtime else None
    manager = _other_manager(kind, object)
    rests = _rests(kind, object) or bool(manager)
    total = _total(sets) if runtime is None else {key_of(runtime): 1}
    waits = rests and not (manager or _has_ended(kind, object))
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
        managed_by=manager or msgspec.UNSET,
    )


def scaled(ask: Ask, replicas: int) -> Ask:
    """The demand of ``ask`` scaled to ``replicas``; nothing while it is suspended.

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
    """Whether the controller of ``object`` accepts the suspend flag."""
    if any(value for path in kind.suspends_without for _, value in find(object, path)):
        return False
    return bool(kind.suspend) and _hold(object, kind.suspends_if)


def _sets(kind: Kind, object: Mapping[str, Any]) -> Iterator[_Set]:
    found = containers = quantities = 0
    for entry in kind.sets:
        if entry.when and not _hold(object, entry.when):
            continue
        holders = list(islice(find(object, entry.at), MOST_SETS + 1))
        if not holders and entry.default_container is not None:
            yield _default_set(entry.at, entry.default_container)
            continue
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
            containers += template.containers
            if containers > MOST_CONTAINERS:
                raise DemandError(path=at, reason=f"more than {MOST_CONTAINERS} containers")
            quantities += template.quantities
            if quantities > MOST_QUANTITIES:
                raise DemandError(path=at, reason=f"more than {MOST_QUANTITIES} quantities")
            demand, unstated = _needs(template, written[0], entry.adds, object)
            pods = pods_of(entry, holder, at)
            if entry.left is not None:
                pods = entry.left(object, holder, pods)
            yield _Set(at, template, demand, pods, unstated)


def _default_set(at: str, added: Added) -> _Set:
    template = PodTemplate(TemplateSpec([_container(added, None)]))
    return _Set(at, template, pod_needs(template, at)[0], 1, {})


def _needs(
    template: PodTemplate, at: str, adds: tuple[Added, ...], object: Mapping[str, Any]
) -> Needs:
    """The demand of one pod with the containers added by its controller. Users state limits only of their own containers."""
    demand, unstated = pod_needs(template, at)
    applied = [one for one in adds if _is_added(object, one)] if adds else []
    if not applied:
        return demand, unstated
    written = [(one, _resources(object, one)) for one in applied]
    users = [(added, resources) for added, resources in written if resources is not None]
    if users:
        unstated = pod_needs(_with(template, users), at)[1]
    return pod_needs(_with(template, written), at)[0], unstated


def _is_added(object: Mapping[str, Any], added: Added) -> bool:
    is_there = not added.if_present or one(object, added.if_present) is not None
    return is_there and _hold(object, added.when)


def _resources(object: Mapping[str, Any], added: Added) -> TemplateResources | None:
    found = one(object, added.resources) if added.resources else None
    if found is None:
        return None
    try:
        return msgspec.convert(found[1], TemplateResources)
    except msgspec.ValidationError as error:
        raise DemandError(path=found[0], reason=str(error)[:200]) from None


def _with(
    template: PodTemplate, adds: Sequence[tuple[Added, TemplateResources | None]]
) -> PodTemplate:
    spec = template.spec
    more: dict[bool, list[TemplateContainer]] = {False: [], True: []}
    for added, resources in adds:
        more[added.is_init].append(_container(added, resources))
    spec = msgspec.structs.replace(
        spec,
        containers=[*(spec.containers or ()), *more[False]],
        init_containers=[*(spec.init_containers or ()), *more[True]],
    )
    return PodTemplate(spec, template.metadata)


def _container(added: Added, resources: TemplateResources | None) -> TemplateContainer:
    return TemplateContainer(
        added.name, resources or TemplateResources(_both(*added.requests), _both(*added.limits))
    )


def _both(cpu: str, memory: str) -> Quantities:
    return {"cpu": cpu, "memory": memory}


def pods_of(entry: PodSet, holder: Any, at: str) -> int:
    """The number of pods of a set. Raises DemandError for an invalid count."""
    if entry.suspended and _is_true(holder, entry.suspended, at):
        return 0
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
    if kind.suspend and _is_true(object, kind.suspend):
        return True
    # By presence, whatever it says.
    if kind.stopped and kind.stopped in paths.mapping(object, "metadata.annotations"):
        return True
    return _has_ended(kind, object)


def _is_true(value: Any, path: str, at: str = "") -> bool:
    """The flag at ``path``. Raises DemandError for another type."""
    found = one(value, path, at)
    if found is not None and type(found[1]) is not bool:
        raise DemandError(path=found[0], reason="neither true nor false")
    return found is not None and found[1]


def _other_manager(kind: Kind, object: Mapping[str, Any]) -> str:
    """The controller of its pods in another cluster; "" for this cluster's."""
    name = paths.text(object, kind.managed_by) if kind.managed_by else ""
    return "" if name in kind.managers else name


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
    return all((value[1] if value else "") in values for value, values in found)


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
            # One workload is one charge: two quotas are ambiguous.
            if labels.setdefault(key, value) != value:
                raise DemandError(path=place, reason="the pod templates name different values")
    return labels
