"""A pod's holdings of cards shared by systems beside Kubernetes, and of other vendors' accelerators.

Each system reports a pod's part in its own way: HAMi and Volcano by an annotation for each device, KAI by a
fraction, device plugins by labels of the node. Parts are rounded down, one by one. If the card's size is unknown,
requested cores decide, else one whole card (``size_unseen``). KAI's ``gpu-memory`` then counts 0, and so does
``nvidia.com/gpu.shared`` without known replicas.

Source: docs/devices.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import lru_cache

import msgspec

from bus.charges import card_milli
from bus.events.devices import COUNTED
from projections.devices.demand import ACCELERATORS
from projections.devices.partitions import MIG_RESOURCE, amd_parts, mig_part, mig_profile
from projections.devices.sizes import WHOLE

HAMI, HAMI_NODE = "hami.io/vgpu-devices-allocated", "hami.io/node-nvidia-register"
VOLCANO, VOLCANO_NODE = "volcano.sh/vgpu-ids-new", "volcano.sh/node-vgpu-register"
FRACTION, MEMORY, DEVICES = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"
#: KAI's namespace of the pods with its shared cards.
RESERVING = "kai-resource-reservation"
CARD_MEMORY, STRATEGY, REPLICAS = "nvidia.com/gpu.memory", "nvidia.com/gpu.sharing-strategy", "nvidia.com/gpu.replicas"  # fmt: skip
GKE_PARTITION = "cloud.google.com/gke-gpu-partition-size"
GKE_CLIENTS = "cloud.google.com/gke-max-shared-clients-per-gpu"
AMD, AMD_MODES = "amd.com/gpu", ("amd.com/compute-memory-partition", "amd.com/compute-partition")
#: A node's cards with named partitions, as :mod:`projections.nodes` writes it.
PRODUCT = "nvidia.com/gpu.product"
#: By Koordinator: cards in parts, and their memory. Of a node: one card's in MiB, as :mod:`projections.nodes`
#: writes it.
KOORDINATOR_SHARED = "koordinator.sh/gpu.shared"
KOORDINATOR_MEMORY = ("koordinator.sh/gpu-memory", "kubernetes.io/gpu-memory")
KOORDINATOR_CARD = KOORDINATOR_MEMORY[0]
_MIB = 2**20


class SharedCards(msgspec.Struct, frozen=True, gc=False):
    """Cards of one model, in thousandths, with device memory in MiB. ``model`` None: from the node's label."""

    gpu_milli: int
    gpu_memory_mib: int = 0
    model: str | None = None


#: Kinds of containers: a plain init container, and any other.
INIT, REGULAR = "i", "c"
#: A label's value is no longer.
LONGEST_MODEL = 63
#: Tenants write these numbers, and no pod has more: cards of one name, and MiB of one card.
MOST_CARDS, MOST_MIB = 2**20, 2**24


def times(part: SharedCards, count: int) -> SharedCards:
    """That many equal cards; at most :data:`MOST_CARDS`."""
    count = min(count, MOST_CARDS)
    return SharedCards(part.gpu_milli * count, part.gpu_memory_mib * count, part.model)


class Parts(msgspec.Struct, frozen=True, gc=False):
    """A pod's holdings of shared cards: ``replaced`` are the resources not counted beside them."""

    parts: tuple[SharedCards, ...] = ()
    replaced: frozenset[str] = frozenset()
    is_size_unseen: bool = False


