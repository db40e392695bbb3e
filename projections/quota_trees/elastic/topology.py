"""The existing quotas, by name, parent and namespace, and the serving one of each namespace.

In memory, without IO: `put` and `drop` follow the objects, everything else only answers.
Source: Koordinator `quota_topology.go`, `pod_check.go`; docs/quotas.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from projections.quota_trees.elastic.shape import BUILT_IN, ROOT, ElasticQuota


class Topology:
    """Quotas by name. Built-in quotas may be among them; the root need not be."""

    def __init__(self, quotas: Iterable[ElasticQuota] = ()) -> None:
        self._quotas: dict[str, ElasticQuota] = {}
        self._children: dict[str, set[str]] = {}
        self._of_namespace: dict[str, set[str]] = {}
        #: Quotas possibly for their own namespace.
        self._lying_in: dict[str, set[str]] = {}
        for quota in quotas:
            self.put(quota)

    def put(self, quota: ElasticQuota) -> None:
        """Add a quota, in place of the one of that name."""
        self.drop(quota.name)
        self._quotas[quota.name] = quota
        if quota.parent != quota.name:
            self._children.setdefault(quota.parent, set()).add(quota.name)
        if self._serves_its_own(quota):
            self._lying_in.setdefault(quota.namespace, set()).add(quota.name)
        for namespace in quota.namespaces:
            self._of_namespace.setdefault(namespace, set()).add(quota.name)

    def drop(self, name: str) -> None:
        """Forget a quota; its children stay."""
        old = self._quotas.pop(name, None)
        if old is None:
            return
        _remove(self._children, old.parent, name)
        _remove(self._lying_in, old.namespace, name)
        for namespace in old.namespaces:
            _remove(self._of_namespace, namespace, name)

    def get(self, name: str) -> ElasticQuota | None:
        """The quota of a name."""
        return self._quotas.get(name)

    def children(self, name: str) -> list[ElasticQuota]:
        """The quotas right below one, by name."""
        return [self._quotas[child] for child in sorted(self._children.get(name, ()))]

    def ancestors(self, quota: ElasticQuota) -> Iterator[ElasticQuota]:
        """The quotas above one, nearest first, as far as they are known; each once in a circle."""
        seen = {quota.name}
        while (above := self._quotas.get(quota.parent)) and above.name not in {*seen, ROOT}:
            seen.add(above.name)
            yield above
            quota = above

    def of_namespace(self, namespace: str) -> str | None:
        """The quota with a namespace in its list; the first by name among several."""
        return min(self._of_namespace.get(namespace, ()), default=None)

    def serving(self, namespace: str) -> str | None:
        """The quota of a namespace for pods without a quota label; None where no quota, or none of several, serves
        it.

        The quota with the namespace's name inside it; else the one with the namespace in its list; else its only
        quota for pods, as with one quota per team and namespace. Of several in one namespace pods choose by their
        label.
        """
        same = self._quotas.get(namespace)
        if same is not None and same.namespace == namespace:
            return namespace
        listing = self.of_namespace(namespace)
        if listing is not None:
            return listing
        lying = self._lying_in.get(namespace, ())
        return next(iter(lying)) if len(lying) == 1 else None

    @staticmethod
    def _serves_its_own(quota: ElasticQuota) -> bool:
        """Whether a quota may serve its own namespace."""
        return not quota.is_parent and not quota.namespaces and quota.name not in BUILT_IN


def _remove(index: dict[str, set[str]], key: str, name: str) -> None:
    names = index.get(key, set())
    names.discard(name)
    if not names:
        index.pop(key, None)
