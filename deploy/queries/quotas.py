"""The quota trees as the ledger's archive has them: what admission would know if it had read exactly as far.

For questions only: the trees are the product's own, nothing that is decided on them is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import sqlalchemy as sa

from bus.clock import SystemClock
from bus.events.admissions import JOURNAL
from deploy.errors import SettingsError
from deploy.runtime.ledgers import reading
from deploy.settings.near import absent
from deploy.settings.place import LedgerPlace
from projections.engine.tables import checkpoints
from projections.evidence import moments
from projections.quota_trees import Node, Tree
from projections.quota_trees.declared import declared_quotas
from projections.quota_trees.queries import Select
from projections.quota_trees.shape import BUSINESS, ELASTIC
from projections.quotas import quotas
from reactors.admission.state.state import ASKING_FACTS, AdmissionState
from reactors.queue.demand import counted

if TYPE_CHECKING:
    from reactors.engine.journals import Journals


class QuotaQueries(msgspec.Struct, frozen=True):
    """The trees of one cluster after the ledger's event ``sequence``, and the ledger itself to look further."""

    cluster: str
    journals: Journals
    view: AdmissionState
    connection: sa.Connection
    sequence: int
    observed_us: int

    @property
    def select(self) -> Select:
        """Ask the ledger, in the transaction that the trees were read in."""
        return lambda query: [tuple(row) for row in self.connection.execute(query)]

    def placed(self, name: str) -> tuple[Tree, Node]:
        """A quota by name, and its tree. Raises AbsentObjectError naming those that are near."""
        for kind in (BUSINESS, ELASTIC):
            tree = self.journals.trees.get(self.journals.places.get((kind, name), ""))
            if tree is not None:
                return tree, tree.nodes[name]
        raise absent("quota", name, (quota for _, quota in self.journals.places))


@contextmanager
def quota_queries(place: LedgerPlace, cluster: str | None = None) -> Iterator[QuotaQueries]:
    """Look at the quota trees of a cluster (by default the one that the ledger holds, or the settings'). Raises
    AbsentLedgerError, and SettingsError where the ledger holds several clusters and none was named.
    """
    from bus.memory import MemoryTransport
    from reactors.engine.snapshots import restored
    from reactors.readers import Readers

    with reading(place) as connection:
        name = cluster or only_cluster(connection, place.cluster)

        def select(query: sa.Select[Any]) -> list[tuple[Any, ...]]:
            return [tuple(row) for row in connection.execute(query)]

        row = connection.execute(sa.select(checkpoints)).first()
        sequence, observed_us = row.sequence if row else 0, moments(select).get(name, 0)
        make = partial(Readers, MemoryTransport(), SystemClock(), cluster=name, source="consulting")
        readers = restored(select, make, sequence)
        # Who asks for room is in the journals; of all objects beside only those are read that say what a claim asks for.
        readers.read(select, sequence, (*JOURNAL, *AdmissionState.places, *ASKING_FACTS))
        for tree in readers.journals.trees.values():
            # What waits in queues is not read here.
            counted(tree, {}, observed_us)
        journals, view = readers.journals, readers.view
        yield QuotaQueries(name, journals, view, connection, sequence, observed_us)


def only_cluster(connection: sa.Connection, configured: str) -> str:
    """The cluster that is meant where none was named: the settings', or the only one that has quotas. Raises SettingsError."""
    columns = (declared_quotas.c.cluster, quotas.c.cluster)
    found = {row[0] for c in columns for row in connection.execute(sa.select(c).distinct())}
    if not found:
        # Without any quota: the cluster that was observed.
        found = set(moments(lambda query: [tuple(row) for row in connection.execute(query)]))
        found = found if len(found) == 1 else set()
    if not found or configured in found:
        return configured
    if len(found) == 1:
        return str(found.pop())
    raise SettingsError(f"name one of the clusters {', '.join(sorted(found))} with --cluster")
