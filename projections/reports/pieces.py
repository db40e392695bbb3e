"""What each pod has in a period, pod by pod: waiting, held segments and unknown time, clipped, cut and keyed by group."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from bus.events.pods import Owner
from projections import namespaces, nodes, timelines, workloads
from projections.attribution import Names, attributed
from projections.devices.entries import of_segment
from projections.pod_runs import UNASSIGNED, Pod, held_segments, pod_runs, serving, stored
from projections.quota_trees import own
from projections.reports.attempts import DIMENSIONS as BY_ATTEMPT
from projections.reports.attempts import NO_JOB, Attempt, attempts
from projections.reports.cards import ByPod, CardPart, HeldCards, shares
from projections.reports.periods import periods
from projections.reports.shape import LABEL, Key, Period, Question, Sums

#: Rows fetched at once.
_FETCHED = 2_000


class Holding(msgspec.Struct, frozen=True, gc=False):
    """One segment as of the question's moment: [start_s, end_s), closed there if it is open."""

    start_s: int
    end_s: int
    cpu_milli: int
    memory_mib: int
    gpu_milli: int
    team: str | None
    user: str | None
    node: str | None
    model: str | None
    quota: str
    #: Its cards by model as JSON, where there are several models.
    devices: str = ""
    #: False: cards of a further model, beside which all else is counted already.
    is_first: bool = True
    #: The card of what it has of cards, and the device class that was requested; None where neither is known.
    device: str | None = None
    device_class: str | None = None


class _PodRow(msgspec.Struct, gc=False):
    cluster: str
    namespace: str
    workload: str
    labels: str
    created_s: int
    start_s: int | None
    end_s: int | None
    unknown_s: int
    #: At least one: where it never held, the one for whom it would have.
    holdings: list[Holding]
    has_held: bool
    #: Up to when it is known to be there, if it is open.
    known_s: int
    #: What it holds of cards by claims, where that is asked for.
    cards: list[CardPart]
    #: Which attempt of which training job it is, where that is asked for.
    tried: Attempt


_labels = msgspec.json.Decoder(dict[str, str])


def pieces(
    connection: sa.Connection, question: Question, *, only_open: bool = False
) -> Iterator[list[tuple[Key, int, int, Holding]]]:
    """What each pod has in the period: (group, kind, seconds, for whom), cut as asked.

    With ``only_open`` of pods that are not ended, and of their segments the one that is not.
    """
    cut = periods("hour" if "hour" in question.by else "day", question.zone)
    is_cut = "day" in question.by or "hour" in question.by
    is_by_model = "model" in question.by or "model" in question.where
    for pod in _pods(connection, question, only_open):
        found: list[tuple[Key, int, int, Holding]] = []
        for kind, start_s, end_s, holding in _stretches(pod, question.as_of_s, is_by_model):
            clipped = _clipped(question, start_s, end_s)
            if clipped is None or not _is_wanted(question, pod, holding):
                continue
            if not is_cut:
                lo, hi = clipped
                found.append((_key(question.by, pod, holding, None), kind, hi - lo, holding))
                continue
            found += [
                (_key(question.by, pod, holding, period), kind, seconds, holding)
                for period, seconds in cut(*clipped)
            ]
        if found:
            yield found


def _pods(connection: sa.Connection, question: Question, only_open: bool) -> Iterator[_PodRow]:
    """The pods that may lie in the period, with their segments as of then, read as they are needed."""
    runs, segments = pod_runs.c, held_segments.c
    as_of_s = question.as_of_s
    chosen = [runs.created_s <= as_of_s]
    segment_is_chosen = [segments.start_s < as_of_s]
    if only_open:
        chosen.append(runs.end_s.is_(None))
        segment_is_chosen.append(segments.end_s.is_(None))
    if question.from_s is not None:
        chosen.append(sa.or_(runs.end_s.is_(None), runs.end_s + runs.unknown_s >= question.from_s))
    if question.to_s is not None:
        chosen.append(runs.created_s < question.to_s)
    named = _Named(connection, has_quotas="quota" in (*question.by, *question.where))
    # The long column only for those that held nothing: whose they would be stands in it alone.
    holds = sa.and_(runs.start_s < as_of_s, sa.or_(runs.end_s.is_(None), runs.end_s > runs.start_s))
    columns = [c if c.name != "state" else sa.case((holds, ""), else_=c) for c in pod_runs.c]
    held = connection.execute(
        sa.select(held_segments)
        .join(pod_runs, runs.uid == segments.uid)
        .where(*segment_is_chosen, *chosen)
        .order_by(segments.uid, segments.start_s)
        .execution_options(yield_per=_FETCHED)
    )
    segments_of = ByPod(held)
    cards_of = (
        HeldCards(
            connection,
            sa.select(runs.uid).where(*chosen),
            has_classes="class" in question.by,
        )
        if _BY_CARD & {*question.by}
        else None
    )
    tried = attempts(connection, as_of_s) if BY_ATTEMPT & {*question.by} else {}
    rows = sa.select(*columns).where(*chosen).order_by(runs.uid)
    for row in connection.execute(rows.execution_options(yield_per=_FETCHED)):
        holdings: list[Holding] = []
        known_s = question.observed_s(row[1])
        for s in segments_of.of(row[0]):
            end_s = max(known_s, s[1]) if s[2] is None else min(s[2], as_of_s)
            holdings.append(Holding(s[1], end_s, *s[3:6], *s[10:15], *s[18:19]))
        cards = cards_of.of(row[0]) if cards_of else []
        has_held = bool(holdings)
        if only_open and not has_held:
            # Its open segment begins at the moment of the question.
            continue
        if not has_held:
            holdings.append(named.nobody(tuple(row)))
        created_s, start_s, end_s, unknown_s = row[14:18]
        yield _PodRow(
            row[1], row[2], row[4], row[10], created_s, start_s, end_s, unknown_s, holdings, has_held,
            known_s, cards, tried.get(row[0], NO_JOB),
        )  # fmt: skip


