"""``bursar why``: what was decided about a workload or a quota, on which numbers, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import sqlalchemy as sa
import typer

from bus.clock import SECOND_US, format_stamp
from bus.envelope import Event
from bus.errors import EnvelopeError
from bus.events import VOCABULARY
from bus.events.admissions import AdmissionReleased, QuotaDeclared
from bus.events.budgets import BudgetCredited, BudgetJudged
from bus.events.pods import PodObserved, PodVanished
from bus.events.vocabulary import Fact, read
from bus.events.workloads import WorkloadObserved, WorkloadVanished
from bus.resources.keys import CASH, key_text
from deploy.cli import why_queue, why_reactors
from deploy.cli.asking import standing
from deploy.cli.options import Asked, Format, command
from deploy.cli.output import write
from deploy.cli.quotas.finding import find
from deploy.cli.quotas.listing import footer
from deploy.cli.quotas.options import Cluster
from deploy.consulting import only_cluster
from deploy.errors import SettingsError
from deploy.ledgers import reading
from projections.admissions.decisions import Decision, admissions, from_columns
from projections.admissions.declared import declared_quotas
from projections.admissions.queries import Select, archived

_COLUMNS = ("sequence", "time", "step", "about", "quota", "reason", "numbers", "based_on", "id")
_SEEN = (PodObserved, WorkloadObserved)
_GONE = (PodVanished, WorkloadVanished)

#: Decisions that are told, the newest.
MOST = 100


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    command(app, "why")(why)


def why(
    asked: Asked,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A workload (NAMESPACE/NAME or uid), a decision's id, or a quota.",
        ),
    ],
    cluster: Cluster = None,
) -> None:
    """What was decided and why, with the numbers of each decision, and what followed: asked, decided, seen, given back.

    Of what waited: held on which numbers, moved by whom, released by what. Of what has pods: which of them were evicted.
    SEQUENCE is each step's place in the history (`bursar events`); BASED ON is the last one that the decision knew.

    \b
    bursar why vision/train-7
    bursar why c1/queue/biz/vision/17
    bursar why admission/0b6c7d3e-7f21-4a1e-9c55-3f2a1d0c9b11/42
    bursar why research
    """
    with reading(asked.settings) as connection:
        stands = standing(connection)
        cluster = cluster or only_cluster(connection, asked.settings.cluster.name)

        def select(query: sa.Select[Any]) -> list[tuple[Any, ...]]:
            return [tuple(row) for row in connection.execute(query)]

        decisions = _decisions(connection, select, cluster, name)
        steps = list(_chain(select, cluster, decisions)) or list(_of_quota(select, cluster, name))
        queued = why_queue.waited(select, cluster, name, {one.said.uid for one in decisions})
        now_us = stands.observed_s * SECOND_US
        waited = list(why_queue.steps(select, cluster, queued, now_us, steps))
        known = {(row["sequence"], row["about"]) for row in waited}
        steps = [
            s for s in steps if s["step"] != "seen" or (s["sequence"], s["about"]) not in known
        ]
        steps += waited
        objects = [one for text in (name, *queued) for one in find(connection, cluster, text)]
        steps += why_reactors.steps(select, cluster, name, objects)
    if not steps:
        raise SettingsError(f"nothing was ever decided about {name[:64]!r}")
    # What is so now has no place in the history: it comes last.
    steps.sort(key=lambda row: (row["time"], row["sequence"] or stands.sequence + 1))
    if asked.output is Format.TABLE:
        shown = [c for c in _COLUMNS if c != "id" or any(row["id"] for row in steps)]
        write(
            [{name: row[name] for name in shown} for row in steps], asked.output, columns=shown,
            footer=footer(stands.sequence, stands.observed_s),
        )  # fmt: skip
    else:
        write(steps, asked.output, columns=_COLUMNS)


def _decisions(
    connection: sa.Connection, select: Select, cluster: str, name: str
) -> list[Decision]:
    """Those of this id, else of this uid, else of all objects that had this name; the newest."""
    columns = admissions.c
    namespace, _, last = name.rpartition("/")
    namespace = namespace.rpartition("/")[2]
    uids = [one.uid for one in find(connection, cluster, name)]
    for chosen in (
        columns.id == name,
        columns.uid.in_([name, *uids]),
        sa.and_(columns.namespace == namespace, columns.name == last) if namespace else sa.false(),
    ):
        query = sa.select(admissions).where(columns.cluster == cluster, chosen)
        rows = select(query.order_by(columns.sequence.desc()).limit(MOST))
        if rows:
            return [from_columns(row) for row in reversed(rows)]
    return []


def _chain(select: Select, cluster: str, decisions: list[Decision]) -> Iterator[dict[str, Any]]:
    if not decisions:
        return
    for one in decisions:
        yield _decided(one)
    first = decisions[0].sequence
    named = {
        one.said.uid: f"{one.said.kind} {one.said.namespace}/{one.said.name}" for one in decisions
    }
    yield from _observed(select, cluster, named, first)
    for tree in sorted({one.tree for one in decisions}):
        types = (AdmissionReleased.wire_type,)
        for event, fact in _facts(archived(select, cluster, types, key=tree, after=first)):
            assert isinstance(fact, AdmissionReleased)
            for back in fact.releases:
                if back.uid in named:
                    left = _amounts(back.charge) or "nothing"
                    step = why_queue.BACK.get(back.reason, "released")
                    yield _step(
                        event, step, named[back.uid], back.quota, back.reason,
                        f"held from now on: {left}", fact.based_on,
                    )  # fmt: skip


def _decided(one: Decision) -> dict[str, Any]:
    said = one.said
    asked = f"{said.operation or 'OBSERVE'}" + (f", review {said.request}" if said.request else "")
    numbers = [f"asks for {_amounts(said.demand) or 'nothing'} ({asked})"]
    numbers += [why_queue.missing(deficit) for deficit in said.deficits]
    if said.verdict != "refused":
        numbers.append(f"held from now on: {_amounts(said.charge) or 'nothing'}")
    return {
        "sequence": one.sequence,
        "time": format_stamp(one.time_us),
        "step": said.verdict,
        "about": f"{said.kind} {said.namespace}/{said.name}",
        "quota": said.quota,
        "reason": said.reason,
        "numbers": "; ".join(numbers),
        "based_on": said.based_on,
        "id": one.id,
    }


def _observed(
    select: Select, cluster: str, named: dict[str, str], after: int
) -> Iterator[dict[str, Any]]:
    """When each object was seen first, and when it was gone."""
    types = [fact.wire_type for fact in (*_SEEN, *_GONE)]
    for uid in sorted(named):
        is_seen = False
        for event, fact in _facts(archived(select, cluster, types, key=uid, after=after)):
            is_gone = isinstance(fact, _GONE)
            if is_gone or not is_seen:
                is_seen = True
                yield _step(event, "gone" if is_gone else "seen", named[uid], "", "", "", None)


def _of_quota(select: Select, cluster: str, name: str) -> Iterator[dict[str, Any]]:
    """What was said of a quota: its declarations, judgements of its budgets, entries beside them."""
    columns = declared_quotas.c
    query = sa.select(columns.tree).where(columns.cluster == cluster, columns.quota == name)
    for (tree,) in select(query):
        types = (QuotaDeclared.wire_type,)
        for event, fact in _facts(archived(select, cluster, types, key=tree)):
            assert isinstance(fact, QuotaDeclared)
            if fact.quota == name:
                limits = _amounts(fact.spec.hard) if fact.spec else ""
                numbers = [f"limits {limits}"] if limits else []
                numbers += [why_queue.missing(one) for one in fact.deficits]
                numbers += [f"keys {', '.join(fact.keys)}"] if fact.keys else []
                step = "seen" if fact.stage == "observed" else fact.verdict
                yield _step(
                    event, step, f"quota {name}", fact.parent, fact.reason, "; ".join(numbers),
                    fact.based_on,
                )  # fmt: skip
    budgets = (BudgetJudged.wire_type, BudgetCredited.wire_type)
    for event, fact in _facts(archived(select, cluster, budgets, key=name)):
        if isinstance(fact, BudgetJudged):
            key = CASH + fact.key
            numbers_ = (
                f"{key_text(key, fact.spent)} of {key_text(key, fact.limit)} hours of {fact.key}"
            )
            yield _step(event, "judged", f"quota {name}", name, fact.phase, numbers_, fact.based_on)
        elif isinstance(fact, BudgetCredited):
            numbers_ = (
                f"{key_text(CASH + fact.key, fact.amount)} hours of {fact.key}, by {fact.author}"
            )
            yield _step(event, "credited", f"quota {name}", name, fact.reason, numbers_, None)


def _facts(parts: Iterable[list[Event]]) -> Iterator[tuple[Event, Fact]]:
    for events in parts:
        for event in events:
            try:
                fact = read(event, VOCABULARY)
            except EnvelopeError:
                # It is parked, and says nothing.
                continue
            yield event, fact


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


def _amounts(amounts: dict[str, int]) -> str:
    return ", ".join(f"{key_text(key, amount)} of {key}" for key, amount in amounts.items())
