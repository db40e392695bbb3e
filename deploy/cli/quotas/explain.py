"""``bursar quota explain``: the charges in a quota with their causes, or the place of a workload's charge with its cause."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import sqlalchemy as sa
import typer

from bus.events.pods import Owner
from bus.kube.crds.keys import key_text
from bus.kube.kinds import CLAIM_TEMPLATE, RUNTIME
from deploy.cli.notes.position import footer
from deploy.cli.options import Cluster, CommandContext, command
from deploy.cli.quotas.finding import Found, find
from deploy.cli.quotas.reading import amount_text, hours_text
from deploy.cli.rendering.answers import answer, field
from deploy.cli.rendering.layout import Cell
from deploy.cli.rendering.tables import Column, Row
from deploy.queries.quotas import QuotaQueries, quota_queries
from projections import workloads
from projections.budgets.queries import standings
from projections.quota_trees import Grant, Tree, TreeNode, charged, own
from reactors.admission.deciding.elastics import NAMESAKE
from reactors.admission.deciding.mapping import ELASTIC_LABEL, LABEL, types_of

_FIELDS = ("key", "counts", "amount", "why")


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    command(app, "explain", question=True)(explain)


def explain(
    asked: CommandContext,
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="A quota, or a workload: NAMESPACE/NAME or its uid."),
    ],
    cluster: Cluster = None,
) -> None:
    """Items that count against a quota, with reasons. For a workload: its quota, its amounts, and the reasons.

    \b
    bursar quota explain research
    bursar quota explain vision/train-7
    """
    with quota_queries(asked.place, cluster) as queries:
        notes = footer(queries.sequence, queries.observed_us // 1_000_000)
        places = {quota for _, quota in queries.journals.places}
        if name in places:
            tree, node = queries.placed(name)
            rows = [*_counted(tree, node), *_spent(queries, node)]
        else:
            found = find(queries.connection, queries.cluster, name)
            if not found:
                queries.placed(name)
            reviews = [row for one in found for row in _of_workload(queries, one)]
            # A workload may have the name of an object that it controls; it explains that object.
            rows = list({tuple(row.values()): row for row in reviews}.values())
    answer(asked, rows, fields=_FIELDS, columns=_COLUMNS, notes=notes)


def _amount(row: Row) -> Cell | None:
    if row["amount"] is None:
        return None
    if row["key"].startswith("cash/"):
        hours = hours_text(row["key"].removeprefix("cash/"), row["amount"])
        return Cell(f"{hours} h", "figure")
    return Cell(amount_text(row["key"], row["amount"]) or "", "figure")


_COLUMNS = (
    field("KEY"),
    Column("COUNTS", lambda row: Cell(row["counts"])),
    Column("AMOUNT", _amount),
    Column("WHY", lambda row: Cell(row["why"], "words")),
)


def _item(key: str, counts: str, amount: int | None, why: str) -> dict[str, Any]:
    return {"key": key, "counts": counts, "amount": amount, "why": why}


def _counted(tree: Tree, node: TreeNode) -> Iterator[dict[str, Any]]:
    """Every workload and quota below, key by key, and their sum."""
    for key in sorted({*node.limited(), *node.self_used, *node.claims}):
        for grant in sorted(node.grants.values(), key=lambda g: (-g.charge.get(key, 0), g.uid)):
            if grant.charge.get(key):
                named = f"{grant.kind} {grant.namespace}/{grant.name}"
                yield _item(key, named, grant.charge[key], _why_held(grant, key))
        for child, claims in sorted(node.children.items()):
            if claims.get(key):
                below = tree.nodes.get(child)
                pending = ", the larger of two while a change is on its way"
                why = "its whole limit, used or not" + (pending if below and below.asked else "")
                yield _item(key, f"quota {child}", claims[key], why)
        limit = node.limit(key)
        if limit is None:
            text = "it does not limit this key"
        else:
            over = node.used(key) - limit
            text = f"of {key_text(key, limit)}: " + (
                f"{key_text(key, over)} too much" if over > 0 else f"{key_text(key, -over)} left"
            )
            text += ", the strictest of its limits while a change is on its way" * bool(node.asked)
        yield _item(key, "all together", node.used(key), text)


def _why_held(grant: Grant, key: str) -> str:
    asks = charged(grant.demand, grant.types).get(key, 0)
    if grant.is_adopted:
        return "it is there and was never admitted with that much"
    if asks < grant.charge[key]:
        return f"it asks for {key_text(key, asks)} now; the rest is given back when that is seen"
    type_ = ", counted here by its type label" if key not in grant.demand else ""
    return f"admitted as entry {grant.number:,} of the journal{type_}"


def _spent(queries: QuotaQueries, node: TreeNode) -> Iterator[dict[str, Any]]:
    at_s = queries.observed_us // 1_000_000
    found = standings(queries.select, queries.cluster)
    for (quota, key), one in sorted(found.items()):
        if quota == node.name:
            key_ = f"cash/{key}"
            yield _item(key_, "budget", one.hard, "what its object grants in this period")
            if one.credits:
                yield _item(key_, "entries", one.credits, "bursar budget list --entries")
            why = f"held by its workloads so far: bursar report --by workload --quota {quota}"
            yield _item(key_, "spent", one.spent(at_s), why)
            yield _item(key_, "left", one.left(at_s), "bursar budget list")


def _of_workload(queries: QuotaQueries, found: Found) -> Iterator[dict[str, Any]]:
    """The quota of a workload's charge, its label there, and its charged part."""
    top = _top(queries, found)
    named = f"{found.kind} {found.namespace}/{found.name}"
    if top is not None:
        yield _item(
            "", named, None, f"not charged itself: {top.kind} {top.name} is, which controls it"
        )
        for above in find(queries.connection, queries.cluster, top.uid):
            yield from _of_workload(queries, above)
        return
    where = queries.view.place(found.labels, found.namespace)
    if where is None:
        yield _item("", named, None, "held to no quota: neither it nor its namespace names one")
        return
    asked, where = where, queries.view.counted(found.labels, found.namespace)
    if asked.refusal:
        why = f"neither its namespace nor quota {asked.quota} lets it name that"
        if asked.refusal == NAMESAKE:
            why = "an ElasticQuota of this name was created before in another namespace"
        yield _item("", named, None, f"{why} ({asked.refusal})")
    if where is None:
        yield _item("", named, None, "counts in no quota")
        return
    yield _item("", named, None, f"counts in quota {where.quota}: {_because(queries, found)}")
    tree = queries.journals.trees.get(queries.journals.places.get((where.kind, where.quota), ""))
    node = tree.nodes.get(where.quota) if tree else None
    grant = node.grants.get(found.uid) if node else None
    demand = found.demand or {}
    if grant and (not demand or any(key.startswith((CLAIM_TEMPLATE, RUNTIME)) for key in demand)):
        # An object that it names has the amount, and its charge has it, too.
        demand = grant.demand
    asks = charged(demand, types_of(found.labels))
    for key in sorted({*asks, *(grant.charge if grant else ())}):
        held = grant.charge.get(key, 0) if grant else 0
        why = _why_held(grant, key) if grant and held else "it holds nothing of it"
        by = "by its type label, also" if key not in demand else "all its pods together"
        asked_for = f"{by}: it asks for {key_text(key, asks.get(key, 0))}"
        yield _item(key, f"quota {where.quota}", held, f"{asked_for}; {why}")


