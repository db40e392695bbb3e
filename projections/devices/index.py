"""Indexes of claims, stored and of this batch: possible claims of a pod, possible pods of a claim, claims by device.

Source: docs/devices.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from bus.events.devices import Allocation
from projections.devices.claims import ClaimHistory, claims
from projections.devices.shape import claim_devices, pod_claims
from projections.engine.changes import Columns
from projections.engine.contract import Key

Select = Callable[..., list[tuple[Any, ...]]]

#: Takes a prefix and the keys below it; asks for (key, uid of the claim or the pod).
_OWN = sa.select(claims.c.pod_uid, claims.c.uid).where(
    claims.c.pod_uid.in_(sa.bindparam("keys", expanding=True))
)
_NAMED = sa.select(claims.c.name, claims.c.uid).where(
    claims.c.cluster == sa.bindparam("cluster"),
    claims.c.namespace == sa.bindparam("namespace"),
    claims.c.name.in_(sa.bindparam("keys", expanding=True)),
)
_NAMING = sa.select(pod_claims.c.claim, pod_claims.c.uid).where(
    pod_claims.c.cluster == sa.bindparam("cluster"),
    pod_claims.c.namespace == sa.bindparam("namespace"),
    pod_claims.c.claim.in_(sa.bindparam("keys", expanding=True)),
)
#: Of pools: one device of a pool is soon followed by the others.
_GIVEN = sa.select(claim_devices.c.pool, claim_devices.c.device, claim_devices.c.uid).where(
    claim_devices.c.cluster == sa.bindparam("cluster"),
    claim_devices.c.driver == sa.bindparam("driver"),
    claim_devices.c.pool.in_(sa.bindparam("keys", expanding=True)),
)

#: Keys in one statement.
_ASKED = 500


class ClaimIndex:
    """Claims by pod, by name and by device; pods by their named claims."""

    def __init__(self, select: Select) -> None:
        self._select = select
        #: Whether a claim, or a pod naming one, is stored: without any, the database is not queried.
        self.is_stored = False
        #: Stored rows, by query, prefix and key: as read in this batch.
        self._stored: dict[tuple[Any, ...], set[str]] = {}
        self._pools: dict[Key, dict[str, set[str]]] = {}
        self._own: dict[str, set[str]] = defaultdict(set)
        self._named: dict[Key, set[str]] = defaultdict(set)
        self._naming: dict[Key, set[str]] = defaultdict(set)
        #: (cluster, driver, pool) → device → claims.
        self._devices: dict[Key, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        self._changed: dict[str, list[Columns]] = {}
        self._naming_added: list[Columns] = []

    def open(self) -> None:
        """See whether anything is stored."""
        self.is_stored = any(
            self._select(sa.select(column).limit(1)) for column in (claims.c.uid, pod_claims.c.uid)
        )

    @property
    def is_empty(self) -> bool:
        """Whether neither a claim nor a pod naming one was observed."""
        return not (self.is_stored or self._named or self._naming)

    def prepare(self, pods: Iterable[str], names: Mapping[tuple[str, str], set[str]]) -> set[str]:
        """Read at once all rows about these pods and names, by cluster and namespace; returns the found claims."""
        found = self._ask(_OWN, (), sorted(pods))
        for place, of_place in names.items():
            found |= self._ask(_NAMED, place, sorted(of_place))
            self._ask(_NAMING, place, sorted(of_place))
        return found

    def prepare_pools(self, pools: Mapping[tuple[str, str], set[str]]) -> set[str]:
        """Read at once the claims with a device of these pools, by cluster and driver; returns the found claims."""
        found: set[str] = set()
        for place, names in pools.items():
            keys = sorted(name for name in names if (*place, name) not in self._pools)
            self._pools |= {(*place, name): defaultdict(set) for name in keys}
            for start in range(0, len(keys), _ASKED):
                values = _values(_GIVEN, place, keys[start : start + _ASKED])
                for pool, device, uid in self._select(_GIVEN, values):
                    self._pools[*place, pool][device].add(uid)
                    found.add(uid)
        return found

    def put_claim(self, claim: ClaimHistory, sequence: int) -> None:
        """A claim changed."""
        if claim.is_generated and claim.owner:
            self._own[claim.owner.uid].add(claim.uid)
        self._named[claim.cluster, claim.namespace, claim.name].add(claim.uid)
        found = {
            (claim.cluster, result.driver, result.pool, result.device)
            for _, _, value in claim.history
            if isinstance(value, Allocation)
            for result in value.results
        }
        for *pool, device in found:
            self._devices[tuple(pool)][device].add(claim.uid)
        self._changed[claim.uid] = [(claim.uid, *device, sequence) for device in sorted(found)]

    def put_pod(
        self, cluster: str, namespace: str, names: Iterable[str], uid: str, sequence: int
    ) -> None:
        """A pod names these claims, among them new ones."""
        for name in names:
            self._naming[cluster, namespace, name].add(uid)
            self._naming_added.append((cluster, namespace, name, uid, sequence))

    def own(self, pod_uid: str) -> set[str]:
        """The claims made for a pod."""
        return self._found(_OWN, (), pod_uid) | self._own.get(pod_uid, set())

    def named(self, cluster: str, namespace: str, name: str) -> set[str]:
        """The claims of a name, one after the other."""
        stored = self._found(_NAMED, (cluster, namespace), name)
        return stored | self._named.get((cluster, namespace, name), set())

    def naming(self, cluster: str, namespace: str, name: str) -> set[str]:
        """The pods naming a claim."""
        stored = self._found(_NAMING, (cluster, namespace), name)
        return stored | self._naming.get((cluster, namespace, name), set())

    def given(self, cluster: str, driver: str, pool: str, device: str = "") -> set[str]:
        """The claims with a device, or with any of a pool."""
        key = (cluster, driver, pool)
        if key not in self._pools and self.is_stored:
            self.prepare_pools({(cluster, driver): {pool}})
        found: set[str] = set()
        for known in (self._pools.get(key, {}), self._devices.get(key, {})):
            found |= known.get(device, set()) if device else set().union(*known.values())
        return found

    def changed(self) -> set[str]:
        """The claims changed in this batch."""
        return set(self._changed)

    def changes(self) -> tuple[list[str], dict[sa.Table, list[Columns]]]:
        """Claims with rewritten devices, and rows of the tables. The next batch begins."""
        changed, self._changed = self._changed, {}
        added, self._naming_added = self._naming_added, []
        devices = [row for rows in changed.values() for row in rows]
        return sorted(changed), {
            table: rows for table, rows in ((claim_devices, devices), (pod_claims, added)) if rows
        }

    def settle(self) -> None:
        """The changes are stored: let go of them."""
        self.is_stored |= bool(self._named or self._naming)
        for known in (
            self._own,
            self._named,
            self._naming,
            self._devices,
            self._stored,
            self._pools,
        ):
            known.clear()

    def _found(self, query: sa.Select[Any], prefix: Key, key: str) -> set[str]:
        if not self.is_stored:
            return set()
        if (query, prefix, key) not in self._stored:
            self._ask(query, prefix, [key])
        return self._stored[query, prefix, key]

    def _ask(self, query: sa.Select[Any], prefix: Key, keys: Sequence[str]) -> set[str]:
        known = [key for key in keys if (query, prefix, key) in self._stored]
        found: set[str] = set().union(*(self._stored[query, prefix, key] for key in known))
        if known:
            keys = [key for key in keys if (query, prefix, key) not in self._stored]
        for start in range(0, len(keys), _ASKED):
            part = keys[start : start + _ASKED]
            self._stored |= {(query, prefix, key): set() for key in part}
            for key, uid in self._select(query, _values(query, prefix, part)):
                self._stored[query, prefix, key].add(uid)
                found.add(uid)
        return found


def _values(query: sa.Select[Any], prefix: Key, keys: Sequence[str]) -> dict[str, Any]:
    names = {_OWN: (), _GIVEN: ("cluster", "driver")}.get(query, ("cluster", "namespace"))
    return {**dict(zip(names, prefix, strict=True)), "keys": list(keys)}
