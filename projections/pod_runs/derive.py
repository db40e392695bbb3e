"""The run computed from a pod, its namespace, its nodes, its owners and the complete lists.

A pure function of rows: run again after a change of one of them, it restates the effects of a late fact.

Source: docs/accounting.md (end, vanished, waiting) and 4 (cuts and attribution).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from projections import timelines
from projections.attribution import UNASSIGNED, Names, attributed
from projections.devices.held import NO_CARDS, Cards, ClaimedCards, card_facts, held_cards
from projections.namespaces import Owners
from projections.pod_runs import serving
from projections.pod_runs.ends import ListEvidence, end_of
from projections.pod_runs.shape import Above, Idle, PodHistory, Run, Segment
from projections.timelines import MICROSECONDS

#: For whom a pod would have held of which nothing is known.
NOBODY = Idle(UNASSIGNED, UNASSIGNED)

_NOBODY = (None, None, None, None)


def derive(
    pod: PodHistory,
    owners: list[tuple[int, Owners]],
    models: Callable[[str], list[tuple[int, str | None]]],
    above: Above,
    evidence: ListEvidence,
    around: serving.ServingRules = serving.NOTHING_KNOWN,
    cards: Cards = NO_CARDS,
) -> Run:
    """The run of ``pod``. ``owners`` is its namespace's over time, ``models`` a node's GPU model over time,
    ``around`` the quotas of its namespace.

    ``evidence`` is used only without a stamp of the end, ``cards`` only for a started pod.
    """
    flags = set(pod.flags)
    created_s, start_us = pod.begin_us // MICROSECONDS, pod.start_us
    start_s = None if start_us is None else start_us // MICROSECONDS
    if pod.started_us is None and pod.acknowledged_us is not None:
        flags.add("start_acknowledged")
    end = end_of(pod, evidence)
    flags |= end.flags
    end_s = end.end_s
    if end_s is not None and end_s < (floor := created_s if start_s is None else start_s):
        end_s = floor
        flags.add("clamped")
    # From the charged end: charged time is never unknown as well.
    unknown_s = 0 if end_s is None else max(0, end.until_s - end_s)
    if unknown_s and "vanished" not in flags:
        flags.add("gap")
    segments: tuple[Segment, ...] = ()
    if start_s is not None:
        given = cards.given(pod, start_s, end_s)
        segments, doubts = _segments(
            pod, owners, models, above.quotas, around, start_s, end_s, cards.sharing, given
        )
        flags |= doubts if segments else frozenset()
    top = above.owner
    workload = f"{top.kind}/{top.name}" if top else f"Pod/{pod.name}"
    bounds = [d for d in (pod.deadline_s, above.deadline_s) if d is not None]
    deadline_s = start_s + min(bounds) if start_s is not None and bounds else None
    idle = None
    if end_s is not None and not segments:
        idle = idle_for(pod, owners, models, above.quotas, around)
    return Run(
        created_s,
        start_s,
        end_s,
        unknown_s,
        tuple(sorted(flags)),
        workload,
        segments,
        deadline_s,
        idle,
        end.observed_us,
    )


def idle_for(
    pod: PodHistory,
    owners: list[tuple[int, Owners]],
    models: Callable[[str], list[tuple[int, str | None]]],
    quotas: list[tuple[int, Names | None]],
    around: serving.ServingRules,
) -> Idle:
    """The possible owner of a pod without any holding; ``quotas`` is its top workload's names over time."""
    created_s = pod.begin_us // MICROSECONDS
    value = pod.history[-1][2]
    team, user, mapped, labels = timelines.at(owners, created_s) or _NOBODY
    quota = attributed(
        timelines.at(quotas, created_s), value.quotas, mapped, namespace=pod.namespace, labels=labels,
        rules=serving.at(around, created_s), serving=around.serving(created_s),
    )[0]  # fmt: skip
    node = value.node
    model = None if node is None else timelines.at(models(node), created_s)
    return Idle(
        value.team or team or UNASSIGNED, value.user or user or UNASSIGNED, node, model, quota
    )


def _segments(
    pod: PodHistory,
    owners: list[tuple[int, Owners]],
    models: Callable[[str], list[tuple[int, str | None]]],
    quotas: list[tuple[int, Names | None]],
    around: serving.ServingRules,
    start_s: int,
    end_s: int | None,
    sharing: Callable[[str], list[tuple[int, str]]],
    given: ClaimedCards,
) -> tuple[tuple[Segment, ...], frozenset[str]]:
    values = timelines.changes(tuple(p for p in pod.history if p[2].node is not None))
    node_models = {value.node: models(value.node) for _, value in values}
    shared = {node: found for node in node_models if (found := sharing(node))}
    facts = card_facts(pod)
    is_plain = not (shared or facts or given.timeline)
    flags = set(given.flags)
    cuts = {start_s}
    for changes in (
        values,
        owners,
        quotas,
        *node_models.values(),
        *shared.values(),
        facts,
        given.timeline,
    ):
        # Most things never change.
        if len(changes) > 1:
            cuts.update(second for second, _ in changes[1:] if second > start_s)
    named_by = ([v.quotas for _, v in values], [v for _, v in quotas], [v[2] for _, v in owners])
    cuts.update(second for second in serving.cuts(around, *named_by) if second > start_s)
    pieces: list[tuple[int, tuple[Any, ...]]] = []
    for second in sorted(cuts):
        if end_s is not None and second >= end_s:
            break
        cpu, memory, gpu, extended, team, user, node, own = timelines.at(values, second)
        its_team, its_user, mapped, labels = timelines.at(owners, second) or _NOBODY
        model, devices, memory_of = timelines.at(node_models[node], second), "", ""
        if not is_plain:
            held = held_cards(
                gpu, extended, timelines.at(facts, second), given, second,
                timelines.at(shared.get(node, []), second) or "", pod.namespace, model,
            )  # fmt: skip
            gpu, extended, model = held.gpu_milli, held.extended, held.model
            devices, memory_of = held.devices, held.device_memory
            flags |= held.flags
        value = (
            cpu,
            memory,
            gpu,
            extended,
            team or its_team or UNASSIGNED,
            user or its_user or UNASSIGNED,
            node,
            model,
            *attributed(
                timelines.at(quotas, second),
                own,
                mapped,
                namespace=pod.namespace,
                labels=labels,
                rules=serving.at(around, second),
                serving=around.serving(second),
            ),
            devices,
            memory_of,
        )
        if not pieces or pieces[-1][1] != value:
            pieces.append((second, value))
    seconds = [second for second, _ in pieces]
    ends = (*seconds[1:], end_s)
    # Nothing was held where the end comes first: then there is no piece.
    segments = [Segment(s, end, *value) for (s, value), end in zip(pieces, ends, strict=False)]
    return tuple(segments), frozenset(flags)
