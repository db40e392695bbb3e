"""The offer of each ResourceSlice, card by card.

Source: docs/devices.md.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import sqlalchemy as sa

from bus.envelope import Event
from bus.events.devices import ResourceSliceObserved, ResourceSliceState, ResourceSliceVanished
from projections.devices.demand import GPU_DRIVERS
from projections.devices.partitions import parent_card
from projections.engine.codec import Codec
from projections.engine.contract import Key, Projection, row_table
from projections.timelines import added

slices = row_table(
    "resource_slices",
    sa.Column("uid", sa.Text, primary_key=True),
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("driver", sa.Text, nullable=False),
    sa.Column("pool", sa.Text, nullable=False),
    sa.Column("vanished", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Index("resource_slices_by_pool", "cluster", "driver", "pool"),
)

#: How its lists call it.
KIND = "ResourceSlice"
#: Instead of an offer: the slice was deleted.
GONE: Literal["gone"] = "gone"


class Card(msgspec.Struct, frozen=True, array_like=True):
    """A card: a device without counters, or the set of counters of its partitions."""

    name: str
    node: str = ""
    model: str | None = None


class Offer(msgspec.Struct, frozen=True, array_like=True):
    """The offer of one observation of a slice."""

    generation: int
    cards: tuple[Card, ...] = ()


class Slice(msgspec.Struct, frozen=True):
    """All observations of one slice, by uid."""

    uid: str
    cluster: str
    driver: str
    pool: str
    history: tuple[tuple[str, int, Offer | Literal["gone"]], ...] = ()
    sequence: int = 0


def keys(fact: ResourceSliceState, event: Event) -> tuple[Key]:
    """One slice: its uid."""
    return ((fact.uid,),)


def fold(row: Slice | None, fact: ResourceSliceState, event: Event) -> Slice:
    """The slice with one more observation."""
    row = row or Slice(fact.uid, event.cluster, fact.driver, fact.pool)
    value = (
        GONE if isinstance(fact, ResourceSliceVanished) else Offer(fact.generation, _cards(fact))
    )
    history = added(row.history, fact.resource_version, event.time_us, value)
    if history == row.history:
        return row
    # A slice's driver and pool never change; after a writer's violation, arrival must not choose.
    driver, pool = max((row.driver, row.pool), (fact.driver, fact.pool))
    return Slice(row.uid, row.cluster, driver, pool, history, event.sequence)


def _cards(fact: ResourceSliceState) -> tuple[Card, ...]:
    if fact.driver not in GPU_DRIVERS:
        return ()
    found: dict[str, Card] = {}
    for device in fact.devices:
        for name in device.consumes or (parent_card(device, fact.devices)[0],):
            card = f"{fact.driver}/{fact.pool}/{name}"
            model = device.attributes.get("productName")
            found.setdefault(card, Card(card, device.node or fact.node, model))
    return tuple(found[name] for name in sorted(found))


def _shown(row: Slice) -> dict[str, Any]:
    return {"vanished": int(row.history[-1][2] == GONE)}


projection = Projection(
    name="resource_slices",
    version=2,
    table=slices,
    facts=(ResourceSliceObserved, ResourceSliceVanished),
    keys=keys,
    fold=fold,
    codec=Codec(Slice, slices, packed={"state": ("history",)}, shown=_shown),
)