def shared(
    requests: Mapping[str, int],
    texts: Mapping[str, str],
    node: Mapping[str, str],
    *,
    is_reserving: bool = False,
    slots: str = "",
) -> Parts:
    """The holdings of a pod with these ``requests`` (resource → count) and ``texts`` on a node with the texts
    ``node``.

    ``slots``: its containers in the annotation's order, :data:`INIT` for a plain init container; "" for a pod without these.
    """
    if is_reserving:
        return Parts(replaced=frozenset(("nvidia.com/gpu",)))
    for name, register, prefix in (
        (HAMI, HAMI_NODE, "nvidia.com/gpu"), (VOLCANO, VOLCANO_NODE, "volcano.sh/vgpu-"),
    ):  # fmt: skip
        if name in texts:
            return _annotated(texts[name], node, node.get(register, ""), prefix, slots)
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
    """A system's resources for a part: memory, percent of it, cores."""
    if prefix == "nvidia.com/gpu":
        return "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"
    return f"{prefix}memory", f"{prefix}memory-percentage", f"{prefix}cores"


def _annotated(text: str, node: Mapping[str, str], register: str, prefix: str, slots: str) -> Parts:
    """Devices of an annotation: ``uuid,type,MiB,cores:…;`` with a semicolon after each container.

    Plain init containers run before all others: of a card counts the larger of the largest of these and the sum of the others.
    """
    known = dict(registered(register))
    containers = text.removesuffix(";").split(";")
    #: Card → milli-cards and MiB: of all others together, and the most of one plain init container.
    others: dict[str, tuple[int, int]] = {}
    before: dict[str, tuple[int, int]] = {}
    is_size_unseen = False
    # An annotation of another number of containers has no slots of init containers.
    kinds = slots if len(slots) == len(containers) else REGULAR * len(containers)
    for container, kind in zip(containers, kinds, strict=True):
        own: dict[str, tuple[int, int]] = {}
        for one in container.split(":"):
            fields = one.split(",")
            if len(fields) >= 4:
                card, _, of_memory, of_cores, *_ = fields
                memory, cores = _number(of_memory), _number(of_cores)
                part, is_unseen = _part(memory, 0, cores, known.get(card) or _label(node))
                milli, mib = own.get(card, (0, 0))
                own[card] = (milli + part.gpu_milli, mib + part.gpu_memory_mib)
                is_size_unseen |= is_unseen
        for card, (milli, mib) in own.items():
            if kind == INIT:
                most = before.get(card, (0, 0))
                before[card] = (max(most[0], milli), max(most[1], mib))
            else:
                total = others.get(card, (0, 0))
                others[card] = (total[0] + milli, total[1] + mib)
    none = (0, 0)
    pairs = [(before.get(card, none), others.get(card, none)) for card in {**before, **others}]
    parts = tuple(SharedCards(max(one[0], two[0]), max(one[1], two[1])) for one, two in pairs)
    counted = "nvidia.com/gpu" if prefix == "nvidia.com/gpu" else f"{prefix}number"
    return Parts(parts, frozenset((counted, *virtual(prefix))), is_size_unseen)


