"""The quotas there are, by name, parent and namespace, and which one a pod belongs to.

In memory, without IO: `put` and `drop` follow the objects, everything else only answers.
Source: Koordinator `quota_topology.go`, `pod_check.go`; `koordinator.md` section 2.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from projections.elastic.shape import DEFAULT, ROOT, Quota


class Topology:
    """Quotas by name. Built-in quotas may be among them; the root need not be."""

    def __init__(self, quotas: Iterable[Quota] = ()) -> None:
        self._quotas: dict[str, Quota] = {}
        self._children: dict[str, set[str]] = {}
        self._of_namespace: dict[str, set[str]] = {}
        for quota in quotas:
            self.put(quota)

    def put(self, quota: Quota) -> None:
        """Take a quota in, in place of the one of that name."""
        self.drop(quota.name)
        self._quotas[quota.name] = quota
        if quota.parent != quota.name:
            self._children.setdefault(quota.parent, set()).add(quota.name)
        for namespace in quota.namespaces:
            self._of_namespace.setdefault(namespace, set()).add(quota.name)

    def drop(self, name: str) -> None:
        """Forget a quota; its children stay."""
        old = self._quotas.pop(name, None)
        if old is None:
            return
        _remove(self._children, old.parent, name)
        for namespace in old.namespaces:
            _remove(self._of_namespace, namespace, name)

    def get(self, name: str) -> Quota | None:
        """The quota of a name."""
        return self._quotas.get(name)

    def children(self, name: str) -> list[Quota]:
        """The quotas right below one, by name."""
        return [self._quotas[child] for child in sorted(self._children.get(name, ()))]

    def ancestors(self, quota: Quota) -> Iterator[Quota]:
        """The quotas above one, nearest first, as far as they are known; each once in a circle."""
        seen = {quota.name}
        while (above := self._quotas.get(quota.parent)) and above.name not in {*seen, ROOT}:
            seen.add(above.name)
            yield above
            quota = above

    def of_namespace(self, namespace: str) -> str | None:
        """The quota that lists a namespace; the first by name where more do."""
        return min(self._of_namespace.get(namespace, ()), default=None)

    def of_pod(self, namespace: str, label: str | None) -> str:
        """The quota of a pod, by its label `name`, else by its namespace.

        A label that names no quota: the default quota. Without a label: the quota that is called
        like the namespace and lies in it, else the one that lists the namespace, else the default.
        """
        if label:
            return label if label in self._quotas else DEFAULT
        same = self._quotas.get(namespace)
        if same is not None and same.namespace == namespace:
            return namespace
        return self.of_namespace(namespace) or DEFAULT


def _remove(index: dict[str, set[str]], key: str, name: str) -> None:
    names = index.get(key, set())
    names.discard(name)
    if not names:
        index.pop(key, None)
