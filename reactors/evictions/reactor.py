"""The evictions reactor: its parts, as the machine runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.events.clock import ClockTicked
from bus.events.decisions import Evict
from reactors.engine.contract import Reactor
from reactors.evictions import NAME
from reactors.evictions.decide import decide, managed, overtaken, rests
from reactors.evictions.settings import EvictionPolicy, EvictionSettings
from reactors.evictions.state import EvictionState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus.metrics import Metric
    from reactors.engine.adapters import Adapters, EffectorTable
    from reactors.engine.replica import Replica


def effects(adapters: Adapters) -> EffectorTable:
    """The effector of evictions."""
    # A question to the reactors needs no effects, and should not pay for the import.
    from reactors.effectors.evict import EvictEffector
    from reactors.engine.adapters import EffectorTable

    return EffectorTable({Evict.wire_type: EvictEffector(adapters.cluster)})


def figures(replica: Replica) -> Iterator[Metric]:
    """Its metrics for a scraper."""
    from reactors.evictions.metrics import figures

    return figures(replica)


reactor = Reactor(
    name=NAME,
    version=7,
    policy=EvictionPolicy,
    settings=EvictionSettings,
    activity="giving back",
    state=EvictionState,
    triggers=(ClockTicked,),
    decide=decide,
    managed=managed,
    overtaken=overtaken,
    rests=rests,
    effects=effects,
    metrics=figures,
)
