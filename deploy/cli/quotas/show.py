"""``bursar quota show``: one quota with its keys, holders, conditions, unfinished changes and last refusals."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import sqlalchemy as sa
import typer

from bus.clock import format_stamp
from bus.events.admissions import QuotaSpec
from bus.events.budgets import BudgetJudged
from bus.events.quotas import NamespaceRequirement
from deploy.cli import times
from deploy.cli.notes.position import footer
from deploy.cli.options import Cluster, CommandContext, command
from deploy.cli.quotas.reading import amount_text, hours_text
from deploy.cli.rendering import Format
from deploy.cli.rendering.output import write
from deploy.queries.quotas import QuotaQueries, quota_queries
from projections.budgets import BudgetStatus, Exhaustion, advance
from projections.budgets.queries import exhausted_s, standings
from projections.quota_trees import Grant, Tree, TreeNode, TreeOverlay
from projections.quota_trees.decisions import Decision, admissions, codec
from projections.quota_trees.elastic_tree import ASKED
from projections.quota_trees.queries import archived
from reactors.admission.deciding.messages import sentence
from reactors.budgets.decide import exhaustion_of
from reactors.budgets.status import status_of

#: Shown refusals, the newest.
REFUSALS = 5

Name = Annotated[str, typer.Argument(metavar="NAME", help="The quota's name.")]


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    command(app, "show", question=True)(show)


def show(asked: CommandContext, name: Name, cluster: Cluster = None) -> None:
    """One quota: limits, holders, conditions, last refusals. It lists workloads on their way, too.

    \b
    bursar quota show research
    bursar quota show research -o json
    """
    with quota_queries(asked.place, cluster) as queries:
        tree, node = queries.placed(name)
        found = _record(queries, tree, node)
        notes = footer(queries.sequence, queries.observed_us // 1_000_000)
    if asked.output is Format.TABLE:
        write(
            [_for_people(found)], asked.output, title=f"{node.kind} {name}", footer=notes, one=True
        )
        return
    write([found], asked.output, one=True)


def _record(queries: QuotaQueries, tree: Tree, node: TreeNode) -> dict[str, Any]:
    at_s = queries.observed_us // 1_000_000
    found = standings(queries.select, queries.cluster)
    own = {key: one for (quota, key), one in found.items() if quota == node.name}
    status = status_of(
        tree, node, own, _phases(queries, node, own, at_s),
        at_s=at_s, sequence=queries.sequence, generation=0,
    )  # fmt: skip
    return {
        "name": node.name,
        "kind": node.kind,
        "parent": node.parent,
        "children": sorted(node.children),
        "tree": tree.name,
        "uid": node.uid,
        "namespaces": list(node.spec.namespaces),
        "namespace_selector": [_requirement(one) for one in node.spec.selector],
        "exhaustion": node.spec.exhaustion,
        "problem": node.spec.problem,
        "keys": _keys(tree, node, status.runtime),
        "budgets": [
            _budget(key, one, at_s, _exhausts_s(queries, node.name, key, one, at_s))
            for key, one in sorted(own.items())
        ],
        "holders": [_holder(grant) for grant in _largest_first(node)],
        "conditions": [
            {"type": c.type, "status": c.status, "reason": c.reason, "message": c.message}
            for c in status.conditions
        ],
        "pending": [_changed(node, spec) for spec in node.asked],
        "refusals": [_refusal(one, tree) for one in _refusals(queries, tree, node)],
    }


def _phases(
    queries: QuotaQueries, node: TreeNode, own: dict[str, BudgetStatus], at_s: int
) -> dict[str, Exhaustion]:
    """Since when each budget is spent: as it was judged last, or as of now."""
    found = {key: advance(None, standing, at_s) for key, standing in own.items()}
    types = (BudgetJudged.wire_type,)
    for events in archived(queries.select, queries.cluster, types, key=node.name):
        for fact in map(BudgetJudged.read, events):
            judged = exhaustion_of(fact)
            if fact.key in own and judged.period == own[fact.key].period:
                found[fact.key] = advance(judged, own[fact.key], max(at_s, judged.at_s))
    return found


def _keys(tree: Tree, node: TreeNode, runtime: Any) -> list[dict[str, Any]]:
    draft = TreeOverlay(tree)
    keys = sorted({*node.limited(), *node.self_used, *node.claims, *(ASKED + r for r in runtime)})
    limits = draft.limits(node, dict.fromkeys(keys, 0))
    return [
        {
            "key": key,
            "hard": node.limited().get(key),
            "limit": limits[key],
            "used": node.used(key),
            "self_used": node.self_used.get(key, 0),
            "claimed": node.claims.get(key, 0),
            "ungoverned": sum(g.charge.get(key, 0) for g in node.grants.values() if g.is_adopted),
        }
        for key in keys
    ]


def _exhausts_s(
    queries: QuotaQueries, quota: str, key: str, standing: BudgetStatus, at_s: int
) -> int | None:
    """When a budget was used up, or will be."""
    if standing.left(at_s) > 0:
        return standing.exhausts_s(at_s)
    return exhausted_s(
        queries.select, queries.cluster, quota, key,
        period=standing.period, limit=standing.limit, at_s=at_s,
    )  # fmt: skip


def _budget(key: str, standing: BudgetStatus, at_s: int, exhausts_s: int | None) -> dict[str, Any]:
    return {
        "key": key,
        "limit": standing.limit,
        "credits": standing.credits,
        "spent": standing.spent(at_s),
        "committed": standing.committed,
        "left": standing.left(at_s),
        "exhausts_at": times.stamp(exhausts_s),
        "period_ends_at": times.stamp(standing.period.end_s),
    }


def _largest_first(node: TreeNode) -> list[Grant]:
    return sorted(node.grants.values(), key=lambda g: (-max(g.charge.values(), default=0), g.uid))


def _holder(grant: Grant) -> dict[str, Any]:
    return {
        "workload": f"{grant.kind} {grant.namespace}/{grant.name}",
        "uid": grant.uid,
        "charge": grant.charge,
        "asked_at": format_stamp(grant.asked_us) if grant.asked_us else None,
        "number": grant.number,
        "ungoverned": grant.is_adopted,
    }


def _changed(node: TreeNode, spec: QuotaSpec) -> dict[str, Any]:
    """The differences made by an unfinished change."""
    before = msgspec.to_builtins(node.observed) if node.observed else {}
    after: dict[str, Any] = msgspec.to_builtins(spec)
    return {name: value for name, value in after.items() if value != before.get(name)}


def _refusals(queries: QuotaQueries, tree: Tree, node: TreeNode) -> list[Decision]:
    columns = admissions.c
    query = (
        sa.select(admissions)
        .where(
            columns.cluster == queries.cluster, columns.quota == node.name,
            columns.tree == tree.name, columns.verdict == "refused",
        )
        .order_by(columns.number.desc())
        .limit(REFUSALS)
    )  # fmt: skip
    return [codec.row(row) for row in queries.select(query)]


def _refusal(decision: Decision, tree: Tree) -> dict[str, Any]:
    decided = decision.fact
    return {
        "time": format_stamp(decision.time_us),
        "workload": f"{decided.kind} {decided.namespace}/{decided.name}",
        "reason": decided.reason,
        "message": sentence(decided, tree),
        "id": decision.id,
        "sequence": decision.sequence,
    }


def _requirement(one: NamespaceRequirement) -> str:
    """A requirement as ``kubectl get --selector`` writes it."""
    match one.operator:
        case "In" | "NotIn":
            return f"{one.key} {one.operator.lower()} ({', '.join(one.values)})"
        case "DoesNotExist":
            return f"!{one.key}"
    return one.key


# for people


def _for_people(found: dict[str, Any]) -> dict[str, Any]:
    shown = {name: found[name] for name in ("kind", "parent", "children", "tree", "namespaces")}
    if found["namespace_selector"]:
        shown["namespaces with"] = found["namespace_selector"]
    if found["problem"]:
        shown["problem"] = found["problem"]
    shown["keys"] = [_key_line(one) for one in found["keys"]]
    if found["budgets"]:
        shown["budgets"] = [_budget_line(one) for one in found["budgets"]]
        shown["exhaustion"] = found["exhaustion"]
    shown["holders"] = [_holder_line(one) for one in found["holders"]]
    shown["conditions"] = [
        f"{one['type']}: {one['status']}" + (f" ({one['message']})" if one["message"] else "")
        for one in found["conditions"]
    ]
    shown["on their way"] = [
        ", ".join(f"{name} {_spec_text(name, value)}" for name, value in one.items())
        for one in found["pending"]
    ]
    shown["last refusals"] = [
        f"{one['time']} {one['workload']}: {one['message']}" for one in found["refusals"]
    ]
    return shown


def _key_line(one: dict[str, Any]) -> str:
    key = one["key"]
    limit = amount_text(key, one["limit"])
    parts = [f"{key}: {amount_text(key, one['used'])} of {limit or 'unlimited'} used"]
    if one["claimed"]:
        own, below = amount_text(key, one["self_used"]), amount_text(key, one["claimed"])
        parts.append(f"{own} by its workloads, {below} by quotas below")
    if one["ungoverned"]:
        parts.append(f"{amount_text(key, one['ungoverned'])} never admitted")
    if one["hard"] is not None and one["limit"] != one["hard"]:
        parts.append(f"of {amount_text(key, one['hard'])} at the most")
    return ", ".join(parts)


def _budget_line(one: dict[str, Any]) -> str:
    key = one["key"]
    text = f"{key}: {hours_text(key, one['left'])} of {hours_text(key, one['limit'])} hours left"
    ends = f", spent at {one['exhausts_at']}" if one["exhausts_at"] else ""
    resets = f", begins anew at {one['period_ends_at']}" if one["period_ends_at"] else ""
    return text + ends + resets


def _holder_line(one: dict[str, Any]) -> str:
    charge = ", ".join(f"{amount_text(key, n)} of {key}" for key, n in one["charge"].items())
    since = f" since {one['asked_at']}" if one["asked_at"] else ""
    ungoverned = ", never admitted" if one["ungoverned"] else ""
    return f"{one['workload']}: {charge}{since}{ungoverned}"


def _spec_text(name: str, value: Any) -> str:
    if name == "hard":
        return ", ".join(f"{amount_text(key, n)} of {key}" for key, n in value.items())
    if name == "selector":
        return ", ".join(_requirement(msgspec.convert(one, NamespaceRequirement)) for one in value)
    return str(value)
