"""The elastic side of a tree: the current share of its quotas, as the capacity is divided among their requests.

A workload requests from its admission until the release of its charge. A refused or queued workload requests
without usage, as far as :meth:`Elastic.count` finds room for it in its quota's share.

Source: ``docs/admission.md``, "ElasticQuotas"; Koordinator, ``pkg/scheduler/plugins/elasticquota``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from bus.events.admissions import QuotaSpec
from projections.engine.parts import Part
from projections.quota_trees.elastic.admission import refusal
from projections.quota_trees.elastic.incremental import ElasticTree, PodSums, SavedElasticTree
from projections.quota_trees.elastic.shape import ROOT, ElasticQuota, add
from projections.quota_trees.elastic.tree import Figures
from projections.quota_trees.unmet import Unmet

ASKED = "requests."


def quota_of(name: str, parent: str, spec: QuotaSpec) -> ElasticQuota:
    """A quota as the elastic rules take it."""
    return ElasticQuota(
        name, parent or ROOT, dict(spec.max), dict(spec.min), dict(spec.weight), spec.lends,
        spec.is_parent, namespaces=spec.namespaces,
    )  # fmt: skip


class SavedElastic(msgspec.Struct):
    """The part of a snapshot for the elastic side of a tree."""

    _tree: SavedElasticTree
    is_used: bool
    _counted: list[tuple[Unmet, dict[str, int]]]


class Elastic(Part):
    """Runtimes of one tree, updated as quotas, charges and capacity change."""

    Saved = SavedElastic

    def __init__(self) -> None:
        self._tree = ElasticTree()
        #: Whether any quota was ever divided here; until then charges need not be told.
        self.is_used = False
        #: Counted besides charges: quota and amounts by resource.
        self._counted: list[tuple[Unmet, dict[str, int]]] = []

    def set_total(self, total: Mapping[str, int]) -> None:
        """The allocatable amounts of all nodes, cpu in milli, others whole."""
        self._tree.set_cluster(total)

    def set_quota(self, name: str, parent: str, spec: QuotaSpec | None) -> None:
        """A quota as it was seen; None: it is gone."""
        if spec is None:
            self._tree.remove_quota(name)
        else:
            self.is_used = True
            self._tree.set_quota(quota_of(name, parent, spec))

    def hold(self, quota: str, charge: Mapping[str, int], sign: int) -> None:
        """A charge is added (1) or given back (-1)."""
        asked = {key: sign * amount for key, amount in _asked(charge).items()}
        if asked:
            self._tree.add_pods(quota, PodSums(asked, dict(asked), {}))

    def count(self, unmet: Iterable[Unmet]) -> None:
        """Count these demands from now on, in place of the ones before: each if it fits beside those before it.

        A quota's own request never decides whether it fits, only the rest for others.
        """
        for one, wants in self._counted:
            self._want(one.quota, wants, -1)
        self._counted = []
        sums: dict[str, dict[str, int]] = {}
        for one in unmet:
            wants = _asked(one.wants)
            if not wants or not self._tree.levels(one.quota):
                continue
            self._want(one.quota, wants, 1)
            before = sums.setdefault(one.quota, {})
            level = self._tree.levels(one.quota)[0]
            used = dict(level.used)
            add(used, before)
            level = msgspec.structs.replace(level, used=used)
            if refusal(wants, [level]) is None:
                self._counted.append((one, wants))
                add(before, wants)
            else:
                self._want(one.quota, wants, -1)

    def met(self, kind: str, namespace: str, name: str) -> None:
        """A workload got its demand: it is counted by its charge."""
        left = []
        for one, wants in self._counted:
            if (one.kind, one.namespace, one.name) == (kind, namespace, name):
                self._want(one.quota, wants, -1)
            else:
                left.append((one, wants))
        self._counted = left

    def _want(self, quota: str, wants: Mapping[str, int], sign: int) -> None:
        self._tree.add_pods(quota, PodSums({key: sign * n for key, n in wants.items()}, {}, {}))

    def limits(
        self, quota: str, pending: Iterable[tuple[str, Mapping[str, int]]]
    ) -> dict[str, int]:
        """The share of a quota, by ``requests.<resource>``, with the ``pending`` charges included."""
        held = list(pending)
        for name, charge in held:
            self.hold(name, charge, 1)
        runtime = self._tree.runtime(quota)
        for name, charge in held:
            self.hold(name, charge, -1)
        return {ASKED + resource: amount for resource, amount in runtime.items()}

    def figures(self, quota: str) -> Figures | None:
        """Everything known of a quota; None where it stands beside the tree."""
        return self._tree.figures(quota)

    def runtime(self, quota: str) -> dict[str, int]:
        """The current share of a quota, by resource."""
        return self._tree.runtime(quota)


def _asked(charge: Mapping[str, int]) -> dict[str, int]:
    """The requests in a charge, by resource."""
    return {key.removeprefix(ASKED): n for key, n in charge.items() if key.startswith(ASKED)}
