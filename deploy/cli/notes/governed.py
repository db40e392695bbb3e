"""Quotas in `bursar status`: their number, and the unadmitted charges in them.

Source: docs/admission.md, When a part is away: workloads passed during an outage of Bursar are shown, never silent.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from projections.attribution import bound
from projections.quota_trees.held import grants
from projections.quotas import codec, quotas, rule_of


def governed(connection: sa.Connection) -> dict[str, Any]:
    """Existing ``quotas``, charged ``workloads``, and the ``ungoverned`` ones among them with their quotas."""
    held = grants.c
    holding = held.charge != "{}"
    count = sa.select(sa.func.count())
    there = connection.scalar(count.select_from(quotas).where(quotas.c.vanished == 0))
    workloads = connection.scalar(count.select_from(grants).where(holding))
    rows = connection.execute(
        sa.select(held.quota, sa.func.count().label("workloads"))
        .where(holding, held.is_adopted == 1)
        .group_by(held.quota)
        .order_by(held.quota)
    ).all()
    return {
        "quotas": there or 0,
        "workloads": workloads or 0,
        "ungoverned": sum(row.workloads for row in rows),
        "in": [row.quota for row in rows],
        "open": _open(connection),
    }


def _open(connection: sa.Connection) -> list[str]:
    """Business quotas for every unmapped namespace: neither they nor quotas above name or select any."""
    there = quotas.c.vanished == 0, quotas.c.kind == "BizGroupResourceQuota"
    rows = [codec.row(tuple(r)) for r in connection.execute(sa.select(quotas).where(*there))]
    rules = {
        (one.cluster, one.name): rule_of(one.observed) for one in rows if one.observed is not None
    }

    def is_open(cluster: str, name: str) -> bool:
        return bound(name, lambda quota: rules.get((cluster, quota))) is None

    return sorted(name for cluster, name in rules if is_open(cluster, name))


def governed_line(found: dict[str, Any]) -> str:
    """:func:`governed` for people."""
    if not found["quotas"]:
        return "none"
    line = f"{found['quotas']:,}, {found['workloads']:,} workloads hold something of them"
    if found["ungoverned"]:
        names = ", ".join(found["in"][:3])
        line += f"; {found['ungoverned']:,} were never admitted: {names}"
    if found["open"]:
        names = ", ".join(found["open"][:3]) + (" …" if len(found["open"]) > 3 else "")
        line += f"; {len(found['open']):,} name no namespaces, so any that is not mapped may use them: {names}"
    return line
