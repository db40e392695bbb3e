"""The rows of a pod: its observations (:class:`PodHistory`), and the results from them (:class:`Run`, :class:`Segment`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec
import sqlalchemy as sa

from bus.events.pods import Owner
from projections.attribution import Names
from projections.engine.codec import Codec, Named
from projections.engine.contract import Integer, partial_index, row_table
from projections.pod_runs.blocks import block
from projections.pod_runs.finishes import UNSTARTED, Finish, GoneRecord
from projections.pod_runs.pod_value import PodValue
from projections.workloads import Controlled


class Above(msgspec.Struct, frozen=True, gc=False):
    """The end of a pod's owner chain: its workload (None: without one), the quota names in its labels over time,
    and its deadline in seconds after a start (None: unknown).
    """

    owner: Owner | None = None
    quotas: list[tuple[int, Names | None]] = []
    deadline_s: int | None = None


class PodHistory(msgspec.Struct, frozen=True, gc=False):
    """All observations of one pod, by uid, as a function of the set of observations.

    Stamps are microseconds UTC. ``created_us``: the smallest creation; None without a plausible one.
    ``started_us``: the smallest start by stamps over observations with a node, or of a started pod without one.
    ``seen_us`` and ``bound_us`` are the earliest observation, and the earliest one with a node and without a stamp:
    they replace missing stamps, and never enter a minimum with one. ``deleted_us``: the smallest deletionTimestamp
    seen with grace 0. ``gone``: the earliest DELETED record without such a stamp. ``acknowledged_us``: the smallest
    status.startTime over observations with a node, a replacement for a start. ``finishes``: the first observation
    in phase Succeeded or Failed by resourceVersion, and by time if that is another. ``ran``: the started
    containers. ``asked``: the first observation with DisruptionTarget, and whether the kubelet set it. ``latest``
    orders phase, labels and deadline: those of the newest observation; ``owned`` the newest controller.
    """

    uid: str
    cluster: str
    namespace: str
    name: str
    seen_us: int
    flags: tuple[str, ...] = ()
    history: tuple[tuple[str, int, PodValue], ...] = ()
    created_us: int | None = None
    started_us: int | None = None
    bound_us: int | None = None
    deleted_us: int | None = None
    gone: GoneRecord | None = None
    finishes: tuple[Finish, ...] = ()
    latest: tuple[str, int] | None = None
    phase: str = ""
    owned: tuple[str, int] | None = None
    owner: Owner | None = None
    labels: str = "{}"
    deadline_s: int | None = None
    #: Names of its claims, and resources backed by one: once reported they stay.
    claims: tuple[str, ...] = ()
    claimed: tuple[str, ...] = ()
    #: Its observations about cards beyond an amount (:mod:`projections.devices.requested`).
    cards: tuple[tuple[str, int, str], ...] = ()
    #: The reason of its disruption, by its newest observation with one: resourceVersion, time, DisruptionTarget.
    disrupted: tuple[str, int, str] | None = None
    acknowledged_us: int | None = None
    ran: int = UNSTARTED
    asked: tuple[str, int, bool] | None = None
    sequence: int = 0

    @property
    def controlled(self) -> Controlled:
        """The pod with its named controller."""
        return Controlled(self.uid, "Pod", self.namespace, self.owner)

    @property
    def start_us(self) -> int | None:
        """The start of its holding; None before its bind. Never before a known creation."""
        start_us = self.acknowledged_us if self.started_us is None else self.started_us
        if start_us is None:
            return self.bound_us
        return max(start_us, self.created_us or start_us)

    @property
    def begin_us(self) -> int:
        """Its creation; without a stamp its first observation, or its start if that is earlier."""
        if self.created_us is not None:
            return self.created_us
        start_us = self.start_us
        return self.seen_us if start_us is None else min(self.seen_us, start_us)


class Segment(msgspec.Struct, frozen=True, gc=False):
    """An interval [start_s, end_s) with an unchanged charge; ``end_s`` None while it is open.

    ``quota`` "": none is named; then there are no types.
    """

    start_s: int
    end_s: int | None
    cpu_milli: int
    memory_mib: int
    gpu_milli: int
    extended: str
    team: str
    user: str
    node: str
    model: str | None
    quota: str = ""
    cpu_type: str = ""
    gpu_type: str = ""
    memory_type: str = ""
    #: Its cards, and its device memory, by model as JSON objects (:mod:`projections.devices.entries`), "" where the amount and
    #: the model above say all.
    devices: str = ""
    device_memory: str = ""


class Idle(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The possible owner of an ended pod without any holding: by its newest labels, else its namespace then.

    A bound one is on that ``node``, of its ``model`` then.
    """

    team: str
    user: str
    node: str | None = None
    model: str | None = None
    quota: str = ""


