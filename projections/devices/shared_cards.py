"""What a pod holds of cards that systems beside Kubernetes share out, and of other vendors' accelerators.

Each of them says in its own way which pod has which part: HAMi and Volcano by an annotation for each device, KAI by a
fraction, NVIDIA's device plugin by labels of the node. Parts are rounded down, one by one; where the size of a card is not
known, by the cores that were asked for, else a whole one, flag ``size_unseen``; KAI's ``gpu-memory`` and ``nvidia.com/gpu.shared``
then count none.

Source: docs/devices.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import lru_cache

import msgspec

from bus.events.devices import COUNTED
from projections.devices.demand import ACCELERATORS
from projections.devices.sizes import WHOLE

HAMI, HAMI_NODE = "hami.io/vgpu-devices-allocated", "hami.io/node-nvidia-register"
VOLCANO, VOLCANO_NODE = "volcano.sh/vgpu-ids-new", "volcano.sh/node-vgpu-register"
FRACTION, MEMORY, DEVICES = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"
#: Where KAI keeps the pods that hold the cards it shares out.
RESERVING = "kai-resource-reservation"
CARD_MEMORY, STRATEGY, REPLICAS = "nvidia.com/gpu.memory", "nvidia.com/gpu.sharing-strategy", "nvidia.com/gpu.replicas"  # fmt: skip

#: Labels of nodes that say how their cards are shared.
NODE_LABELS = (CARD_MEMORY, STRATEGY, REPLICAS)


class Part(msgspec.Struct, frozen=True, gc=False):
    """Cards of one model, in thousandths, with device memory in MiB. ``model`` None: the node's label says it."""

    gpu_milli: int
    gpu_memory_mib: int = 0
    model: str | None = None


#: A label's value is no longer.
LONGEST_MODEL = 63
#: Tenants write these numbers, and no pod has more: cards of one name, and MiB of one card.
MOST_CARDS, MOST_MIB = 2**20, 2**24


def times(part: Part, count: int) -> Part:
    """So many cards that are alike; at most :data:`MOST_CARDS`."""
    count = min(count, MOST_CARDS)
    return Part(part.gpu_milli * count, part.gpu_memory_mib * count, part.model)


class Parts(msgspec.Struct, frozen=True, gc=False):
    """What a pod holds of shared cards: ``replaced`` are the resources that are not counted beside it."""

    parts: tuple[Part, ...] = ()
    replaced: frozenset[str] = frozenset()
    is_size_unseen: bool = False


def shared(
    requests: Mapping[str, int],
    texts: Mapping[str, str],
    node: Mapping[str, str],
    *,
    is_reserving: bool = False,
) -> Parts:
    """What a pod with these ``requests`` (resource → count) and ``texts`` holds on a node with the texts ``node``."""
    if is_reserving:
        return Parts(replaced=frozenset(("nvidia.com/gpu",)))
    for name, register, prefix in (
        (HAMI, HAMI_NODE, "nvidia.com/gpu"), (VOLCANO, VOLCANO_NODE, "volcano.sh/vgpu-"),
    ):  # fmt: skip
        if name in texts:
            return _annotated(requests, texts[name], node, node.get(register, ""), prefix)
    for count, prefix in (("nvidia.com/gpu", "nvidia.com/gpu"), ("volcano.sh/vgpu-number", "volcano.sh/vgpu-")):  # fmt: skip
        asked = {n: min(requests.get(n, 0), MOST_MIB) for n in virtual(prefix)}
        if requests.get(count) and (prefix != "nvidia.com/gpu" or any(n in requests for n in asked)):  # fmt: skip
            memory, percentage, cores = asked.values()
            part, is_unseen = _part(memory, percentage, cores, _label(node))
            return Parts((times(part, requests[count]),), frozenset((count, *asked)), is_unseen)
    if FRACTION in texts or MEMORY in texts:
        return _fraction(texts, _label(node))
    return _sliced(requests, node, counted(texts.get(COUNTED, "")))


def virtual(prefix: str) -> tuple[str, str, str]:
    """The resources by which a system asks for a part: memory, percent of it, cores."""
    if prefix == "nvidia.com/gpu":
        return "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"
    return f"{prefix}memory", f"{prefix}memory-percentage", f"{prefix}cores"


