"""The part of its card in a partition: a MIG profile, or one of the equal parts of AMD's compute modes.

The one place with sizes of partitions: used for labels of nodes, resources of device plugins, devices of claims and
supply.

Source: docs/devices.md; NVIDIA, Multi-Instance GPU User Guide (supported GPUs, profiles, memory slices); NVIDIA/mig-parted,
deployments/systemd/config-default.yaml; AMD, compute partition modes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

from bus.amounts import NANO, observed_quantity
from bus.errors import QuantityError
from bus.events.devices import Device

#: Prefix of a device plugin's resources for partitions, one resource for each profile.
MIG_RESOURCE = "nvidia.com/mig-"

#: ``1g.5gb``; ``1c.3g.20gb``: one of three compute instances; parts after a separator are media engines and the
#: like.
_PROFILE = re.compile(r"(?:([0-9]{1,2})c\.)?([0-9]{1,2})g\.([0-9]{1,4})gb(?:[.+-].*)?")
#: In a product's name.
_CARD_GB = re.compile(r"(?<![0-9])([0-9]{1,4}) ?GB(?![0-9a-z])", re.IGNORECASE)
#: Its name has the memory of the processor beside the card.
_WITH_PROCESSOR = re.compile(r"\bGH200\b", re.IGNORECASE)
#: GB of cards without memory in their product name, by the profile of the whole card; the first match counts.
_KNOWN_GB = tuple(
    (re.compile(rf"(?<![0-9a-z]){name}(?![0-9a-z])".replace(" ", "[ -]"), re.IGNORECASE), gb)
    for name, gb in (
        ("GH200 144GB?", 144), ("GH200", 96), ("GB300", 278), ("B300", 269), ("GB200", 186), ("B200", 180),
        ("H200", 141), ("H20 3e", 141), ("(?:H100|H800) NVL", 94), ("H20", 96), ("H800", 80), ("Tesla A100", 40), ("A30", 24),
        ("RTX PRO 6000 Blackwell", 96), ("RTX PRO 5000 Blackwell", 48), ("RTX PRO 4500 Blackwell", 32),
    )
)  # fmt: skip
_MIG_SUFFIX = re.compile(r"[- ]MIG[- ]", re.IGNORECASE)
#: Slices of a card: of memory, and of compute where no memory is known.
_MEMORY_SLICES, _COMPUTE_SLICES = 8, 7

#: Parts of a card by AMD's compute mode; ``CPX_NPS4`` names the mode first.
_AMD_MODES = {"SPX": 1, "DPX": 2, "TPX": 3, "QPX": 4, "CPX": 8}

_MIB = 2**20 * NANO


@lru_cache(maxsize=1_024)
def mig_part(profile: str, product: str, card_mib: int = 0) -> Fraction | None:
    """The part of a card in a MIG profile; None for another text.

    Eighths of the card's memory: as the ``product`` names it, else ``card_mib``; of an unknown memory the share of compute.
    """
    found = _PROFILE.fullmatch(profile.strip().lower())
    if found is None:
        return None
    parts, of_card, of_memory = found.groups()
    compute, memory_gb = int(of_card), int(of_memory)
    # Compute instances divide the memory of their partition.
    share = min(Fraction(1), Fraction(int(parts), compute or 1)) if parts else Fraction(1)
    card_mib = 1024 * _memory_gb(product) or card_mib
    if card_mib:
        nearest = int(Fraction(_MEMORY_SLICES * 1024 * memory_gb, card_mib) + Fraction(1, 2))
        return share * Fraction(min(max(nearest, 1), _MEMORY_SLICES), _MEMORY_SLICES)
    return share * Fraction(min(max(compute, 1), _COMPUTE_SLICES), _COMPUTE_SLICES)


def mig_profile(product: str) -> str:
    """The profile in the product's name of a node with equally divided cards; "" for none."""
    found = _MIG_SUFFIX.split(product, maxsplit=1)
    return found[1] if len(found) > 1 else ""


def _memory_gb(product: str) -> int:
    """The memory of the card with a product's name; 0 if unknown."""
    name = _MIG_SUFFIX.split(product, maxsplit=1)[0]
    found = None if _WITH_PROCESSOR.search(name) else _CARD_GB.search(name)
    return int(found[1]) if found else next((gb for card, gb in _KNOWN_GB if card.search(name)), 0)


def amd_parts(mode: str) -> int:
    """The number of equal parts of a card in a compute mode; 1 for an unknown mode."""
    return _AMD_MODES.get(re.split("[^A-Z]", mode.upper(), maxsplit=1)[0], 1)


def parent_card(device: Device, devices: Iterable[Device]) -> tuple[str, int]:
    """The card of a fixed partition in a slice, and its MiB of memory if known.

    The card is a device beside it, else it is called by its uuid. A device without fixed partition is its own card.
    """
    uuid = device.attributes.get("parentUUID", "")
    if not uuid or not is_fixed(device):
        return device.name, 0
    for other in devices:
        if other.attributes.get("uuid") == uuid and not is_fixed(other):
            return other.name, _mib(other.capacity.get("memory", ""))
    return uuid, 0


def is_fixed(device: Device) -> bool:
    """Whether it is a partition made before any claim: it takes no shared counters."""
    return not device.consumes and fixed_part(device) is not None


def fixed_part(device: Device, card_mib: int = 0) -> Fraction | None:
    """The part of its card by a device's profile; None without a profile."""
    profile = device.attributes.get("profile", "")
    return (
        mig_part(profile, device.attributes.get("productName", ""), card_mib) if profile else None
    )


def _mib(text: str) -> int:
    try:
        return observed_quantity(text) // _MIB if text else 0
    except QuantityError:
        return 0
