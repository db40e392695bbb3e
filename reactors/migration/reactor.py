"""The migration reactor: its parts for the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.events.clock import ClockTicked
from bus.events.decisions import Evict
from bus.events.migrations import MigrationObserved
from bus.events.pods import PodObserved, PodVanished, ReservationObserved, ReservationVanished
from projections.cluster.migrations import Migration
from projections.cluster.reservations import Reservation
from reactors.engine.contract import Reactor
from reactors.migration import NAME
from reactors.migration.decide import decide, is_concerned, managed, overtaken, rests
from reactors.migration.settings import MigrationPolicy, MigrationSettings
from reactors.migration.state import MigrationState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus.metrics import Metric
    from reactors.engine.adapters import Adapters, EffectorTable
    from reactors.engine.replica import Replica


def effects(adapters: Adapters) -> EffectorTable:
    """The effectors of migrations."""
    # Only a process with effects should pay for the import.
    from reactors.effectors.evict import EvictEffector
    from reactors.engine.adapters import EffectorTable
    from reactors.migration.effectors.migrate import MigrationEffector

    migrations = MigrationEffector(adapters.cluster, adapters.clock)
    return EffectorTable(
        {verb.wire_type: migrations for verb in migrations.verbs}
        | {Evict.wire_type: EvictEffector(adapters.cluster)}
    )


def figures(replica: Replica) -> Iterator[Metric]:
    """The metrics of migrations."""
    from reactors.migration.metrics import figures

    return figures(replica)


reactor = Reactor(
    name=NAME,
    version=1,
    policy=MigrationPolicy,
    settings=MigrationSettings,
    activity="moving pods",
    state=MigrationState,
    triggers=(
        ClockTicked, MigrationObserved, ReservationObserved, ReservationVanished, PodObserved, PodVanished,
    ),
    is_concerned=is_concerned,
    decide=decide,
    managed=managed,
    overtaken=overtaken,
    rests=rests,
    effects=effects,
    metrics=figures,
    hears_at_once=frozenset({Migration.kind, Reservation.kind}),
)  # fmt: skip