class Run(msgspec.Struct, frozen=True, gc=False):
    """The result for one pod: its waiting and holding time, its owners, its unknown time. Whole seconds UTC.

    ``start_s`` None: never bound. ``end_s`` None: open. Waiting is [created_s, start_s), or until the end, or until now.
    ``deadline_s``: the latest second of its end, if it began then; None without a bound.
    """

    created_s: int
    start_s: int | None
    end_s: int | None
    unknown_s: int
    flags: tuple[str, ...]
    workload: str
    segments: tuple[Segment, ...]
    deadline_s: int | None = None
    #: The owner of its waiting time, for an ended pod without holdings.
    idle: Idle | None = None
    #: The observation time of its end, if the end rests on it: lists and heartbeats decide the unknown time.
    observed_us: int | None = None

    @property
    def vanished(self) -> bool:
        """Whether the end is known only from a complete list without the pod."""
        return "vanished" in self.flags

    @property
    def is_settled(self) -> bool:
        """Whether its end needs no list and no beat."""
        return not self.vanished and self.observed_us is None


class PodRun(msgspec.Struct, frozen=True, gc=False):
    """A pod and its run: one row of ``pod_runs`` and its rows of ``held_segments``.

    ``sequence`` is the last event to change the pod's row, ``run_sequence`` the last to change its segments.
    """

    pod: PodHistory
    run: Run
    sequence: int
    run_sequence: int


pod_runs = row_table(
    "pod_runs",
    sa.Column("uid", sa.Text, primary_key=True),
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("workload", sa.Text, nullable=False),
    sa.Column("owner_uid", sa.Text),
    sa.Column("team", sa.Text, nullable=False),
    sa.Column("user_name", sa.Text, nullable=False),
    sa.Column("node", sa.Text),
    sa.Column("phase", sa.Text, nullable=False),
    sa.Column("labels", sa.Text, nullable=False),
    sa.Column("created_us", Integer, nullable=False),
    sa.Column("started_us", Integer),
    sa.Column("deleted_us", Integer),
    sa.Column("created_s", Integer, nullable=False),
    sa.Column("start_s", Integer),
    sa.Column("end_s", Integer),
    sa.Column("unknown_s", Integer, nullable=False),
    sa.Column("flags", sa.Text, nullable=False),
    # 1 where the end is known only from a list: such an end is taken back when evidence arrives.
    sa.Column("vanished", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("deadline_s", Integer),
    sa.Column("idle", sa.Text),
    # The block of days around all of an ended pod (:mod:`projections.pod_runs.blocks`).
    sa.Column("block", Integer),
    # Why others ended it: the reason of its condition DisruptionTarget, as `DeletionByPodGC`; null where nobody did.
    sa.Column("disruption", sa.Text),
    # When it was observed to have ended, where no stamp says when it did (microseconds).
    sa.Column("observed_us", Integer),
    # Indexes for changes of a namespace or an owner, and for existing pods.
    sa.Index("pod_runs_by_namespace", "cluster", "namespace"),
    sa.Index("pod_runs_by_owner", "owner_uid"),
    # Columns for users' questions.
    sa.Index("pod_runs_by_name", "name", "namespace", "cluster"),
    partial_index("pod_runs_vanished", "cluster", "uid", where="vanished = 1"),
    partial_index("pod_runs_open", "cluster", "uid", where="end_s IS NULL"),
    partial_index("pod_runs_idle", "cluster", "node", where="idle IS NOT NULL"),
    sa.Index("pod_runs_by_block", "block", "created_s", "end_s", "unknown_s"),
    partial_index("pod_runs_flagged", "flags", where="flags <> '[]'"),
    partial_index("pod_runs_observed", "cluster", "observed_us", where="observed_us IS NOT NULL"),
)

held_segments = row_table(
    "held_segments",
    sa.Column("uid", sa.Text, primary_key=True),
    sa.Column("start_s", Integer, primary_key=True),
    sa.Column("end_s", Integer),
    sa.Column("cpu_milli", Integer, nullable=False),
    sa.Column("memory_mib", Integer, nullable=False),
    sa.Column("gpu_milli", Integer, nullable=False),
    sa.Column("extended", sa.Text, nullable=False),
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("workload", sa.Text, nullable=False),
    sa.Column("team", sa.Text, nullable=False),
    sa.Column("user_name", sa.Text, nullable=False),
    sa.Column("node", sa.Text, nullable=False),
    sa.Column("model", sa.Text),
    sa.Column("quota", sa.Text, nullable=False),
    sa.Column("cpu_type", sa.Text, nullable=False),
    sa.Column("gpu_type", sa.Text, nullable=False),
    sa.Column("memory_type", sa.Text, nullable=False),
    # Its cards in thousandths, and its device memory in MiB, by model as JSON; empty where the columns above say all.
    sa.Column("devices", sa.Text, nullable=False),
    sa.Column("device_memory", sa.Text, nullable=False),
    sa.Index("held_segments_by_node", "cluster", "node"),
    partial_index("held_segments_by_quota", "cluster", "quota", "end_s", where="quota <> ''"),
)


class _State(msgspec.Struct, frozen=True, array_like=True):
    """The parts of a :class:`PodHistory` without a column of their own."""

    values: list[PodValue]
    points: list[tuple[str, int, int]]
    flags: tuple[str, ...]
    gone: GoneRecord | None
    finishes: tuple[Finish, ...]
    latest: tuple[str, int] | None
    owned: tuple[str, int] | None
    owner: Owner | None
    deadline_s: int | None
    #: Observed, created, started, bound and acknowledged: the columns have their results.
    times: tuple[int, int | None, int | None, int | None, int | None]
    ran: int
    asked: tuple[str, int, bool] | None
    #: Names of claims, resources backed by one, and its report about cards; empty without any.
    devices: tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[str, int, str], ...]] = (
        (),
        (),
        (),
    )
    #: The observation with the reason of its disruption; the column has the reason.
    disrupted: tuple[str, int] | None = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_State)


