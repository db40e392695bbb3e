"""Nodes with more charged than their cards: a size is wrong, or a program beside Kubernetes allocates cards.

Source: docs/devices.md.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from deploy.cli.rendering.escapes import inert
from deploy.hints import hint
from projections.devices.sizes import WHOLE
from projections.inventory import node_supply

#: Nodes with a line each; one more line counts the rest.
NAMED = 10


def nodes(connection: sa.Connection) -> list[dict[str, Any]]:
    """Each such node with its resources, its current charges, and its supply, in thousandths of a card."""
    found = node_supply.oversubscribed(
        lambda query: [tuple(row) for row in connection.execute(query)]
    )
    return [
        {
            "cluster": one.cluster,
            "node": one.node,
            "resources": list(one.resources),
            "charged_gpu_milli": one.charged_milli,
            "supply_gpu_milli": one.supply_milli,
        }
        for one in found
    ]


def lines(found: list[dict[str, Any]]) -> list[str] | str:
    """:func:`nodes` for people."""
    shown = [_line(one) for one in found[:NAMED]]
    rest = len(found) - NAMED
    return [*shown, f"and {rest:,} more nodes"] if rest > 0 else shown or "none"


def _line(one: dict[str, Any]) -> str:
    node, resources = inert(one["node"]), ", ".join(map(inert, one["resources"]))
    charged, supply = (
        f"{one[name] / WHOLE:,.3f}".rstrip("0").rstrip(".")
        for name in ("charged_gpu_milli", "supply_gpu_milli")
    )
    pods = hint(f"acct --node {node}")
    return f"{node} ({resources}): {charged} cards are charged, its supply is {supply}; `{pods}` lists the pods"