class _Named:
    """Whom namespaces and which model nodes name, over time; read when first needed."""

    def __init__(self, connection: sa.Connection, *, has_quotas: bool) -> None:
        self._connection = connection
        self._has_quotas = has_quotas

    @cached_property
    def _owners(self) -> dict[tuple[str, str], list[tuple[int, namespaces.Owners]]]:
        rows = self._connection.execute(sa.select(namespaces.namespaces)).all()
        return {(row[0], row[1]): namespaces.codec.row(tuple(row)).owners() for row in rows}

    @cached_property
    def _models(self) -> dict[tuple[str, str], list[tuple[int, str | None]]]:
        rows = self._connection.execute(sa.select(nodes.nodes)).all()
        return {(row[0], row[1]): nodes.codec.row(tuple(row)).models() for row in rows}

    @cached_property
    def _workloads(self) -> dict[str, workloads.Workload]:
        rows = self._connection.execute(sa.select(workloads.workloads)).all()
        return {row[0]: workloads.codec.row(tuple(row)) for row in rows}

    @cached_property
    def _own(self) -> dict[str, own.OwnCharge]:
        rows = self._connection.execute(sa.select(own.own_charges)).all()
        return {row[0]: own.codec.row(tuple(row)) for row in rows}

    def _is_own(self, found: workloads.Controlled, owner: Owner) -> bool:
        return own.is_own(self._own.get(found.uid), found.kind, owner)

    @cached_property
    def _serving(self) -> serving.Serving:
        found = serving.Serving()
        found.open(lambda query: [tuple(row) for row in self._connection.execute(query)])
        return found

    def _quota(
        self, pod: Pod, created_s: int, mapped: Names | None, labels: dict[str, str] | None
    ) -> str:
        if not self._has_quotas:
            return ""
        top = workloads.tops(pod.controlled, self._workloads.get, self._is_own).charged
        above = self._workloads.get(top.uid) if top else None
        of_workload = timelines.at(above.quotas(), created_s) if above else None
        around = self._serving.around(pod.cluster, pod.namespace)
        return attributed(
            of_workload, pod.history[-1][2][7], mapped, namespace=pod.namespace, labels=labels,
            rules=serving.at(around, created_s), serving=around.serving(created_s),
        )[0]  # fmt: skip

    def nobody(self, row: tuple[Any, ...]) -> Holding:
        """For whom a pod would have held that never did: by its newest labels, else its namespace at its creation.

        One that was bound, but held nothing that is known, was on that node.
        """
        ((pod, run),) = [(one.pod, one.run) for one in stored([row], ())]
        created_s, place = run.created_s, (pod.cluster, pod.namespace)
        team, user, node = pod.history[-1][2][4:7]
        named = timelines.at(self._owners.get(place, []), created_s) or (None,) * 4
        team, user = team or named[0] or UNASSIGNED, user or named[1] or UNASSIGNED
        model = (
            None
            if node is None
            else timelines.at(self._models.get((pod.cluster, node), []), created_s)
        )
        quota = self._quota(pod, created_s, *named[2:])
        return Holding(0, 0, 0, 0, 0, team, user, node, model, quota)


WAITED, HELD, UNKNOWN = range(3)