def state_of(pod: PodHistory) -> str:
    """The ``state`` column: observations point to their distinct values, most pods have two or three."""
    values: dict[PodValue, int] = {}
    points = [
        (version, time_us, values.setdefault(value, len(values)))
        for version, time_us, value in pod.history
    ]
    devices = (pod.claims, pod.claimed, pod.cards)
    further: tuple[object, ...] = ()
    if pod.disrupted is not None:
        further = (devices, pod.disrupted[:2])
    elif any(devices):
        further = (devices,)
    return _encoder.encode(
        (
            list(values),
            points,
            pod.flags,
            pod.gone,
            pod.finishes,
            pod.latest,
            pod.owned,
            pod.owner,
            pod.deadline_s,
            (pod.seen_us, pod.created_us, pod.started_us, pod.bound_us, pod.acknowledged_us),
            pod.ran,
            pod.asked,
            *further,
        )
    ).decode()


def _shown(row: PodRun) -> dict[str, Any]:
    pod, run = row.pod, row.run
    last = run.segments[-1] if run.segments else None
    return {
        "uid": pod.uid,
        "cluster": pod.cluster,
        "namespace": pod.namespace,
        "name": pod.name,
        "owner_uid": pod.owner.uid if pod.owner else None,
        "team": last.team if last else "",
        "user_name": last.user if last else "",
        "node": pod.history[-1][2].node or None,
        "phase": pod.phase,
        "labels": pod.labels,
        "created_us": pod.begin_us,
        "started_us": pod.start_us,
        "deleted_us": pod.deleted_us,
        "vanished": int(run.vanished),
        "block": None if run.end_s is None else block(run.created_s, run.end_s + run.unknown_s),
        "disruption": pod.disrupted[2] if pod.disrupted else None,
        "state": state_of(pod),
    }


def _known(named: Named) -> dict[str, Any]:
    held = _decoder.decode(named["state"])
    seen_us, created_us, started_us, bound_us, acknowledged_us = held.times
    disrupted = (*held.disrupted, named["disruption"]) if held.disrupted else None
    pod = PodHistory(
        named["uid"], named["cluster"], named["namespace"], named["name"], seen_us, held.flags,
        tuple([(version, time_us, held.values[n]) for version, time_us, n in held.points]),
        created_us, started_us, bound_us, named["deleted_us"], held.gone, held.finishes,
        held.latest, named["phase"], held.owned, held.owner, named["labels"], held.deadline_s,
        *held.devices, disrupted, acknowledged_us, held.ran, held.asked, named["sequence"],
    )  # fmt: skip
    return {"pod": pod}


#: Rows of ``pod_runs``. Segments, and their last changing event, are kept in ``held_segments``.
codec = Codec(PodRun, pod_runs, spread="run", shown=_shown, known=_known)

_segments = Codec(Segment, held_segments, names={"user": "user_name"})


def segment_columns(row: PodRun) -> list[tuple[Any, ...]]:
    """The row's segments as columns of ``held_segments``, in order."""
    pod = row.pod
    return [
        _segments.columns(
            segment,
            uid=pod.uid,
            cluster=pod.cluster,
            namespace=pod.namespace,
            workload=row.run.workload,
            sequence=row.run_sequence,
        )
        for segment in row.run.segments
    ]


_of_pod = codec.reader("uid", "sequence")
_of_segment = _segments.reader("uid", "sequence")


def stored(rows: Iterable[tuple[Any, ...]], segments: Iterable[tuple[Any, ...]]) -> list[PodRun]:
    """The pods stored as these columns of ``pod_runs`` and ``held_segments``."""
    held: dict[str, list[Segment]] = defaultdict(list)
    changed: dict[str, int] = {}
    for columns in segments:
        uid, changed_by = _of_segment(columns)
        held[uid].append(_segments.row(columns))
        changed[uid] = changed_by
    found = []
    for columns in rows:
        uid, sequence = _of_pod(columns)
        own = tuple(sorted(held.get(uid, ()), key=_start))
        found.append(codec.row(columns, segments=own, run_sequence=changed.get(uid, sequence)))
    return found


def _start(segment: Segment) -> int:
    return segment.start_s
