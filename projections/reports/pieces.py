"""Each pod's share of a period, pod by pod: waiting, held segments and unknown time, clipped, cut and keyed by group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from bus.events.pods import Owner
from projections import namespaces, nodes, workloads
from projections.attribution import Names
from projections.devices.entries import of_segment
from projections.engine.contract import Projection
from projections.pod_runs import PodHistory, held_segments, idle_for, pod_runs, serving, stored
from projections.quota_trees import own
from projections.reports.attempts import DIMENSIONS as BY_ATTEMPT
from projections.reports.attempts import NO_JOB, Attempt, attempts
from projections.reports.cards import ByPod, CardPart, HeldCards, shares
from projections.reports.periods import periods
from projections.reports.shape import LABEL, Key, Period, Question, Sums

#: Rows fetched at once.
_FETCHED = 2_000

#: Pods in one statement by uid.
_ASKED = 500


class HeldPiece(msgspec.Struct, frozen=True, gc=False):
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
    #: False: cards of a further model; everything else is counted already.
    is_first: bool = True
    #: The card of its part of cards, and the requested device class; None for unknown ones.
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
    #: At least one: without any holding, the one for the possible owner.
    holdings: list[HeldPiece]
    has_held: bool
    #: Up to when it is known to be there, if it is open.
    known_s: int
    #: Its cards by claims, if requested.
    cards: list[CardPart]
    #: Its attempt and training job, if requested.
    tried: Attempt


_labels = msgspec.json.Decoder(dict[str, str])


#: (group, kind, start, end, owner)
Stretch = tuple[Key, int, int, int, HeldPiece]


def pieces(
    connection: sa.Connection,
    question: Question,
    *,
    only_open: bool = False,
    uids: Sequence[str] | None = None,
) -> Iterator[list[tuple[Key, int, int, HeldPiece]]]:
    """Each pod's share of the period: (group, kind, seconds, owner), cut as requested; of ``uids`` alone if they
    are given.

    With ``only_open`` of open pods, and of their segments the open one.
    """
    cut = periods("hour" if "hour" in question.by else "day", question.zone)
    is_cut = "day" in question.by or "hour" in question.by
    for pod, clipped in _clipped_pods(connection, question, only_open, uids):
        found: list[tuple[Key, int, int, HeldPiece]] = []
        for kind, lo, hi, holding in clipped:
            if not is_cut:
                found.append((_key(question.by, pod, holding, None), kind, hi - lo, holding))
                continue
            found += [
                (_key(question.by, pod, holding, period), kind, seconds, holding)
                for period, seconds in cut(lo, hi)
            ]
        yield found


def stretches(
    connection: sa.Connection, question: Question, uids: Sequence[str]
) -> Iterator[list[Stretch]]:
    """The share of each pod of ``uids`` in the period, not cut; groups are without days and hours."""
    for pod, clipped in _clipped_pods(connection, question, False, uids):
        yield [
            (_key(question.by, pod, holding, None), kind, lo, hi, holding)
            for kind, lo, hi, holding in clipped
        ]


def _clipped_pods(
    connection: sa.Connection, question: Question, only_open: bool, uids: Sequence[str] | None
) -> Iterator[tuple[_PodRow, list[tuple[int, int, int, HeldPiece]]]]:
    """Each pod with a share in the period, with its (kind, start, end, owner)."""
    is_by_model = "model" in question.by or "model" in question.where
    for pod in _asked(connection, question, only_open, uids):
        found = [
            (kind, *clipped, holding)
            for kind, start_s, end_s, holding in _stretches(pod, question.as_of_s, is_by_model)
            if (clipped := _clipped(question, start_s, end_s)) is not None
            and _is_wanted(question, pod, holding)
        ]
        if found:
            yield pod, found


def _asked(
    connection: sa.Connection, question: Question, only_open: bool, uids: Sequence[str] | None
) -> Iterator[_PodRow]:
    """The pods possibly in the period: all, or those of ``uids``."""
    named = _Named(connection, has_quotas="quota" in (*question.by, *question.where))
    if uids is None:
        yield from _pods(connection, question, only_open, named)
        return
    for start in range(0, len(uids), _ASKED):
        part = uids[start : start + _ASKED]
        yield from _pods(connection, question, only_open, named, part)


def _pods(
    connection: sa.Connection,
    question: Question,
    only_open: bool,
    named: _Named,
    uids: Sequence[str] | None = None,
) -> Iterator[_PodRow]:
    """The pods possibly in the period, with their segments as of then, read on demand."""
    runs, segments = pod_runs.c, held_segments.c
    as_of_s = question.as_of_s
    chosen = [runs.created_s <= as_of_s]
    segment_is_chosen = [segments.start_s < as_of_s]
    if uids is not None:
        chosen.append(runs.uid.in_(uids))
        segment_is_chosen.append(segments.uid.in_(uids))
    if only_open:
        chosen.append(runs.end_s.is_(None))
        segment_is_chosen.append(segments.end_s.is_(None))
    if question.from_s is not None:
        chosen.append(sa.or_(runs.end_s.is_(None), runs.end_s + runs.unknown_s >= question.from_s))
    if question.to_s is not None:
        chosen.append(runs.created_s < question.to_s)
    # The long column only for pods without holdings: it alone has their possible owner.
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
        holdings: list[HeldPiece] = []
        known_s = question.observed_s(row[1])
        for s in segments_of.of(row[0]):
            end_s = max(known_s, s[1]) if s[2] is None else min(s[2], as_of_s)
            holdings.append(HeldPiece(s[1], end_s, *s[3:6], *s[10:15], *s[18:19]))
        cards = cards_of.of(row[0]) if cards_of else []
        has_held = bool(holdings)
        if only_open and not has_held:
            # Its open segment begins at the moment of the question.
            continue
        if not has_held:
            holdings.append(named.nobody(tuple(row)))
        yield _PodRow(
            row.cluster, row.namespace, row.workload, row.labels, row.created_s, row.start_s, row.end_s,
            row.unknown_s, holdings, has_held, known_s, cards, tried.get(row[0], NO_JOB),
        )  # fmt: skip


class _Named:
    """The owners of namespaces and the models of nodes, over time; each is read at its first use."""

    def __init__(self, connection: sa.Connection, *, has_quotas: bool) -> None:
        self._connection = connection
        self._has_quotas = has_quotas
        self._rows: dict[tuple[str, tuple[str, ...]], Any] = {}
        self._serving: serving.Serving | None = None

    def _row(self, projection: Projection, *key: str) -> Any:
        if (projection.name, key) not in self._rows:
            columns = [*projection.table.primary_key.columns]
            is_it = [column == value for column, value in zip(columns, key, strict=True)]
            found = self._connection.execute(sa.select(projection.table).where(*is_it)).first()
            row = None if found is None else projection.codec.row(tuple(found))
            self._rows[(projection.name, key)] = row
        return self._rows[(projection.name, key)]

    def _workload(self, uid: str) -> workloads.WorkloadHistory | None:
        found: workloads.WorkloadHistory | None = self._row(workloads.projection, uid)
        return found

    def _is_own(self, found: workloads.Controlled, owner: Owner) -> bool:
        return own.is_own(self._row(own.projection, found.uid), found.kind, owner)

    def _around(self, pod: PodHistory) -> serving.ServingRules:
        if not self._has_quotas:
            return serving.NOTHING_KNOWN
        if self._serving is None:
            self._serving = serving.Serving()
            self._serving.open(
                lambda query: [tuple(row) for row in self._connection.execute(query)]
            )
        return self._serving.around(pod.cluster, pod.namespace)

    def _quotas(self, pod: PodHistory) -> list[tuple[int, Names | None]]:
        """The quotas named by the charged workload."""
        if not self._has_quotas or pod.owner is None:
            return []
        charged = workloads.tops(pod.controlled, self._workload, self._is_own).charged
        above = self._workload(charged.uid) if charged else None
        return above.quotas() if above else []

    def _models(self, pod: PodHistory) -> Callable[[str], list[tuple[int, str | None]]]:
        def of(node: str) -> list[tuple[int, str | None]]:
            row = self._row(nodes.projection, pod.cluster, node)
            found: list[tuple[int, str | None]] = row.models() if row else []
            return found

        return of

    def nobody(self, row: tuple[Any, ...]) -> HeldPiece:
        """The possible owner of a pod without any holding."""
        (one,) = stored([row], ())
        pod = one.pod
        namespace = self._row(namespaces.projection, pod.cluster, pod.namespace)
        owners = namespace.owners() if namespace else []
        idle = idle_for(pod, owners, self._models(pod), self._quotas(pod), self._around(pod))
        whose = (idle.team, idle.user, idle.node, idle.model, idle.quota)
        return HeldPiece(0, 0, 0, 0, 0, *whose)


WAITED, HELD, UNKNOWN = range(3)


def _stretches(
    pod: _PodRow, as_of_s: int, is_by_model: bool
) -> Iterator[tuple[int, int, int, HeldPiece]]:
    """(kind, start, end, owner) of one pod as of a moment; one of no length proves only its existence."""
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


def _by_model(segment: HeldPiece) -> Iterator[HeldPiece]:
    """A segment for each of its models: its CPU and memory are with the first."""
    first, *others = of_segment(segment.model, segment.gpu_milli, segment.devices, "")
    yield replace(segment, model=first.model, gpu_milli=first.gpu_milli)
    for one in others:
        yield replace(
            segment, model=one.model, gpu_milli=one.gpu_milli, cpu_milli=0, memory_mib=0, is_first=False
        )  # fmt: skip


def _by_card(
    segment: HeldPiece, parts: list[CardPart]
) -> Iterator[tuple[int, int, int, HeldPiece]]:
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


def _is_wanted(question: Question, pod: _PodRow, holding: HeldPiece) -> bool:
    # An empty value selects rows without one, as in the stored sums; for a label it is a value.
    return not question.where or all(
        _value(name, pod, holding) == (value if value or name.startswith(LABEL) else None)
        for name, value in question.where.items()
    )


def _key(by: tuple[str, ...], pod: _PodRow, holding: HeldPiece, period: Period | None) -> Key:
    return tuple(
        _called(name, period) if name in ("day", "hour") else _value(name, pod, holding)
        for name in by
    )


def _called(name: str, period: Period | None) -> Period | None:
    if period is None or name == "hour":
        return period
    # The day of an hour: its name begins with the date.
    return (0, period[1][:10])


def _value(name: str, pod: _PodRow, holding: HeldPiece) -> str | int | None:
    if name.startswith(LABEL):
        return _labels.decode(pod.labels).get(name[len(LABEL) :])
    part = pod if name in _OF_PODS else pod.tried if name in BY_ATTEMPT else holding
    value: str | int | None = getattr(part, _FIELDS.get(name, name))
    # The node of a started pod without a node name is empty.
    return value or None


_OF_PODS = frozenset({"cluster", "namespace", "workload"})
#: Dimensions about the cards of claims.
_BY_CARD = frozenset({"device", "class"})
#: Dimensions with another name than their field.
_FIELDS = {"class": "device_class"}


def add(found: Sums, kind: int, seconds: int, holding: HeldPiece) -> None:
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