def _stretches(
    pod: _PodRow, as_of_s: int, is_by_model: bool
) -> Iterator[tuple[int, int, int, Holding]]:
    """(kind, start, end, for whom) of one pod as of a moment; one of no length says only that it was there."""
    first, last = pod.holdings[0], pod.holdings[-1]
    bound_s = pod.start_s if pod.start_s is not None and pod.start_s <= as_of_s else None
    end_s = max(pod.known_s, pod.created_s) if pod.end_s is None else min(pod.end_s, as_of_s)
    yield WAITED, pod.created_s, end_s if bound_s is None else bound_s, first
    if bound_s is not None and not pod.has_held:
        yield HELD, bound_s, bound_s, first
    for segment in pod.holdings if pod.has_held else ():
        if pod.cards and segment.gpu_milli and segment.start_s < segment.end_s:
            yield from _by_card(segment, pod.cards)
            continue
        for holding in _by_model(segment) if is_by_model and segment.devices else (segment,):
            yield HELD, segment.start_s, segment.end_s, holding
    if pod.unknown_s and pod.end_s is not None and pod.end_s < as_of_s:
        yield UNKNOWN, pod.end_s, min(pod.end_s + pod.unknown_s, as_of_s), last
    if pod.end_s is None and end_s < as_of_s:
        yield UNKNOWN, max(end_s, last.end_s if pod.has_held else end_s), as_of_s, last


def _by_model(segment: Holding) -> Iterator[Holding]:
    """A segment for each of its models: its CPU and memory are with the first."""
    first, *others = of_segment(segment.model, segment.gpu_milli, segment.devices, "")
    yield replace(segment, model=first.model, gpu_milli=first.gpu_milli)
    for one in others:
        yield replace(
            segment, model=one.model, gpu_milli=one.gpu_milli, cpu_milli=0, memory_mib=0, is_first=False
        )  # fmt: skip


def _by_card(segment: Holding, parts: list[CardPart]) -> Iterator[tuple[int, int, int, Holding]]:
    """A segment for each card: its CPU and memory are with the first."""
    entries = of_segment(segment.model, segment.gpu_milli, segment.devices, "")
    for from_s, to_s, found in shares(segment.start_s, segment.end_s, entries, parts):
        for number, one in enumerate(found):
            rest = {} if number == 0 else {"cpu_milli": 0, "memory_mib": 0, "is_first": False}
            yield HELD, from_s, to_s, replace(
                segment, model=one.model, gpu_milli=one.gpu_milli, device=one.card,
                device_class=one.device_class, **rest,
            )  # fmt: skip


def _clipped(question: Question, start_s: int, end_s: int) -> tuple[int, int] | None:
    lo = start_s if question.from_s is None else max(start_s, question.from_s)
    if start_s < end_s:
        hi = min(end_s, question.until_s)
        return (lo, hi) if lo < hi else None
    is_in = lo == start_s and (question.to_s is None or start_s < question.to_s)
    return (lo, lo) if is_in else None


def _is_wanted(question: Question, pod: _PodRow, holding: Holding) -> bool:
    return not question.where or all(
        _value(name, pod, holding) == value for name, value in question.where.items()
    )


def _key(by: tuple[str, ...], pod: _PodRow, holding: Holding, period: Period | None) -> Key:
    return tuple(
        _called(name, period) if name in ("day", "hour") else _value(name, pod, holding)
        for name in by
    )


def _called(name: str, period: Period | None) -> Period | None:
    if period is None or name == "hour":
        return period
    # The day of an hour: its name begins with the date.
    return (0, period[1][:10])


def _value(name: str, pod: _PodRow, holding: Holding) -> str | int | None:
    if name.startswith(LABEL):
        return _labels.decode(pod.labels).get(name[len(LABEL) :])
    part = pod if name in _OF_PODS else pod.tried if name in BY_ATTEMPT else holding
    value: str | int | None = getattr(part, _FIELDS.get(name, name))
    # The node of a pod that ran and named none is empty.
    return value or None


_OF_PODS = frozenset({"cluster", "namespace", "workload"})
#: What is told apart by the cards of claims.
_BY_CARD = frozenset({"device", "class"})
#: Dimensions whose name is no field's.
_FIELDS = {"class": "device_class"}


def add(found: Sums, kind: int, seconds: int, holding: Holding) -> None:
    """Add one piece to the sums of its group."""
    if kind == WAITED:
        found.waiting_s += seconds
    elif kind == UNKNOWN:
        found.unknown_s += seconds
    else:
        found.held_s += seconds if holding.is_first else 0
        found.cpu_milli_s += holding.cpu_milli * seconds
        found.gpu_milli_s += holding.gpu_milli * seconds
        found.memory_mib_s += holding.memory_mib * seconds
