"""What all nodes have, brought into the journals of elastic trees. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bus.amounts import NANO, observed_quantity
from bus.errors import QuantityError
from bus.events.admissions import Evidence, TreeMetered
from projections.cluster.rows import Node
from projections.quota_trees import TreeOverlay


def capacity(nodes: Iterable[Node]) -> dict[str, int]:
    """What all nodes have, by resource: cpu in milli, everything else whole, cut.

    Unschedulable nodes count, as they do upstream; a quantity that cannot be read counts nothing.
    """
    total: dict[str, int] = {}
    for node in nodes:
        for name, text in node.allocatable.items():
            try:
                nano = observed_quantity(text)
            except QuantityError:
                continue
            total[name] = total.get(name, 0) + nano // (NANO // 1000 if name == "cpu" else NANO)
    return total


def sized(draft: TreeOverlay, total: Mapping[str, int], read: int) -> TreeMetered | None:
    """The capacity of an elastic tree, where it changed. ``read``: how far the history was read for it."""
    if draft.tree.total == total:
        return None
    return TreeMetered(
        number=draft.number, total=dict(sorted(total.items())), based_on=draft.tree.sequence,
        evidence=Evidence(read),
    )  # fmt: skip
