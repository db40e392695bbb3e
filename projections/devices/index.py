"""Which claims a pod may have, which pods may have a claim, and which claims were given a device: stored and of this batch.

Source: docs/devices.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from bus.events.devices import Allocation
from projections.devices.claims import Claim, claims
from projections.devices.shape import claim_devices, pod_claims
from projections.engine.changes import Columns
from projections.engine.contract import Key

Select = Callable[..., list[tuple[Any, ...]]]

_OWN = sa.select(claims.c.uid).where(claims.c.pod_uid == sa.bindparam("uid"))
_NAMED = sa.select(claims.c.uid).where(
    claims.c.cluster == sa.bindparam("cluster"),
    claims.c.namespace == sa.bindparam("namespace"),
    claims.c.name == sa.bindparam("name"),
)
_NAMING = sa.select(pod_claims.c.uid).where(
    pod_claims.c.cluster == sa.bindparam("cluster"),
    pod_claims.c.namespace == sa.bindparam("namespace"),
    pod_claims.c.claim == sa.bindparam("name"),
)
_GIVEN = sa.select(claim_devices.c.uid).where(
    claim_devices.c.cluster == sa.bindparam("cluster"),
    claim_devices.c.driver == sa.bindparam("driver"),
    claim_devices.c.pool == sa.bindparam("pool"),
)


class ClaimIndex:
    """Claims by pod, by name and by device; pods by the claims that they name."""

    def __init__(self, select: Select) -> None:
        self._select = select
        #: Whether there is any claim at all: without one nothing is asked of the database.
        self._is_any = False
        self._own: dict[str, set[str]] = defaultdict(set)
        self._named: dict[Key, set[str]] = defaultdict(set)
        self._naming: dict[Key, set[str]] = defaultdict(set)
        self._devices: dict[Key, set[str]] = defaultdict(set)
        self._changed: dict[str, list[Columns]] = {}
        self._naming_added: list[Columns] = []

    def open(self) -> None:
        """See whether there is any claim."""
        self._is_any = bool(self._select(sa.select(claims.c.uid).limit(1)))

    def put_claim(self, claim: Claim, sequence: int) -> None:
        """A claim changed."""
        self._is_any = True
        if claim.is_generated and claim.owner:
            self._own[claim.owner.uid].add(claim.uid)
        self._named[claim.cluster, claim.namespace, claim.name].add(claim.uid)
        found = {
            (claim.cluster, result.driver, result.pool, result.device)
            for _, _, value in claim.history
            if isinstance(value, Allocation)
            for result in value.results
        }
        for device in found:
            self._devices[device].add(claim.uid)
        self._changed[claim.uid] = [(claim.uid, *device, sequence) for device in sorted(found)]

    def put_pod(
        self, cluster: str, namespace: str, names: Iterable[str], uid: str, sequence: int
    ) -> None:
        """A pod names these claims, among them new ones."""
        for name in names:
            self._naming[cluster, namespace, name].add(uid)
            self._naming_added.append((cluster, namespace, name, uid, sequence))

    def own(self, pod_uid: str) -> set[str]:
        """The claims that were made for a pod."""
        return self._found(_OWN, {"uid": pod_uid}) | self._own.get(pod_uid, set())

    def named(self, cluster: str, namespace: str, name: str) -> set[str]:
        """The claims of a name, one after the other."""
        values = {"cluster": cluster, "namespace": namespace, "name": name}
        return self._found(_NAMED, values) | self._named.get((cluster, namespace, name), set())

    def naming(self, cluster: str, namespace: str, name: str) -> set[str]:
        """The pods that name a claim."""
        values = {"cluster": cluster, "namespace": namespace, "name": name}
        return self._found(_NAMING, values) | self._naming.get((cluster, namespace, name), set())

    def given(self, cluster: str, driver: str, pool: str, device: str = "") -> set[str]:
        """The claims that were given a device, or any of a pool."""
        values = {"cluster": cluster, "driver": driver, "pool": pool}
        query = _GIVEN if not device else _GIVEN.where(claim_devices.c.device == device)
        fresh = {
            uid
            for key, uids in self._devices.items()
            if key[:3] == (cluster, driver, pool) and device in ("", key[3])
            for uid in uids
        }
        return self._found(query, values) | fresh

    def changed(self) -> set[str]:
        """The claims that this batch changed."""
        return set(self._changed)

    def changes(self) -> tuple[list[str], dict[sa.Table, list[Columns]]]:
        """Claims whose devices are written anew, and rows of the tables. The next batch begins."""
        changed, self._changed = self._changed, {}
        added, self._naming_added = self._naming_added, []
        devices = [row for rows in changed.values() for row in rows]
        return sorted(changed), {
            table: rows for table, rows in ((claim_devices, devices), (pod_claims, added)) if rows
        }

    def settle(self) -> None:
        """The changes are stored: let go of them."""
        for known in (self._own, self._named, self._naming, self._devices):
            known.clear()

    def _found(self, query: sa.Select[Any], values: Mapping[str, Any]) -> set[str]:
        return {row[0] for row in self._select(query, values)} if self._is_any else set()
