"""Rules of quotas over time: the parent of each quota, and its served namespaces.

For the attribution of pods: business quotas by name, for workloads with a quota label, and for others the
ElasticQuota of each namespace (:mod:`projections.elastic_serving`). A rule of a business quota is valid from the
second of its first observation; before that the quota is unknown. A deleted one keeps its last rule, and rules of
several objects of one name follow each other. Only quotas with observed namespaces have a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec
import sqlalchemy as sa

from projections import quotas, timelines
from projections.attribution import LEVELS, AttributionRule, Names, Rules, mentioned
from projections.elastic_serving import EVER, NOBODY, ElasticServing
from projections.elastic_serving import Timeline as ElasticTimeline
from projections.namespaces import Owners
from projections.quotas import QuotaHistory

if TYPE_CHECKING:
    from projections.engine.contract import Key
    from projections.pod_runs.shape import Above, PodHistory

#: (first second, rule), oldest first; no rule before the first one.
Timeline = list[tuple[int, AttributionRule]]


class Serving:
    """The rules of all quotas in the ledger."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], dict[str, QuotaHistory]] = {}
        self._read: dict[tuple[str, str], Timeline] = {}
        self._elastic = ElasticServing()

    def open(self, select: Callable[[sa.Select[Any]], list[tuple[Any, ...]]]) -> None:
        """Load the stored quotas."""
        for row in select(sa.select(quotas.quotas)):
            quota = quotas.codec.row(row)
            self._elastic.take(quota)
            self.declare(quota)

    def declare_elastic(self, quota: QuotaHistory) -> dict[str, int]:
        """An ElasticQuota has a new spec. Returns the namespaces with another serving quota, and the first second."""
        return self._elastic.declare(quota)

    def declare(self, quota: QuotaHistory) -> int | None:
        """A quota has a new spec. Returns the first second of a changed rule; None for none."""
        if not quota.rules:
            return None
        name = (quota.cluster, quota.name)
        before = self.timeline(*name)
        self._found.setdefault(name, {})[quota.uid] = quota
        self._read.pop(name, None)
        after = self.timeline(*name)
        return timelines.first_difference([(EVER, None), *before], [(EVER, None), *after])

    def timeline(self, cluster: str, name: str) -> Timeline:
        """The rules of a quota; empty where none was observed."""
        known = self._read.get((cluster, name))
        if known is None:
            objects = self._found.get((cluster, name), {}).values()
            changes = sorted(
                (second, value) for one in objects for second, value in timelines.changes(one.rules)
            )
            known = timelines.distinct(changes)
            if objects:
                self._read[(cluster, name)] = known
        return known

    def concerned(
        self,
        quota: QuotaHistory,
        pods: Iterable[PodHistory],
        above: Callable[[PodHistory], Above],
        owners: Callable[[Key], list[tuple[int, Owners]]],
    ) -> list[str]:
        """The uids of those ``pods`` naming a quota of this cluster, or one below it."""
        found = []
        for pod in pods:
            if pod.cluster != quota.cluster:
                continue
            own = (value.quotas for _, _, value in pod.history)
            top = (named for _, named in above(pod).quotas)
            mapped = (named[2] for _, named in owners((pod.cluster, pod.namespace)))
            if quota.name in related(self.around(pod.cluster, pod.namespace), own, top, mapped):
                found.append(pod.uid)
        return found

    def around(self, cluster: str, namespace: str) -> ServingRules:
        """The rules for the pods of a namespace, besides labels."""
        return ServingRules(self.of(cluster), self._elastic.timeline(cluster, namespace))

    def of(self, cluster: str) -> Callable[[str], Timeline]:
        """The rules of one cluster's quotas, by name."""
        return lambda name: self.timeline(cluster, name)


def no_timelines(name: str) -> Timeline:
    """No quota was observed."""
    return []


class ServingRules(msgspec.Struct, frozen=True):
    """The rules of the quotas of a cluster, and the serving ElasticQuotas of one namespace, over time."""

    rules: Callable[[str], Timeline]
    elastic: ElasticTimeline

    def serving(self, second: int) -> str:
        """The serving ElasticQuota of the namespace at a second; "" for none."""
        return "" if self.elastic is NOBODY else str(timelines.at(self.elastic, second))


NOTHING_KNOWN = ServingRules(no_timelines, NOBODY)


def at(around: ServingRules, second: int) -> Rules:
    """The valid rules at a second."""

    def rule(name: str) -> AttributionRule | None:
        found = None
        for begin, held in around.rules(name):
            if begin > second:
                break
            found = held
        return found

    return rule


def related(around: ServingRules, *found: Iterable[Names | None]) -> set[str]:
    """The quotas named or serving the namespace, and all their ancestors at any time."""
    waiting = {quota for named in found for one in named for quota in mentioned(one)}
    waiting |= {quota for _, quota in around.elastic if quota}
    seen: set[str] = set()
    for _ in range(LEVELS):
        if not waiting:
            break
        seen |= waiting
        above = {rule.parent for name in waiting for _, rule in around.rules(name) if rule.parent}
        waiting = above - seen
    return seen


def cuts(around: ServingRules, *found: Iterable[Names | None]) -> set[int]:
    """The first seconds of new rules for the named quotas, or of another serving quota for the namespace."""
    if around.elastic is NOBODY and not any(map(any, found)):
        return set()
    names = related(around, *found)
    return {s for s, _ in around.elastic} | {s for name in names for s, _ in around.rules(name)}
