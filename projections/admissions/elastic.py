"""The elastic side of a tree: what its quotas may use now, as the capacity is divided among what they ask.

A workload asks from the moment it is admitted until its charge is given back, so request and used are
the same sums here; a workload that was refused asks for nothing (one that waits in a queue does).

Source: ``koordinator.md`` sections 2.1, 2.2, 2.5, 2.8.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bus.events.admissions import QuotaSpec
from projections.elastic.incremental import ElasticTree, PodSums
from projections.elastic.shape import ROOT, Quota

ASKED = "requests."


def quota_of(name: str, parent: str, spec: QuotaSpec) -> Quota:
    """A quota as the elastic rules take it."""
    return Quota(
        name, parent or ROOT, dict(spec.max), dict(spec.min), dict(spec.weight), spec.lends,
        spec.is_parent, namespaces=spec.namespaces,
    )  # fmt: skip


class Elastic:
    """Runtimes of one tree, kept as quotas, charges and capacity change."""

    def __init__(self) -> None:
        self._tree = ElasticTree()
        #: Whether any quota was ever divided here; until then charges need not be told.
        self.is_used = False

    def set_total(self, total: Mapping[str, int]) -> None:
        """What all nodes have, cpu in milli, others whole."""
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
        asked = {
            key.removeprefix(ASKED): sign * amount
            for key, amount in charge.items()
            if key.startswith(ASKED)
        }
        if asked:
            self._tree.add_pods(quota, PodSums(asked, dict(asked), {}))

    def limits(
        self, quota: str, pending: Iterable[tuple[str, Mapping[str, int]]]
    ) -> dict[str, int]:
        """What a quota may use, by ``requests.<resource>``, if the ``pending`` charges were held too."""
        held = list(pending)
        for name, charge in held:
            self.hold(name, charge, 1)
        runtime = self._tree.runtime(quota)
        for name, charge in held:
            self.hold(name, charge, -1)
        return {ASKED + resource: amount for resource, amount in runtime.items()}

    def runtime(self, quota: str) -> dict[str, int]:
        """What a quota may use now, by resource."""
        return self._tree.runtime(quota)
