"""The cards of a pod second by second: by its requests, by systems of shared cards, and by its claims.

Source: docs/devices.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import msgspec

from projections import timelines
from projections.devices.entries import cards_text, memory_text, merged
from projections.devices.requested import CardFacts, requested

_encode = msgspec.json.Encoder(order="sorted").encode
_extended = msgspec.json.Decoder(dict[str, int]).decode
_texts = msgspec.json.Decoder(dict[str, str]).decode
_facts = msgspec.json.Decoder(CardFacts).decode

#: (model or None for its node's, milli-cards, MiB of device memory); and other devices by driver
Amounts = tuple[tuple[tuple[str | None, int, int], ...], tuple[tuple[str, int], ...]]


class ClaimedCards(NamedTuple):
    """A pod's holdings by claims, with the first second; and the resources replaced by these claims."""

    timeline: list[tuple[int, Amounts]] = []
    claimed: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()


class PodCards(Protocol):
    """The inputs from a pod."""

    @property
    def cards(self) -> tuple[tuple[str, int, str], ...]:
        """Its observations about cards beyond an amount."""

    @property
    def history(self) -> timelines.History:
        """All of its observations."""


class Cards(NamedTuple):
    """The inputs from around a pod: ``given`` by claims from its start to its end, ``sharing`` of a node over time."""

    given: Callable[[Any, int, int | None], ClaimedCards]
    sharing: Callable[[str], list[tuple[int, str]]]


NOTHING_GIVEN = ClaimedCards()
NO_CARDS = Cards(lambda pod, start_s, end_s: NOTHING_GIVEN, lambda node: [])


class HeldColumns(NamedTuple):
    """The columns of a segment about cards, and flags."""

    gpu_milli: int
    extended: str
    model: str | None
    devices: str
    device_memory: str
    flags: frozenset[str]


def card_facts(pod: PodCards) -> list[tuple[int, str]]:
    """(first second, :class:`CardFacts` as JSON), oldest first; "" if an amount is enough.

    As with amounts, observations before the pod had a node count for no second.
    """
    if not pod.cards:
        return []
    texts = {(version, time_us): one for version, time_us, one in pod.cards}
    bound = tuple(one for one in pod.history if one[2].node is not None)
    return timelines.changes(
        tuple(
            (version, time_us, texts.get((version, time_us), "")) for version, time_us, _ in bound
        )
    )


def held_cards(
    gpu_milli: int,
    extended: str,
    facts: str | None,
    given: ClaimedCards,
    second: int,
    node: str,
    namespace: str,
    model: str | None,
) -> HeldColumns:
    """A pod's holdings in one second. ``gpu_milli`` and ``extended`` are charged by its requests alone, ``node`` is
    its node's report about shared cards, ``model`` the node's.
    """
    asked = requested(
        gpu_milli,
        _extended(extended) if extended else {},
        _facts(facts) if facts else None,
        given.claimed,
        _texts(node) if node else {},
        namespace,
    )
    amounts: Amounts = ((), ())
    for begin, value in given.timeline:
        if begin > second:
            break
        amounts = value
    entries = merged(
        (
            (model, asked.gpu_milli, 0),
            *((model or one.model, one.gpu_milli, one.gpu_memory_mib) for one in asked.parts),
            *((one or model, milli, memory) for one, milli, memory in amounts[0]),
        )
    )
    others = dict(asked.extended)
    for name, count in amounts[1]:
        others[name] = others.get(name, 0) + count
    own = entries[0].model if entries else model
    return HeldColumns(
        sum(one.gpu_milli for one in entries),
        _encode(others).decode() if others else "",
        own,
        cards_text(entries),
        memory_text(entries),
        frozenset(("size_unseen",)) if asked.is_size_unseen else frozenset(),
    )
