"""The cards offered by a node's device plugin, by vendor.

Source: docs/devices.md.
"""

from __future__ import annotations

from collections.abc import Mapping

from bus.amounts import NANO, observed_quantity
from bus.errors import QuantityError
from bus.events.devices import COUNTED
from projections.devices.shared_cards import (
    HAMI_NODE,
    KOORDINATOR_MEMORY,
    VOLCANO_NODE,
    registered,
    shared,
)
from projections.devices.sizes import WHOLE

#: Hundredths of cards.
PERCENT = frozenset({"koordinator.sh/gpu", "kubernetes.io/gpu"})


def vendor(domain: str) -> str:
    """The vendor of a driver (``gpu.nvidia.com``) or of a resource's domain (``nvidia.com``)."""
    return domain.removeprefix("gpu.").partition(".")[0]


def offered(allocatable: Mapping[str, str], node: Mapping[str, str]) -> dict[str, int]:
    """Vendor to milli-cards. ``node`` is the node's report about shared cards."""
    found: dict[str, int] = {}
    cards = max(
        sum(1 for _ in registered(node.get(name, ""))) for name in (HAMI_NODE, VOLCANO_NODE)
    )
    if cards:
        found["nvidia"] = WHOLE * cards
    named = {COUNTED: node[COUNTED]} if COUNTED in node else {}
    percent = 0
    for name, text in allocatable.items():
        domain, _, resource = name.partition("/")
        if (vendor(domain) == "nvidia" and cards) or name in KOORDINATOR_MEMORY:
            continue
        try:
            count = observed_quantity(text) // NANO
        except QuantityError:
            continue
        if name in PERCENT:
            # Koordinator says the cards of another vendor once more, in hundredths.
            percent = max(percent, count)
            continue
        parts = shared({name: count}, named, node)
        milli = sum(part.gpu_milli for part in parts.parts)
        if not parts.replaced and resource == "gpu":
            milli = WHOLE * count
        if milli > 0:
            found[vendor(domain)] = found.get(vendor(domain), 0) + milli
    if percent and not found:
        found[vendor("koordinator.sh")] = percent * WHOLE // 100
    return found
