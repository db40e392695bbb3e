"""The ElasticQuota of each namespace, over time.

For pods that no label puts into a quota, by the rule that admission asks
(:class:`projections.quota_trees.elastic.served.ServedQuotas`),
applied to the quotas of each second. A quota exists from its creationTimestamp, with its first observed spec, until its observed
delete. Without that timestamp it always existed. A later spec applies from its observation.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import msgspec

from bus.clock import parse_stamp
from projections import timelines
from projections.quota_trees.elastic.served import ServedQuotas
from projections.timelines import MICROSECONDS

if TYPE_CHECKING:
    from projections.quotas import QuotaHistory

#: (first second, name of the quota, "" for none), oldest first.
Timeline = list[tuple[int, str]]

EVER = -(2**62)

NOBODY: Timeline = [(EVER, "")]


class _Said(msgspec.Struct, frozen=True):
    namespaces: tuple[str, ...]
    is_parent: bool


class _Seen(msgspec.Struct, frozen=True):
    name: str
    uid: str
    namespace: str
    created: str
    spec: _Said | None


#: The specs of one object, and their first seconds: oldest first.
_States = list[tuple[int, _Seen]]


class ElasticServing:
    """Every ElasticQuota of the ledger, and its namespaces."""

    def __init__(self) -> None:
        #: By (cluster, name) and uid.
        self._states: dict[tuple[str, str], dict[str, _States]] = {}
        #: By (cluster, namespace), the names of quotas ever in it or with it in their list.
        self._near: dict[tuple[str, str], set[str]] = {}
        self._read: dict[tuple[str, str], Timeline] = {}

    def declare(self, quota: QuotaHistory) -> dict[str, int]:
        """An ElasticQuota has a new spec. Returns the first second of another serving quota for each namespace."""
        states = _states(quota)
        known = self._states.get((quota.cluster, quota.name), {})
        if states == known.get(quota.uid, []):
            return {}
        # Where one object of a name begins to count, another one stops.
        touched = _namespaces(states).union(*map(_namespaces, known.values()))
        before = {one: self.timeline(quota.cluster, one) for one in sorted(touched)}
        self.take(quota)
        found = {}
        for namespace, timeline in before.items():
            after = self.timeline(quota.cluster, namespace)
            since = timelines.first_difference(timeline, after)
            if since is not None:
                found[namespace] = since
        return found

    def take(self, quota: QuotaHistory) -> None:
        """Apply an ElasticQuota's spec."""
        states = _states(quota)
        known = self._states.setdefault((quota.cluster, quota.name), {})
        touched = _namespaces(states).union(*map(_namespaces, known.values()))
        known[quota.uid] = states
        for namespace in touched:
            self._near.setdefault((quota.cluster, namespace), set()).add(quota.name)
            self._read.pop((quota.cluster, namespace), None)

    def timeline(self, cluster: str, namespace: str) -> Timeline:
        """The serving quotas of a namespace over time."""
        names = self._near.get((cluster, namespace))
        if names is None:
            return NOBODY
        known = self._read.get((cluster, namespace))
        if known is None:
            objects = [
                states for name in names for states in self._states[(cluster, name)].values()
            ]
            known = self._read[(cluster, namespace)] = _served(namespace, objects)
        return known


def _states(quota: QuotaHistory) -> _States:
    changes = timelines.changes(quota.elastic)
    if not changes:
        return []
    created = changes[0][1][0]
    # A watcher's clock may be behind: an observed object exists.
    first = min(parse_stamp(created) // MICROSECONDS, changes[0][0]) if created else EVER
    found = [
        (second, _Seen(quota.name, quota.uid, quota.namespace, value[0], _Said(*value[1:])))
        for second, value in [(first, changes[0][1]), *changes[1:]]
    ]
    if quota.gone is not None and timelines.is_gone(quota.elastic, quota.gone):
        gone_s = quota.gone[1] // MICROSECONDS
        gone = _Seen(quota.name, quota.uid, quota.namespace, created, None)
        found = [(min(second, gone_s), seen) for second, seen in found] + [(gone_s, gone)]
    return found


def _namespaces(states: _States) -> set[str]:
    """Namespaces possibly served by one object at some time."""
    return {
        namespace
        for _, seen in states
        for namespace in (seen.namespace, *(seen.spec.namespaces if seen.spec else ()))
    }


def _served(namespace: str, objects: list[_States]) -> Timeline:
    steps = [
        (second, seen.uid, place, seen)
        for states in objects
        for place, (second, seen) in enumerate(states)
    ]
    steps.sort(key=lambda step: step[:3])
    found: ServedQuotas[_Seen] = ServedQuotas()
    timeline = list(NOBODY)
    for second, together in itertools.groupby(steps, key=lambda step: step[0]):
        for *_, seen in together:
            found.take(seen)
        name, may_hold = found.serving(namespace) or ("", True)
        timeline.append((second, name if may_hold else ""))
    if len(timeline) > 1 and timeline[1][0] == EVER:
        del timeline[0]
    return timelines.distinct(timeline)
