"""Steps of ``bursar why``: the decisions of reactors about an object, with their outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, partial
from typing import Any

import sqlalchemy as sa

from bus.clock import SECOND_US, format_stamp
from bus.envelope import Event
from bus.events import VOCABULARY
from bus.events.budgets import BudgetJudged
from bus.events.decisions import (
    AdoptReplica,
    CreateReplica,
    Decision,
    DeleteJob,
    EffectSettled,
    EndPodGroup,
    Evict,
    KeepPodGroup,
    NoticeSettled,
    ReleaseReplica,
    ReportJob,
    RestoreAsked,
    Target,
)
from bus.events.migrations import EndReservation, ReportMigration, ReserveRoom
from deploy.cli.quotas.finding import Found
from deploy.cli.quotas.reading import hours_text
from projections.cluster.migrations import Migration
from projections.pod_runs.shape import pod_runs
from projections.quota_trees.queries import Select, archived, facts
from reactors.engine.reasons import explained
from reactors.scheduling.evicting import PREEMPTED

_TYPES = tuple(
    name
    for name, fact in VOCABULARY.items()
    if issubclass(fact, Decision | EffectSettled | NoticeSettled | RestoreAsked)
)


def steps(
    select: Select, cluster: str, name: str, objects: Iterable[Found]
) -> Iterator[dict[str, Any]]:
    """Decisions with this id, or about this object (NAMESPACE/NAME or uid), their outcomes, and requests to undo them.

    Those about pods of ``objects``, too.
    """
    about: dict[str, str] = {}
    budget_of = cache(partial(_budget, select, cluster))
    pods = _pods(select, cluster, objects) | _migrated(select, cluster, name)
    for event, fact in facts(archived(select, cluster, _TYPES)):
        if isinstance(fact, Decision):
            target = fact.target
            known = about.get(fact.key)
            if known or target.uid in pods or _is_meant(fact, name):
                about[fact.id] = known or _titled(target)
                numbers = [fact.numbers.get(name) for name in ("judged_s", "spent", "limit")]
                budget = "" if None in numbers else budget_of(fact.quota, *numbers)
                yield _decided(event, fact, about[fact.id], budget)
        elif isinstance(fact, EffectSettled) and fact.decision in about:
            yield _step(event, fact.result, about[fact.decision], fact.message, "")
        elif isinstance(fact, NoticeSettled) and fact.decision in about:
            step = "told" if fact.result == "told" else "not told"
            times = f"attempts {fact.attempts}"
            yield _step(event, step, about[fact.decision], fact.message, times)
        elif isinstance(fact, RestoreAsked) and fact.decision in about:
            yield _step(event, "undo asked", about[fact.decision], f"by {fact.author}", "")


def held_back(
    select: Select, cluster: str, name: str, objects: Iterable[Found], now_us: int
) -> Iterator[dict[str, Any]]:
    """One step for each action that is due about the object of this name but blocked: the obstacle, and its end."""
    pods = _pods(select, cluster, objects)
    # Blocked actions need the whole state of the reactors, and most questions have none.
    from deploy.runtime.blocked import blocked

    for one in blocked(select, cluster, now_us):
        decision, target = one.decision, one.decision.target
        if decision.key in pods or _is_meant(decision, name):
            yield {
                "sequence": None, "time": format_stamp(now_us), "step": "not yet",
                "about": _titled(target), "quota": decision.quota,
                "reason": one.reason, "numbers": explained(one), "based_on": None, "id": "",
            }  # fmt: skip


def _pods(select: Select, cluster: str, objects: Iterable[Found]) -> set[str]:
    """The uids of all pods that any of the workloads ever had."""
    runs = pod_runs.c
    owned = [
        sa.and_(runs.namespace == one.namespace, runs.workload == f"{one.kind}/{one.name}")
        for one in objects
        if one.kind != "Pod"
    ]
    query = sa.select(runs.uid).where(runs.cluster == cluster, sa.or_(sa.false(), *owned))
    return {uid for (uid,) in select(query)}


def _migrated(select: Select, cluster: str, name: str) -> set[str]:
    """The uids of the pod and of the reservation of a PodMigrationJob, which some of its steps are about."""
    if not name.startswith("migration/"):
        return set()
    types = (ReportMigration.wire_type, EndReservation.wire_type)
    jobs, pods, rooms = set[str](), set[str](), list[EndReservation]()
    for _, fact in facts(archived(select, cluster, types)):
        if isinstance(fact, ReportMigration) and fact.target.name == name.removeprefix(
            "migration/"
        ):
            jobs.add(fact.target.uid)
            pods.add(fact.pod_uid)
        elif isinstance(fact, EndReservation):
            rooms.append(fact)
    return (pods | {one.target.uid for one in rooms if one.job in jobs}) - {""}


def _titled(target: Target) -> str:
    """Kind and name; an object of the whole cluster has no namespace."""
    path = f"{target.namespace}/{target.name}" if target.namespace else target.name
    return f"{target.kind} {path}"


def _is_meant(decision: Decision, name: str) -> bool:
    target = decision.target
    path = f"{target.namespace}/{target.name}"
    if isinstance(decision, Evict) and decision.reason == PREEMPTED:
        # Also of the pod that gets the room.
        kind, _, asker = decision.beneficiary.partition(" ")
        if name in (asker, f"{kind}/{asker}"):
            return True
    if isinstance(decision, ReserveRoom) and name == f"{decision.pod.namespace}/{decision.pod.name}":  # fmt: skip
        return True
    if name == f"migration/{target.name}" and target.kind == Migration.kind:
        return True
    if isinstance(decision, EndPodGroup) and name == decision.job:
        return True
    if isinstance(decision, AdoptReplica | ReleaseReplica):
        # Also of the job.
        owner = f"{target.namespace}/{decision.owner.name}"
        if name in (decision.owner.uid, owner, f"{decision.owner.kind}/{owner}"):
            return True
    return name in (decision.id, decision.key, target.uid, path, f"{target.kind}/{path}")


def _budget(select: Select, cluster: str, quota: str, judged_s: int, spent: int, limit: int) -> str:
    """The key of the exhausted budget with this evaluation; "" without it."""
    types = (BudgetJudged.wire_type,)
    for _, fact in facts(archived(select, cluster, types, key=quota)):
        assert isinstance(fact, BudgetJudged)
        if (fact.at_s, fact.spent, fact.limit) == (judged_s, spent, limit):
            return fact.key
    return ""


def _decided(event: Event, decision: Decision, about: str, budget: str) -> dict[str, Any]:
    verb = event.type.removeprefix("decision.")
    numbers = "; ".join(_number(name, value, budget) for name, value in decision.numbers.items())
    if isinstance(decision, Evict) and decision.beneficiary:
        numbers += f"; makes room for {decision.beneficiary}"
    if isinstance(decision, CreateReplica):
        numbers = f"{decision.replica}; {numbers}"
    if isinstance(decision, KeepPodGroup):
        numbers = f"{decision.api}; least={decision.least}"
    if isinstance(decision, ReportJob | DeleteJob) and decision.events:
        numbers = "; ".join(filter(None, (numbers, f"events {', '.join(decision.events)}")))
    shadow = ", in shadow: nothing is done" if decision.is_shadow else ""
    step = _step(event, verb, about, decision.reason, f"{numbers}{shadow}")
    return step | {"quota": decision.quota, "based_on": decision.trigger, "id": decision.id}


def _number(name: str, value: int, budget: str) -> str:
    if budget and name in ("spent", "limit"):
        return f"{name} {hours_text(budget, value)} hours of {budget}"
    if name in ("exhausted_s", "judged_s"):
        return f"{name.removesuffix('_s')} {format_stamp(value * SECOND_US) if value else 'never'}"
    if name.endswith("_us"):
        whole = value // SECOND_US * SECOND_US
        return f"{name.removesuffix('_us')} {format_stamp(whole) if value else 'never'}"
    return f"{name} {value}"


def _step(event: Event, step: str, about: str, reason: str, numbers: str) -> dict[str, Any]:
    return {
        "sequence": event.sequence,
        "time": format_stamp(event.time_us),
        "step": step,
        "about": about,
        "quota": "",
        "reason": reason,
        "numbers": numbers,
        "based_on": None,
        "id": "",
    }
