"""The elastic quotas of a cluster by name and namespace: the valid one of each name, and the serving one of each
namespace. Pure.

A quota is named without its namespace, by labels and by the quotas below it, so two ElasticQuotas of one name in
two namespaces cannot both count. The first created one does; namespaces of the others may not be charged until
these have another name. (Refused: the newest counts. Then a user with the right to create a quota in one namespace
would take over another team's.)

Admission applies it to the current objects, the ledger to the objects of each second
(:mod:`projections.elastic_serving`).

Source: Koordinator's ``ElasticQuota`` and the one of scheduler-plugins, one for each namespace.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from projections.quota_trees.elastic.shape import ElasticQuota
from projections.quota_trees.elastic.topology import Topology


class Spec(Protocol):
    """An ElasticQuota's namespaces."""

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces in its annotation."""

    @property
    def is_parent(self) -> bool:
        """It holds quotas, not pods."""


class SeenElasticQuota(Protocol):
    """An observed ElasticQuota."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def uid(self) -> str:
        """Its uid."""

    @property
    def namespace(self) -> str:
        """Its own namespace."""

    @property
    def created(self) -> str:
        """Its stamp of creation; "" for none."""

    @property
    def spec(self) -> Spec | None:
        """Its spec; None once it is gone."""


Q = TypeVar("Q", bound=SeenElasticQuota)


class ServedQuotas(Generic[Q]):
    """Every observed and existing ElasticQuota."""

    def __init__(self, found: dict[str, dict[str, Q]] | None = None) -> None:
        self._found: dict[str, dict[str, Q]] = {} if found is None else found
        self._topology = Topology()
        #: By namespace, the names of quotas in it without effect.
        self._namesakes: dict[str, set[str]] = {}
        for name, named in self._found.items():
            self._place(name, min(named.values(), key=_age))

    def take(self, seen: Q) -> tuple[Q, bool]:
        """The valid quota of this name, and whether pods without a label may belong to another quota than before.

        Give ``seen`` with ``spec`` None for a gone one.
        """
        before = self._serves(seen.name)
        found = self._found.setdefault(seen.name, {})
        known = found.get(seen.namespace)
        if seen.spec is not None:
            found[seen.namespace] = seen
        elif known is not None and known.uid == seen.uid:
            del found[seen.namespace]
        counts = min(found.values(), key=_age, default=seen)
        self._place(seen.name, counts)
        if not found:
            del self._found[seen.name]
        return counts, before != self._serves(seen.name)

    def __iter__(self) -> Iterator[Q]:
        for found in list(self._found.values()):
            yield from list(found.values())

    def serving(self, namespace: str) -> tuple[str, bool] | None:
        """The quota of a namespace for its workloads without a quota label; None for none.

        With False where nothing may be held in its name there, as one of another namespace has it.
        """
        name = self._topology.serving(namespace)
        if name is not None:
            return name, True
        names = self._namesakes.get(namespace, ())
        return (min(names), False) if names else None

    def _place(self, name: str, counts: Q) -> None:
        for names in self._namesakes.values():
            names.discard(name)
        self._namesakes = {one: names for one, names in self._namesakes.items() if names}
        for other in self._found.get(name, {}).values():
            is_leaf = other.spec is not None and not other.spec.is_parent
            if other is not counts and is_leaf:
                self._namesakes.setdefault(other.namespace, set()).add(name)
        if counts.spec is None:
            self._topology.drop(name)
        else:
            self._topology.put(_quota(name, counts.namespace, counts.spec))

    def _serves(self, name: str) -> tuple[object, ...]:
        """The inputs for the namespaces of the quotas of a name."""
        quota = self._topology.get(name)
        others = frozenset(one for one, names in self._namesakes.items() if name in names)
        if quota is None:
            return (None, others)
        return (quota.namespace, quota.namespaces, quota.is_parent, others)


def _age(seen: SeenElasticQuota) -> tuple[bool, str, str]:
    """Sorts quotas from the first created to the last; those without a creation time come last."""
    return (not seen.created, seen.created, seen.uid)


def _quota(name: str, namespace: str, spec: Spec) -> ElasticQuota:
    return ElasticQuota(
        name, namespace=namespace, namespaces=spec.namespaces, is_parent=spec.is_parent
    )
