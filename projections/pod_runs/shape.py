"""The rows of a pod: what was observed of it (:class:`Pod`), and what follows from that (:class:`Run`, :class:`Segment`)."""

from __future__ import annotations

from typing import Any

import msgspec
import sqlalchemy as sa

from bus.events.pods import Owner
from projections.attribution import Names
from projections.engine.contract import Integer, partial_index, row_table

#: cpu milli-cores, memory MiB, GPU milli-cards, extended resources (JSON), pod's team label, pod's user label, node, what
#: the pod's labels name of quotas
Value = tuple[int, int, int, str, str | None, str | None, str | None, Names | None]

#: Observation of a phase Succeeded or Failed: resourceVersion, time, end of the run (microseconds), flags
Terminal = tuple[str, int, int, tuple[str, ...]]


class Pod(msgspec.Struct, frozen=True):
    """All that was observed of one pod, by uid, as a function of the set of observations.

    Stamps are microseconds UTC. ``created_us``: the smallest creation; None where no observation has a plausible one.
    ``started_us``: the smallest start by stamps over observations with a node, or of a pod that runs without one.
    ``seen_us`` and ``bound_us`` are the earliest observation, and the earliest one with a node and without a stamp: they
    stand in where there is no stamp at all, and never enter a minimum with one. ``deleted_us``: the smallest
    deletionTimestamp seen with grace 0. ``vanished_us``: the earliest DELETED record without such a stamp.
    ``terminals``: the first observation in phase Succeeded or Failed by resourceVersion, and by time where that is
    another. ``latest`` orders the descriptive fields (phase, labels, deadline): those of the newest observation;
    ``owned`` the controller: that of the newest observation that has one.
    """

    uid: str
    cluster: str
    namespace: str
    name: str
    seen_us: int
    flags: tuple[str, ...] = ()
    history: tuple[tuple[str, int, Value], ...] = ()
    created_us: int | None = None
    started_us: int | None = None
    bound_us: int | None = None
    deleted_us: int | None = None
    vanished_us: int | None = None
    terminals: tuple[Terminal, ...] = ()
    latest: tuple[str, int] | None = None
    phase: str = ""
    owned: tuple[str, int] | None = None
    owner: Owner | None = None
    labels: str = "{}"
    deadline_s: int | None = None
    sequence: int = 0

    @property
    def start_us(self) -> int | None:
        """When it began to hold; None while it is not bound. Never before a creation that is known."""
        if self.started_us is None:
            return self.bound_us
        return max(self.started_us, self.created_us or self.started_us)

    @property
    def begin_us(self) -> int:
        """When it was created; without a stamp when it was first seen, or began to hold if that is earlier."""
        if self.created_us is not None:
            return self.created_us
        start_us = self.start_us
        return self.seen_us if start_us is None else min(self.seen_us, start_us)


