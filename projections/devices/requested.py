"""A pod's cards by its requests, from its node's device plugin or from a system of shared cards.

Source: docs/devices.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache

import msgspec

from bus.amounts import NANO, PodResources
from bus.charges import Amounts, charged_bytes, effective
from bus.errors import MalformedJsonError
from bus.events.pods import PodState
from projections.devices.demand import ACCELERATORS, GPU_DRIVERS, IMPLICIT
from projections.devices.partitions import MIG_RESOURCE
from projections.devices.shared_cards import (
    AMD,
    HAMI,
    INIT,
    KOORDINATOR_MEMORY,
    REGULAR,
    RESERVING,
    VOLCANO,
    SharedCards,
    shared,
    times,
    virtual,
)
from projections.devices.sizes import WHOLE


class CardFacts(msgspec.Struct, frozen=True, array_like=True):
    """The report about cards in one observation of a pod, beyond an amount: texts, and its requested number of each
    resource.

    ``slots``: its containers in the order of the annotations of HAMi and Volcano (:func:`projections.devices.shared_cards.shared`).
    """

    texts: dict[str, str] = {}
    requests: dict[str, int] = {}
    slots: str = ""


class RequestedCards(msgspec.Struct, frozen=True, gc=False):
    """Cards by request: ``gpu_milli`` are of the node's model; ``extended`` is the rest of other resources."""

    gpu_milli: int
    extended: dict[str, int]
    parts: tuple[SharedCards, ...] = ()
    is_size_unseen: bool = False


#: Without this name, an amount of cards counts ``nvidia.com/gpu``, or hundredths.
_AMD = f'"{AMD}"'.encode()
_decode = msgspec.json.Decoder(PodResources).decode
_encode = msgspec.json.Encoder(order="sorted").encode


def facts_of(fact: PodState, amounts: Amounts) -> str:
    """The :class:`CardFacts` of an observation as JSON; "" where an amount says all."""
    raw = bytes(fact.resources)
    if not (fact.card_texts or fact.claimed or _AMD in raw) and not any(
        _is_special(name) for name, _ in amounts.extended
    ):
        return ""
    resources = _decode(raw)
    has_slots = HAMI in fact.card_texts or VOLCANO in fact.card_texts
    slots = _slots(resources) if has_slots else ""
    return _encode(CardFacts(fact.card_texts, _requests(resources), slots)).decode()


def observed_cards(fact: PodState) -> str:
    """:func:`facts_of` an observation alone; "" for unreadable resources."""
    try:
        return facts_of(fact, charged_bytes(bytes(fact.resources)))
    except MalformedJsonError:
        return ""


def _slots(resources: PodResources) -> str:
    inits = [REGULAR if one.restartable else INIT for one in resources.init_containers]
    return "".join(inits) + REGULAR * len(resources.containers) if INIT in inits else ""


@lru_cache(maxsize=8_192)
def _is_special(name: str) -> bool:
    return (
        name.startswith((IMPLICIT, "volcano.sh/vgpu-", MIG_RESOURCE))
        or name in ("nvidia.com/gpu.shared", *virtual("nvidia.com/gpu"), *KOORDINATOR_MEMORY)
        or ACCELERATORS.fullmatch(name) is not None
    )


def _requests(resources: PodResources) -> dict[str, int]:
    found, _ = effective(resources)
    return {name: -(-nano // NANO) for name, nano in sorted(found.items()) if "/" in name and nano}


def requested(
    gpu_milli: int,
    extended: Mapping[str, int],
    facts: CardFacts | None,
    claimed: Collection[str],
    node: Mapping[str, str],
    namespace: str,
) -> RequestedCards:
    """The holdings by request within the charge: ``gpu_milli`` and ``extended`` by the names alone.

    ``claimed`` are the resources of an observed claim; ``node`` the node's report about shared cards.
    """
    if facts is None:
        count = gpu_milli // WHOLE
        found = shared({"nvidia.com/gpu": count}, {}, node) if node and count else None
        if found is None or not found.parts:
            return RequestedCards(gpu_milli, dict(extended))
        return RequestedCards(gpu_milli - WHOLE * count, dict(extended), found.parts)
    left = {name: count for name, count in extended.items() if name not in claimed}
    open_ = {name: count for name, count in facts.requests.items() if name not in claimed}
    gone = {name for name in facts.requests if name in claimed}
    found = shared(
        open_,
        facts.texts,
        node,
        is_reserving=namespace == RESERVING
        and any(key.startswith("runai-gpu-group") for key in facts.texts),
        slots=facts.slots,
    )
    parts = list(found.parts)
    for name in found.replaced:
        left.pop(name, None)
        gone.add(name)
    for name, count in open_.items():
        if name.startswith(IMPLICIT):
            left.pop(name, None)
            gone.add(name)
            if name.removeprefix(IMPLICIT) in GPU_DRIVERS:
                parts.append(times(SharedCards(WHOLE), count))
            else:
                left[name] = count
    by_name = sum(WHOLE * facts.requests.get(name, 0) for name in gone if name.endswith("/gpu"))
    return RequestedCards(max(0, gpu_milli - by_name), left, tuple(parts), found.is_size_unseen)
