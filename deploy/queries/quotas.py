"""The quota trees of the ledger's archive: admission's state after exactly the same events.

For questions only: these are the product's own trees, but decisions on them are not recorded.
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
from projections.quota_trees import Tree, TreeNode
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
        """Query the ledger, in the transaction of the trees."""
        return lambda query: [tuple(row) for row in self.connection.execute(query)]

    def placed(self, name: str) -> tuple[Tree, TreeNode]:
        """A quota by name, and its tree. Raises AbsentObjectError with similar names."""
        for kind in (BUSINESS, ELASTIC):
            tree = self.journals.trees.get(self.journals.places.get((kind, name), ""))
            if tree is not None:
                return tree, tree.nodes[name]
        raise absent("quota", name, (quota for _, quota in self.journals.places))


@contextmanager
def quota_queries(place: LedgerPlace, cluster: str | None = None) -> Iterator[QuotaQueries]:
    """Read the quota trees of a cluster; by default, the ledger's only one or the settings'. Raises
    AbsentLedgerError, and SettingsError if the ledger holds several clusters and ``cluster`` is None.
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
        # Requests for room are in the journals. Of other objects only the facts behind claims' requests are read.
        readers.read(select, sequence, (*JOURNAL, *AdmissionState.places, *ASKING_FACTS))
        for tree in readers.journals.trees.values():
            # Queues are not read here.
            counted(tree, {}, observed_us)
        journals, view = readers.journals, readers.view
        yield QuotaQueries(name, journals, view, connection, sequence, observed_us)


def only_cluster(connection: sa.Connection, configured: str) -> str:
    """The default cluster: the settings', or the only one with quotas. Raises SettingsError."""
    columns = (declared_quotas.c.cluster, quotas.c.cluster)
    found = {row[0] for c in columns for row in connection.execute(sa.select(c).distinct())}
    if not found:
        # Without any quota: the observed cluster.
        found = set(moments(lambda query: [tuple(row) for row in connection.execute(query)]))
        found = found if len(found) == 1 else set()
    if not found or configured in found:
        return configured
    if len(found) == 1:
        return str(found.pop())
    raise SettingsError(f"name one of the clusters {', '.join(sorted(found))} with --cluster")
