"""``bursar why``: the decisions about a workload or a quota, with their numbers and outcomes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import sqlalchemy as sa
import typer

from bus.clock import SECOND_US, format_stamp
from bus.envelope import Event
from bus.events.admissions import AdmissionReleased, QuotaDeclared
from bus.events.budgets import BudgetCredited, BudgetJudged
from bus.events.pods import PodObserved, PodVanished
from bus.events.workloads import WorkloadObserved, WorkloadVanished
from deploy.cli.explaining import queue, reactors
from deploy.cli.notes.position import LedgerPosition, footer, standing
from deploy.cli.options import Cluster, CommandContext, command
from deploy.cli.quotas.finding import Found, find, names
from deploy.cli.rendering.answers import answer, field
from deploy.cli.rendering.layout import Cell
from deploy.cli.rendering.words import moment, words
from deploy.errors import AbsentObjectError
from deploy.queries.quotas import only_cluster
from deploy.runtime.ledgers import reading
from deploy.settings.near import absent
from projections import bind_decisions
from projections.quota_trees.decisions import Decision, admissions, codec
from projections.quota_trees.declared import declared_quotas
from projections.quota_trees.queries import Select, archived, facts
from reactors.admission.deciding.decide import UNANSWERED

_FIELDS = ("sequence", "time", "step", "about", "quota", "reason", "numbers", "based_on", "id")


_COLUMNS = (
    field("SEQUENCE", drop=2),
    field("TIME", show=moment),
    field("STEP", show=lambda text: Cell(text, "fixed")),
    field("ABOUT", show=lambda text: Cell(text) if text else None, drop=1),
    field("QUOTA", drop=3),
    field("REASON", show=words),
    field("NUMBERS", show=words),
    field("BASED ON", wide=True),
    field("DECISION", "id", wide=True),
)
_SEEN = (PodObserved, WorkloadObserved)
_GONE = (PodVanished, WorkloadVanished)

#: Shown decisions, the newest.
MOST = 100


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    command(app, "why", question=True)(why)


def why(
    asked: CommandContext,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A workload (NAMESPACE/NAME or uid), a decision's id, a quota, gang/NAMESPACE/NAME, reservation/NAME, "
            "or migration/NAME.",
        ),
    ],
    cluster: Cluster = None,
) -> None:
    """Decisions about a workload, pod or quota, with reasons.

    Each line is one step: asked, decided, observed, released. A due step that has not happened comes last, with its obstacle. A
    pod that Bursar placed: its node, the best nodes, the refusals of each plugin, and the result. A pod that waits for a node:
    its last attempt, a change that would place it, and its next attempt. A queued workload: the numbers that held it, its
    moves, and the cause of its release. A workload with pods: its evicted pods. A pod that another program ended: the program
    that its condition DisruptionTarget names. A pod without decisions: its times of creation, binding and end. SEQUENCE is the
    step's event in the history (`bursar events`). BASED ON (-o wide) is the newest event behind the decision.

    \b
    bursar why vision/train-7
    bursar why c1/queue/biz/vision/17
    bursar why admission/0b6c7d3e-7f21-4a1e-9c55-3f2a1d0c9b11/42
    bursar why research
    bursar why gang/vision/train-7
    bursar why reservation/inference
    bursar why migration/move-web
    """
    with reading(asked.place) as connection:
        stands = standing(connection)
        steps = _steps(
            connection, stands, cluster or only_cluster(connection, asked.place.cluster), name
        )
    # The current state has no place in the history: it comes last.
    steps.sort(key=lambda row: (row["sequence"] is None, row["time"], row["sequence"]))
    notes = footer(stands.sequence, stands.observed_s)
    answer(asked, steps, fields=_FIELDS, columns=_COLUMNS, notes=notes)


def _steps(
    connection: sa.Connection, stands: LedgerPosition, cluster: str, name: str
) -> list[dict[str, Any]]:
    """All steps about a name. Raises AbsentObjectError."""

    def select(query: sa.Select[Any]) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in connection.execute(query)]

    now_us = stands.moment_s(cluster) * SECOND_US
    decisions = _decisions(connection, select, cluster, name)
    steps = list(_chain(select, cluster, decisions)) or list(_of_quota(select, cluster, name))
    queued = queue.waited(select, cluster, name, {one.fact.uid for one in decisions})
    waited = list(queue.steps(select, cluster, queued, now_us, steps))
    known = {(row["sequence"], row["about"]) for row in waited}
    steps = [s for s in steps if s["step"] != "seen" or (s["sequence"], s["about"]) not in known]
    steps += waited
    objects = [one for text in (name, *queued) for one in find(connection, cluster, text)]
    steps += reactors.steps(select, cluster, name, objects)
    steps += reactors.held_back(select, cluster, name, objects, now_us)
    steps += _of_pods(connection, select, stands, cluster, name, objects)
    if not steps and not objects:
        raise absent("workload, pod, quota or decision", name, names(connection, cluster, name))
    pods = [one for one in objects if one.kind == "Pod"]
    if not steps and pods:
        from deploy.cli.explaining import life

        steps += life.steps(select, pods, stands.moment_s(cluster))
    if not steps:
        raise AbsentObjectError(
            f"no decision is recorded about {name[:64]!r}: `bursar acct --workload NAME` shows its pods"
        )
    return steps


def _of_pods(
    connection: sa.Connection, select: Select, stands: LedgerPosition, cluster: str, name: str, objects: list[Found],
) -> list[dict[str, Any]]:  # fmt: skip
    """Restarts, disruptions and placements; each explanation is imported where it is needed."""
    steps: list[dict[str, Any]] = []
    observed_s, sequence = stands.moment_s(cluster), stands.sequence
    now_us = observed_s * SECOND_US
    pods = {one.uid for one in objects if one.kind == "Pod"}
    if any(one.kind != "Pod" or one.owner for one in objects):
        from deploy.cli.explaining import restarts

        steps += restarts.steps(select, cluster, objects, observed_s)
    if pods:
        from deploy.cli.explaining import disruptions

        steps += disruptions.steps(select, cluster, (o for o in objects if o.kind == "Pod"))
    if bind_decisions.of(select, cluster, name, pods, 1):
        from deploy.cli.explaining import placing, reservations

        steps += placing.decided(connection, select, cluster, name, pods)
        steps += reservations.used(select, cluster, pods, sequence, now_us)
    waiting = {one.uid for one in objects if one.waits}
    if waiting:
        from deploy.cli.explaining import placing

        steps += placing.steps(select, cluster, waiting, sequence, now_us)
    if name.startswith("gang/"):
        from deploy.cli.explaining import gangs

        steps += gangs.steps(select, cluster, name, sequence, now_us)
    if name.startswith("reservation/"):
        from deploy.cli.explaining import reservations

        steps += reservations.steps(select, cluster, name, sequence, now_us)
    return steps


def _decisions(
    connection: sa.Connection, select: Select, cluster: str, name: str
) -> list[Decision]:
    """The decisions of this id, else of this uid and of all objects of this name; the newest.

    Of all: a refused object was never observed, so its uid differs from that of an observed namesake.
    """
    columns = admissions.c
    namespace, _, last = name.rpartition("/")
    namespace = namespace.rpartition("/")[2]
    uids = [one.uid for one in find(connection, cluster, name)]
    is_named = sa.and_(columns.namespace == namespace, columns.name == last)
    for chosen in (
        columns.id == name,
        sa.or_(columns.uid.in_([name, *uids]), is_named if namespace else sa.false()),
    ):
        query = sa.select(admissions).where(columns.cluster == cluster, chosen)
        rows = select(query.order_by(columns.sequence.desc()).limit(MOST))
        if rows:
            return [codec.row(row) for row in reversed(rows)]
    return []


def _chain(select: Select, cluster: str, decisions: list[Decision]) -> Iterator[dict[str, Any]]:
    if not decisions:
        return
    first = decisions[0].sequence
    types = (AdmissionReleased.wire_type,)
    releases = [
        (event, fact, back)
        for tree in sorted({one.tree for one in decisions})
        for event, fact in facts(archived(select, cluster, types, key=tree, after=first))
        if isinstance(fact, AdmissionReleased)
        for back in fact.releases
    ]
    late = {back.request for _, _, back in releases if back.reason == UNANSWERED}
    for one in decisions:
        yield _decided(one, is_late=one.fact.request in late)
    named = {
        one.fact.uid: f"{one.fact.kind} {one.fact.namespace}/{one.fact.name}" for one in decisions
    }
    yield from _observed(select, cluster, named, first)
    for event, fact, back in releases:
        if back.uid in named:
            left = _amounts(back.charge) or "nothing"
            step = "withdrawn" if back.reason == UNANSWERED else "released"
            yield _step(
                event, queue.BACK.get(back.reason, step), named[back.uid], back.quota,
                back.reason, f"held from now on: {left}", fact.based_on,
            )  # fmt: skip


def _decided(one: Decision, *, is_late: bool = False) -> dict[str, Any]:
    """A decision. ``is_late``: it was stored after its request had been refused, and has no effect."""
    decided = one.fact
    asked = f"{decided.operation or 'OBSERVE'}" + (
        f", review {decided.request}" if decided.request else ""
    )
    numbers = [f"asks for {_amounts(decided.demand) or 'nothing'} ({asked})"]
    if decided.child is not None:
        made = f"{decided.child.kind} {decided.child.name}"
        numbers = [f"with {made}, more lives below it than it is charged with ({asked})"]
    if decided.left is not None:
        left = _amounts(decided.left.charge) or "nothing"
        numbers.append(f"taken from its owner, which goes without it and is left with {left}")
    numbers += [queue.missing(deficit) for deficit in decided.deficits]
    if is_late:
        numbers.append("stored after the answer bursar-unavailable, so it was taken back")
    elif decided.verdict != "refused":
        numbers.append(f"held from now on: {_amounts(decided.charge) or 'nothing'}")
    return {
        "sequence": one.sequence,
        "time": format_stamp(one.time_us),
        "step": "late" if is_late else decided.verdict,
        "about": f"{decided.kind} {decided.namespace}/{decided.name}",
        "quota": decided.quota,
        "reason": decided.reason,
        "numbers": "; ".join(numbers),
        "based_on": decided.based_on,
        "id": one.id,
    }


def _observed(
    select: Select, cluster: str, named: dict[str, str], after: int
) -> Iterator[dict[str, Any]]:
    """When each object was seen first, and when it was gone."""
    types = [fact.wire_type for fact in (*_SEEN, *_GONE)]
    for uid in sorted(named):
        is_seen = False
        for event, fact in facts(archived(select, cluster, types, key=uid, after=after)):
            is_gone = isinstance(fact, _GONE)
            if is_gone or not is_seen:
                is_seen = True
                yield _step(event, "gone" if is_gone else "seen", named[uid], "", "", "", None)


def _of_quota(select: Select, cluster: str, name: str) -> Iterator[dict[str, Any]]:
    """The events of a quota: its declarations, judgements of its budgets, entries beside them."""
    columns = declared_quotas.c
    query = sa.select(columns.tree).where(columns.cluster == cluster, columns.quota == name)
    for (tree,) in select(query):
        types = (QuotaDeclared.wire_type,)
        for event, fact in facts(archived(select, cluster, types, key=tree)):
            assert isinstance(fact, QuotaDeclared)
            if fact.quota == name:
                limits = _amounts(fact.spec.hard) if fact.spec else ""
                numbers = [f"limits {limits}"] if limits else []
                numbers += [queue.missing(one) for one in fact.deficits]
                numbers += [f"keys {', '.join(fact.keys)}"] if fact.keys else []
                step = "seen" if fact.stage == "observed" else fact.verdict
                yield _step(
                    event, step, f"quota {name}", fact.parent, fact.reason, "; ".join(numbers),
                    fact.based_on,
                )  # fmt: skip
    budgets = (BudgetJudged.wire_type, BudgetCredited.wire_type)
    for event, fact in facts(archived(select, cluster, budgets, key=name)):
        if isinstance(fact, BudgetJudged):
            spent, limit = _hours(fact.key, fact.spent), _hours(fact.key, fact.limit)
            numbers_ = f"{spent} of {limit} hours of {fact.key}"
            yield _step(event, "judged", f"quota {name}", name, fact.phase, numbers_, fact.based_on)
        elif isinstance(fact, BudgetCredited):
            numbers_ = f"{_hours(fact.key, fact.amount)} hours of {fact.key}, by {fact.author}"
            yield _step(event, "credited", f"quota {name}", name, fact.reason, numbers_, None)


def _step(
    event: Event, step: str, about: str, quota: str, reason: str, numbers: str,
    based_on: int | None,
) -> dict[str, Any]:  # fmt: skip
    return {
        "sequence": event.sequence,
        "time": format_stamp(event.time_us),
        "step": step,
        "about": about,
        "quota": quota,
        "reason": reason,
        "numbers": numbers,
        "based_on": based_on,
        "id": "",
    }


def _hours(key: str, amount: int) -> str:
    from bus.kube.crds.keys import CASH, key_text

    return key_text(CASH + key, amount)


def _amounts(amounts: dict[str, int]) -> str:
    from bus.kube.crds.keys import key_text

    return ", ".join(f"{key_text(key, amount)} of {key}" for key, amount in amounts.items())