def _part(memory: int, percentage: int, cores: int, card: int) -> tuple[SharedCards, bool]:
    """A part of a card of ``card`` MiB (0: not known), and whether its size had to be guessed."""
    if memory and card:
        milli = WHOLE if cores >= 100 else min(WHOLE, WHOLE * memory // card)
        return SharedCards(milli, card if cores >= 100 else memory), False
    if cores >= 100:
        return SharedCards(WHOLE, card or memory), False
    if percentage := min(percentage, 100):
        return SharedCards(min(WHOLE, 10 * percentage), card * percentage // 100), False
    if not memory:
        return SharedCards(WHOLE, card), False
    return SharedCards(10 * cores if cores else WHOLE, memory), True


def _fraction(texts: Mapping[str, str], card: int) -> Parts:
    devices = max(1, _number(texts.get(DEVICES, "1")))
    if FRACTION in texts:
        share = min(Fraction(1), _decimal(texts[FRACTION]))
        return Parts((times(SharedCards(int(share * WHOLE), int(share * card)), devices),))
    memory = _number(texts[MEMORY])
    if not card:
        return Parts((times(SharedCards(0, memory), devices),), is_size_unseen=True)
    return Parts((times(SharedCards(min(WHOLE, WHOLE * memory // card), memory), devices),))


_named = msgspec.json.Decoder(dict[str, tuple[int, str]]).decode


@lru_cache(maxsize=256)
def counted(text: str) -> Mapping[str, tuple[int, str]]:
    """An installation's own cards: resource to milli-cards and model. Any text not written by Bursar is ignored."""
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
    """Cards listed several times by the device plugin, accelerators of other vendors, and resources ``named`` as cards."""
    parts: list[SharedCards] = []
    replaced: set[str] = set()
    is_size_unseen = False
    replicas = _replicas(node)
    for name, count in requests.items():
        if name == "nvidia.com/gpu" and (part := _partition(node) / max(replicas, 1)) < 1:
            parts.append(times(SharedCards(int(WHOLE * part)), count))
        elif name == "nvidia.com/gpu.shared":
            part = _partition(node) / replicas if replicas > 1 else Fraction(0)
            parts.append(times(SharedCards(int(WHOLE * part)), count))
            is_size_unseen |= replicas <= 1
        elif name == AMD and (among := _amd_parts(node)) > 1:
            parts.append(times(SharedCards(WHOLE // among), count))
        elif name.startswith(MIG_RESOURCE) and (own := _named_partition(name, node)) is not None:
            # It stays a count under its name beside.
            parts.append(times(SharedCards(int(WHOLE * own)), count))
            continue
        elif name in named:
            milli, model = named[name]
            parts.append(times(SharedCards(milli, 0, model), count))
        elif ACCELERATORS.fullmatch(name):
            parts.append(times(SharedCards(WHOLE, 0, name.partition("/")[2]), count))
        else:
            continue
        replaced.add(name)
    if (by_memory := memory_part(requests, node)) is not None:
        parts.append(by_memory)
        is_size_unseen |= not _number(node.get(KOORDINATOR_CARD, "0"))
    return Parts(tuple(parts), frozenset(replaced), is_size_unseen)


def _replicas(node: Mapping[str, str]) -> int:
    """How many times the device plugin offers each card, or each partition of one; 0 where the labels do not say it."""
    of_nvidia = _number(node.get(REPLICAS, "0")) if node.get(STRATEGY, "none") != "none" else 0
    return of_nvidia if of_nvidia > 1 else _number(node.get(GKE_CLIENTS, "0"))


def _partition(node: Mapping[str, str]) -> Fraction:
    """The part of a card in ``nvidia.com/gpu`` on a node with equally divided cards, before replicas."""
    product = node.get(PRODUCT, "")
    profile = node.get(GKE_PARTITION) or mig_profile(product)
    return (mig_part(profile, product) if profile else None) or Fraction(1)


def _named_partition(name: str, node: Mapping[str, str]) -> Fraction | None:
    """The part of a card in a resource with the name of a profile; None without a profile in the name."""
    part = mig_part(
        name.removeprefix(MIG_RESOURCE).removesuffix(".shared"), node.get(PRODUCT, ""), _label(node)
    )
    replicas = _number(node.get(f"{name.removesuffix('.shared')}.replicas", "0"))
    return part and part / max(replicas, 1)


def _amd_parts(node: Mapping[str, str]) -> int:
    return next((amd_parts(node[name]) for name in AMD_MODES if name in node), 1)


def memory_part(requests: Mapping[str, int], node: Mapping[str, str]) -> SharedCards | None:
    """The cards of a pod with a request for their memory alone, by Koordinator's rules; None for further requests,
    or none.
    """
    memory = max(requests.get(name, 0) for name in KOORDINATOR_MEMORY)
    if not memory or card_milli(requests):
        return None
    cards, card = max(requests.get(KOORDINATOR_SHARED, 0), 1), _number(node.get(KOORDINATOR_CARD, "0"))  # fmt: skip
    mib = min(memory // cards // _MIB, MOST_MIB)
    return times(SharedCards(min(WHOLE, WHOLE * mib // card) if card else 0, mib), cards)


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