def _top(queries: QuotaQueries, found: Found) -> Owner | None:
    def row(uid: str) -> workloads.WorkloadHistory | None:
        table = workloads.workloads
        rows = queries.select(table.select().where(table.c.uid == uid))
        return workloads.codec.row(rows[0]) if rows else None

    def is_own(child: workloads.Controlled, owner: Owner) -> bool:
        rows = queries.select(sa.select(own.own_charges).where(own.own_charges.c.uid == child.uid))
        return own.is_own(own.codec.row(rows[0]) if rows else None, child.kind, owner)

    child = workloads.Controlled(found.uid, found.kind, found.namespace, found.owner)
    return workloads.tops(child, row, is_own).charged


def _because(queries: QuotaQueries, found: Found) -> str:
    own = {key: found.labels[key] for key in (LABEL, ELASTIC_LABEL) if found.labels.get(key)}
    if own:
        return "its label " + ", ".join(f"{key}={value}" for key, value in own.items())
    labels = queries.view.labels_of(found.namespace) or {}
    mapped = [f"{key}={labels[key]}" for key in (LABEL, ELASTIC_LABEL) if labels.get(key)]
    if mapped:
        return f"the label of its namespace {mapped[0]}"
    return f"the ElasticQuota that serves namespace {found.namespace}"