class Segment(msgspec.Struct, frozen=True):
    """An interval [start_s, end_s) in which nothing about the charge changed; ``end_s`` None while it is open.

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


class Run(msgspec.Struct, frozen=True):
    """What follows for one pod: when it waited and held, for whom, and what is unknown. Whole seconds UTC.

    ``start_s`` None: never bound. ``end_s`` None: open. Waiting is [created_s, start_s), or until the end, or until now.
    ``deadline_s``: the second at which it is ended at the latest, if it began then; None where nothing bounds it.
    """

    created_s: int
    start_s: int | None
    end_s: int | None
    unknown_s: int
    flags: tuple[str, ...]
    workload: str
    segments: tuple[Segment, ...]
    deadline_s: int | None = None

    @property
    def vanished(self) -> bool:
        """Whether the end is known only from a complete list that lacked the pod."""
        return "vanished" in self.flags


class PodRun(msgspec.Struct, frozen=True):
    """A pod and its run: one row of ``pod_runs`` and its rows of ``held_segments``.

    ``sequence`` is the last event that touched the pod's row, ``run_sequence`` the last that changed its segments.
    """

    pod: Pod
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
    # What a change of a namespace or an owner touches; and who is still there.
    sa.Index("pod_runs_by_namespace", "cluster", "namespace"),
    sa.Index("pod_runs_by_owner", "owner_uid"),
    partial_index("pod_runs_vanished", "cluster", "uid", where="vanished = 1"),
    partial_index("pod_runs_open", "cluster", "uid", where="end_s IS NULL"),
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
    sa.Index("held_segments_by_node", "cluster", "node"),
    partial_index("held_segments_by_quota", "cluster", "quota", "end_s", where="quota <> ''"),
)

pod_lists = row_table(
    "pod_lists",
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("time_us", Integer, primary_key=True),
    sa.Column("first_uid", sa.Text, primary_key=True),
    sa.Column("until_uid", sa.Text, nullable=False),
    sa.Column("resource_version", sa.Text, nullable=False),
    # Its uids are in the archive, in the body of the event ``sequence``.
)


#: When the source of pods was known to be told of every change; the newest before a list bounds what the list missed.
pod_beats = row_table(
    "pod_beats",
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("time_us", Integer, primary_key=True),
)


class _State(msgspec.Struct, frozen=True, array_like=True):
    """What of a :class:`Pod` has no column of its own."""

    values: list[Value]
    points: list[tuple[str, int, int]]
    flags: tuple[str, ...]
    vanished_us: int | None
    terminals: tuple[Terminal, ...]
    latest: tuple[str, int] | None
    owned: tuple[str, int] | None
    owner: Owner | None
    deadline_s: int | None
    #: Seen, created, started and bound: the columns have what follows from them.
    times: tuple[int, int | None, int | None, int | None]


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_State)
_flags = msgspec.json.Decoder(tuple[str, ...])


def state_of(pod: Pod) -> str:
    """The ``state`` column: observations point to their distinct values, most pods have two or three."""
    values: dict[Value, int] = {}
    points = [
        (version, time_us, values.setdefault(value, len(values)))
        for version, time_us, value in pod.history
    ]
    return _encoder.encode(
        (
            list(values),
            points,
            pod.flags,
            pod.vanished_us,
            pod.terminals,
            pod.latest,
            pod.owned,
            pod.owner,
            pod.deadline_s,
            (pod.seen_us, pod.created_us, pod.started_us, pod.bound_us),
        )
    ).decode()


def to_columns(row: PodRun) -> tuple[Any, ...]:
    """The row as columns of ``pod_runs``, in order."""
    pod, run = row.pod, row.run
    last = run.segments[-1] if run.segments else None
    return (
        pod.uid,
        pod.cluster,
        pod.namespace,
        pod.name,
        run.workload,
        pod.owner.uid if pod.owner else None,
        last.team if last else "",
        last.user if last else "",
        pod.history[-1][2][6] or None,
        pod.phase,
        pod.labels,
        pod.begin_us,
        pod.start_us,
        pod.deleted_us,
        run.created_s,
        run.start_s,
        run.end_s,
        run.unknown_s,
        _encoder.encode(run.flags).decode(),
        int(run.vanished),
        state_of(pod),
        run.deadline_s,
        row.sequence,
    )


def segment_columns(row: PodRun) -> list[tuple[Any, ...]]:
    """The row's segments as columns of ``held_segments``, in order."""
    pod, run = row.pod, row.run
    return [
        (
            pod.uid, s.start_s, s.end_s, s.cpu_milli, s.memory_mib, s.gpu_milli, s.extended,
            pod.cluster, pod.namespace, run.workload, s.team, s.user, s.node, s.model, s.quota, s.cpu_type,
            s.gpu_type, s.memory_type, row.run_sequence,
        )
        for s in run.segments
    ]  # fmt: skip


def from_columns(columns: tuple[Any, ...], segments: list[tuple[Any, ...]]) -> PodRun:
    """The row that was stored, with its segments (columns of ``held_segments``, by start)."""
    (uid, cluster, namespace, name, workload, _, _, _, _, phase, labels, _, _,
     deleted_us, created_s, start_s, end_s, unknown_s, flags, _, state, deadline_s, sequence) = columns  # fmt: skip
    held = _decoder.decode(state)
    history = tuple((v, t, held.values[n]) for v, t, n in held.points)
    seen_us, created_us, started_us, bound_us = held.times
    pod = Pod(
        uid, cluster, namespace, name, seen_us, held.flags, history, created_us, started_us, bound_us, deleted_us,
        held.vanished_us, held.terminals, held.latest, phase, held.owned, held.owner,
        labels, held.deadline_s, sequence,
    )  # fmt: skip
    run = Run(
        created_s, start_s, end_s, unknown_s, _flags.decode(flags), workload,
        tuple(Segment(*s[1:7], *s[10:18]) for s in segments), deadline_s,
    )  # fmt: skip
    return PodRun(pod, run, sequence, segments[0][18] if segments else sequence)
