"""Scv objects as facts: the cards of a node. Pure: one record in, one event out.

The daemon writes each object anew all the time; the source skips versions without news.

Source: Yoda-Scheduler, "SCV" (core.run-linux.com/v1).
"""

from __future__ import annotations

import msgspec

from bus.envelope import Event
from bus.events.scvs import ScvCard, ScvObserved, ScvVanished
from bus.kube.watch import records
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Metadata, Record

#: Most cards of one node in a fact.
MOST_CARDS = 64
#: No card has so much of anything; sums and products of it stay numbers of 64 bits.
LARGEST = 2**40


class Card(msgspec.Struct, rename="camel"):
    """An entry of ``status.cardList``."""

    health: str = ""
    total_memory: int = 0
    free_memory: int = 0
    clock: int = 0
    core: int = 0
    bandwidth: int = 0
    power: int = 0


class _Status(msgspec.Struct, rename="camel"):
    """The decoded part of ``status``."""

    card_list: list[Card] | None = None
    card_number: int = 0
    total_memory_sum: int = 0
    free_memory_sum: int = 0


class Scv(msgspec.Struct):
    """The decoded part of an Scv object."""

    metadata: Metadata
    status: _Status | None = None


def translate(record: Record, labels: LabelPolicy) -> Event:
    """``scv.observed`` or ``scv.vanished``.

    Raises MalformedJsonError or ObservationError: park the record and list again.
    """
    found = records.decoded(record.object, Scv)
    metadata = records.identified(found.metadata)
    fact: ScvObserved | ScvVanished
    if records.is_delete(record):
        fact = ScvVanished(
            uid=metadata.uid, name=metadata.name, resource_version=metadata.resource_version
        )
    else:
        status = found.status or _Status()
        fact = ScvObserved(
            uid=metadata.uid,
            name=metadata.name,
            resource_version=metadata.resource_version,
            card_number=_bounded(status.card_number),
            total_memory=_bounded(status.total_memory_sum),
            free_memory=_bounded(status.free_memory_sum),
            cards=tuple(map(_card, (status.card_list or ())[:MOST_CARDS])),
        )
    return records.event_of(
        fact, record, key=fact.name, uid=fact.uid, resource_version=fact.resource_version
    )


def _card(one: Card) -> ScvCard:
    return ScvCard(
        one.health == "Healthy", _bounded(one.total_memory), _bounded(one.free_memory),
        _bounded(one.clock), _bounded(one.core), _bounded(one.bandwidth), _bounded(one.power),
    )  # fmt: skip


def _bounded(amount: int) -> int:
    return min(max(amount, 0), LARGEST)
