"""The rows of a pod: what was observed of it (:class:`Pod`), and what follows from that (:class:`Run`, :class:`Segment`)."""

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
from projections.pod_runs.finishes import UNSTARTED, Finish, Gone
from projections.workloads import Controlled

#: cpu milli-cores, memory MiB, GPU milli-cards, extended resources (JSON), pod's team label, pod's user label, node, what
#: the pod's labels name of quotas
Value = tuple[int, int, int, str, str | None, str | None, str | None, Names | None]


class Above(msgspec.Struct, frozen=True, gc=False):
    """What is known of the end of a pod's owner chain: who it is (None: there is none), what its labels name of quotas over
    time, and after how many seconds it ends what it began (None: no word of that).
    """

    owner: Owner | None = None
    quotas: list[tuple[int, Names | None]] = []
    deadline_s: int | None = None


class Pod(msgspec.Struct, frozen=True, gc=False):
    """All that was observed of one pod, by uid, as a function of the set of observations.

    Stamps are microseconds UTC. ``created_us``: the smallest creation; None where no observation has a plausible one.
    ``started_us``: the smallest start by stamps over observations with a node, or of a pod that runs without one.
    ``seen_us`` and ``bound_us`` are the earliest observation, and the earliest one with a node and without a stamp: they
    stand in where there is no stamp at all, and never enter a minimum with one. ``deleted_us``: the smallest
    deletionTimestamp seen with grace 0. ``gone``: the earliest DELETED record without such a stamp.
    ``acknowledged_us``: the smallest status.startTime over observations with a node, which stands in for a start.
    ``finishes``: the first observation in phase Succeeded or Failed by resourceVersion, and by time where that is another.
    ``ran``: the containers that ran. ``asked``: the first observation with DisruptionTarget, and whether the kubelet set it.
    ``latest`` orders phase, labels and deadline: those of the newest observation; ``owned`` the newest controller.
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
    gone: Gone | None = None
    finishes: tuple[Finish, ...] = ()
    latest: tuple[str, int] | None = None
    phase: str = ""
    owned: tuple[str, int] | None = None
    owner: Owner | None = None
    labels: str = "{}"
    deadline_s: int | None = None
    #: Names of its claims, and resources that come by one: once said stays said.
    claims: tuple[str, ...] = ()
    claimed: tuple[str, ...] = ()
    #: Of its observations those that say of cards more than an amount (:mod:`projections.devices.requested`).
    cards: tuple[tuple[str, int, str], ...] = ()
    #: Why others ended it, by its newest observation that says so: resourceVersion, time, the reason of DisruptionTarget.
    disrupted: tuple[str, int, str] | None = None
    acknowledged_us: int | None = None
    ran: int = UNSTARTED
    asked: tuple[str, int, bool] | None = None
    sequence: int = 0

    @property
    def controlled(self) -> Controlled:
        """The pod with the controller that it names."""
        return Controlled(self.uid, "Pod", self.namespace, self.owner)

    @property
    def start_us(self) -> int | None:
        """When it began to hold; None while it is not bound. Never before a creation that is known."""
        start_us = self.acknowledged_us if self.started_us is None else self.started_us
        if start_us is None:
            return self.bound_us
        return max(start_us, self.created_us or start_us)

    @property
    def begin_us(self) -> int:
        """When it was created; without a stamp when it was first seen, or began to hold if that is earlier."""
        if self.created_us is not None:
            return self.created_us
        start_us = self.start_us
        return self.seen_us if start_us is None else min(self.seen_us, start_us)


class Segment(msgspec.Struct, frozen=True, gc=False):
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
    #: Its cards, and its device memory, by model as JSON objects (:mod:`projections.devices.entries`), "" where the amount and
    #: the model above say all.
    devices: str = ""
    device_memory: str = ""


class Idle(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """For whom a pod would have held that ended and never did: by its newest labels, else its namespace at its creation.

    One that was bound is on that ``node``, of its ``model`` then.
    """

    team: str
    user: str
    node: str | None = None
    model: str | None = None
    quota: str = ""


class Run(msgspec.Struct, frozen=True, gc=False):
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
    #: For whom it waited, of one that ended and never held.
    idle: Idle | None = None
    #: When it was observed to have ended, where its end rests on that: lists and beats around it decide how much is unknown.
    observed_us: int | None = None

    @property
    def vanished(self) -> bool:
        """Whether the end is known only from a complete list that lacked the pod."""
        return "vanished" in self.flags

    @property
    def is_settled(self) -> bool:
        """Whether its end needs no list and no beat."""
        return not self.vanished and self.observed_us is None


class PodRun(msgspec.Struct, frozen=True, gc=False):
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
    sa.Column("idle", sa.Text),
    # The block of days that holds all of an ended pod (:mod:`projections.pod_runs.blocks`).
    sa.Column("block", Integer),
    # Why others ended it: the reason of its condition DisruptionTarget, as `DeletionByPodGC`; null where nobody did.
    sa.Column("disruption", sa.Text),
    # When it was observed to have ended, where no stamp says when it did (microseconds).
    sa.Column("observed_us", Integer),
    # What a change of a namespace or an owner touches; and who is still there.
    sa.Index("pod_runs_by_namespace", "cluster", "namespace"),
    sa.Index("pod_runs_by_owner", "owner_uid"),
    # What people ask for.
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
    """What of a :class:`Pod` has no column of its own."""

    values: list[Value]
    points: list[tuple[str, int, int]]
    flags: tuple[str, ...]
    gone: Gone | None
    finishes: tuple[Finish, ...]
    latest: tuple[str, int] | None
    owned: tuple[str, int] | None
    owner: Owner | None
    deadline_s: int | None
    #: Seen, created, started, bound and acknowledged: the columns have what follows from them.
    times: tuple[int, int | None, int | None, int | None, int | None]
    ran: int
    asked: tuple[str, int, bool] | None
    #: Names of claims, resources that come by one, and what it says of cards; nothing where it has none of them.
    devices: tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[str, int, str], ...]] = (
        (),
        (),
        (),
    )
    #: Which observation says why others ended it; the column has the reason.
    disrupted: tuple[str, int] | None = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_State)


def state_of(pod: Pod) -> str:
    """The ``state`` column: observations point to their distinct values, most pods have two or three."""
    values: dict[Value, int] = {}
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
        "node": pod.history[-1][2][6] or None,
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
    pod = Pod(
        named["uid"], named["cluster"], named["namespace"], named["name"], seen_us, held.flags,
        tuple([(version, time_us, held.values[n]) for version, time_us, n in held.points]),
        created_us, started_us, bound_us, named["deleted_us"], held.gone, held.finishes,
        held.latest, named["phase"], held.owned, held.owner, named["labels"], held.deadline_s,
        *held.devices, disrupted, acknowledged_us, held.ran, held.asked, named["sequence"],
    )  # fmt: skip
    return {"pod": pod}


#: Rows of ``pod_runs``. Segments, and the last event that changed them, are kept in ``held_segments``.
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
    """The pods that were stored as these columns of ``pod_runs`` and ``held_segments``."""
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