def _annotated(
    requests: Mapping[str, int], text: str, node: Mapping[str, str], register: str, prefix: str
) -> Parts:
    """Devices of an annotation: ``uuid,type,MiB,cores:…;`` with a semicolon after each container."""
    known = dict(registered(register))
    parts: list[Part] = []
    is_size_unseen = False
    for one in re.split("[:;]", text):
        fields = one.split(",")
        if len(fields) >= 4:
            memory, cores = _number(fields[2]), _number(fields[3])
            part, is_unseen = _part(memory, 0, cores, known.get(fields[0]) or _label(node))
            parts.append(part)
            is_size_unseen |= is_unseen
    counted = "nvidia.com/gpu" if prefix == "nvidia.com/gpu" else f"{prefix}number"
    return Parts(tuple(parts), frozenset((counted, *virtual(prefix))), is_size_unseen)


def _part(memory: int, percentage: int, cores: int, card: int) -> tuple[Part, bool]:
    """A part of a card of ``card`` MiB (0: not known), and whether its size had to be guessed."""
    if memory and card:
        milli = WHOLE if cores >= 100 else min(WHOLE, WHOLE * memory // card)
        return Part(milli, card if cores >= 100 else memory), False
    if cores >= 100:
        return Part(WHOLE, card or memory), False
    if percentage := min(percentage, 100):
        return Part(min(WHOLE, 10 * percentage), card * percentage // 100), False
    if not memory:
        return Part(WHOLE, card), False
    return Part(10 * cores if cores else WHOLE, memory), True


def _fraction(texts: Mapping[str, str], card: int) -> Parts:
    devices = max(1, _number(texts.get(DEVICES, "1")))
    if FRACTION in texts:
        share = min(Fraction(1), _decimal(texts[FRACTION]))
        return Parts((times(Part(int(share * WHOLE), int(share * card)), devices),))
    memory = _number(texts[MEMORY])
    if not card:
        return Parts((times(Part(0, memory), devices),), is_size_unseen=True)
    return Parts((times(Part(min(WHOLE, WHOLE * memory // card), memory), devices),))


_named = msgspec.json.Decoder(dict[str, tuple[int, str]]).decode


@lru_cache(maxsize=256)
def counted(text: str) -> Mapping[str, tuple[int, str]]:
    """What an installation counts as cards: resource to milli-cards and model. What Bursar would not have written says nothing."""
    try:
        found = _named(text) if text else {}
    except (msgspec.DecodeError, UnicodeDecodeError, UnicodeEncodeError, RecursionError):
        return {}
    return {
        name: (milli, model)
        for name, (milli, model) in found.items()
        if 0 < milli <= WHOLE and 0 < len(model) <= LONGEST_MODEL
    }


def _sliced(
    requests: Mapping[str, int], node: Mapping[str, str], named: Mapping[str, tuple[int, str]]
) -> Parts:
    """Cards that the device plugin shows several times, accelerators of other vendors, and what is ``named`` as cards."""
    parts: list[Part] = []
    replaced: set[str] = set()
    is_size_unseen = False
    replicas = _number(node.get(REPLICAS, "0")) if node.get(STRATEGY, "none") != "none" else 0
    for name, count in requests.items():
        if name == "nvidia.com/gpu" and replicas > 1:
            parts.append(times(Part(WHOLE // replicas), count))
        elif name == "nvidia.com/gpu.shared":
            parts.append(times(Part(WHOLE // replicas if replicas > 1 else 0), count))
            is_size_unseen |= replicas <= 1
        elif name in named:
            milli, model = named[name]
            parts.append(times(Part(milli, 0, model), count))
        elif ACCELERATORS.fullmatch(name):
            parts.append(times(Part(WHOLE, 0, name.partition("/")[2]), count))
        else:
            continue
        replaced.add(name)
    return Parts(tuple(parts), frozenset(replaced), is_size_unseen)


def registered(text: str) -> Iterator[tuple[str, int]]:
    """(uuid, MiB) of the cards of a node: ``uuid,split,MiB,…`` with colons between."""
    for one in text.split(":"):
        fields = one.split(",")
        if len(fields) >= 3:
            yield fields[0], _number(fields[2])


def _label(node: Mapping[str, str]) -> int:
    return _number(node.get(CARD_MEMORY, "0"))


def _number(text: str) -> int:
    return min(int(text), MOST_MIB) if text.isascii() and text.isdigit() and len(text) < 16 else 0


def _decimal(text: str) -> Fraction:
    return Fraction(text) if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,9})?", text) else Fraction(0)
