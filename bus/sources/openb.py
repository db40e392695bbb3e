"""The recorded trace openb as a history: nodes and pods of a GPU cluster, played through the
translation of real pods.

A folder holds two CSV files: nodes (``sn, cpu_milli, memory_mib, gpu, model``) and pods (``name, cpu_milli,
memory_mib, num_gpu, gpu_milli, gpu_spec, qos, pod_phase, creation_time, deletion_time, scheduled_time``), times in
whole seconds of the trace. Each pod becomes the events of a watch: ADDED when created, MODIFIED when bound, DELETED
with a deletion stamp and no grace. Data missing in the trace is not invented, with three exceptions needed by the
events: the namespace ``openb``, the node name ``unknown`` (the trace says when a pod was bound, not where), uids
derived from names. A recorded label value may hold ``|``, although Kubernetes would refuse it: it is kept as the
trace's own key.

Source: Alibaba clusterdata, cluster-trace-gpu-v2023, in the form of
hkust-adsl/kubernetes-scheduler-simulator; docs/history.md for the order of events, the empty
columns and the key of ``gpu_spec``.
"""

from __future__ import annotations

import csv
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from bus.clock import SECOND_US, format_stamp
from bus.envelope import Event
from bus.errors import ObservationError, TimestampError
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Record
from bus.sources import nodes, pods

NODES_FILE = "openb_node_list_all_node.csv"
GPU_NODES_FILE = "openb_node_list_gpu_node.csv"
PODS_FILE = "openb_pod_list_default.csv"
NAMESPACE = "openb"
#: Where a bound pod lies, as far as the trace tells.
UNKNOWN_NODE = "unknown"
#: The cluster name of the events.
SOURCE = "openb"

#: Names one pod or node of the trace for ever: the same file gives the same uids on every machine.
_UIDS = uuid.uuid5(
    uuid.NAMESPACE_URL, "https://github.com/alibaba/clusterdata/cluster-trace-gpu-v2023"
)
_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS = (
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "qos",
    "pod_phase",
    "creation_time",
    "deletion_time",
    "scheduled_time",
)
#: Longest whole number of a cell: beyond it no amount and no second of a trace lies.
_MOST_DIGITS = 15

T = TypeVar("T")


class Cells(msgspec.Struct, frozen=True):
    """One row of a file, read cell by cell; each reading names the cell when it fails."""

    file: str
    line: int
    texts: Mapping[str, str]

    def text(self, column: str) -> str:
        """A non-empty text."""
        text = self.texts[column]
        return text if text else self.refuse(column, "is empty")

    def number(self, column: str) -> int:
        """A whole number, not negative."""
        text = self.texts[column]
        if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
            self.refuse(column, "is no whole number")
        return int(text)

    def optional_number(self, column: str) -> int | None:
        """A whole number, or None where the cell is empty."""
        return self.number(column) if self.texts[column] else None

    def refuse(self, column: str, reason: str) -> str:
        """Never returns: raises ObservationError with file, line, column and reason."""
        raise ObservationError(
            f"{self.file}, line {self.line}, column {column}: {self.texts[column][:40]!r} {reason}",
            file=self.file,
            line=self.line,
            column=column,
        )


class TracePod(msgspec.Struct, frozen=True):
    """One pod of the trace; seconds of the trace, amounts as in its columns."""

    name: str
    cpu_milli: int
    memory_mib: int
    num_gpu: int
    gpu_milli: int
    gpu_spec: str
    qos: str
    phase: str
    created: int
    scheduled: int | None
    deleted: int | None


class TraceNode(msgspec.Struct, frozen=True):
    """One node of the trace, amounts as in its columns."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpu: int
    model: str


def read_pods(path: Path) -> list[TracePod]:
    """The pods of a list, in its order. Raises ObservationError naming file, line and column."""
    return _rows(path, _POD_COLUMNS, _pod, "name")


def read_nodes(path: Path) -> list[TraceNode]:
    """The nodes of a list, in its order. Raises ObservationError naming file, line and column."""
    return _rows(path, _NODE_COLUMNS, _node, "sn")


def read_trace(
    folder: Path | str,
    pods_file: Path | str | None = None,
    epoch_us: int = 0,
    *,
    cluster: str = "default",
    labels: LabelPolicy | None = None,
) -> Iterator[Event]:
    """The trace's events: every node, then the pods' by (time, created < scheduled < deleted,
    name).

    ``pods_file`` is a name in ``folder`` or a path, by default the trace's own list. Second 0 of
    the trace is ``epoch_us`` (microseconds UTC). A pod without scheduled_time was never bound; one
    without deletion_time is still there. Raises ObservationError naming file, line and column
    before the first event: a file is read whole or not at all.
    """
    folder = Path(folder)
    policy = labels or LabelPolicy()
    try:
        format_stamp(epoch_us)
    except TimestampError as error:
        raise ObservationError("the trace cannot begin at this time", reason=str(error)) from None
    node_rows = _rows(folder / NODES_FILE, _NODE_COLUMNS, _node_object, "sn")
    pod_rows = read_pods(folder / (pods_file or PODS_FILE))
    return _events(node_rows, pod_rows, epoch_us, cluster, policy)


def _events(
    node_rows: list[dict[str, object]],
    pod_rows: list[TracePod],
    epoch_us: int,
    cluster: str,
    policy: LabelPolicy,
) -> Iterator[Event]:
    for version, node in enumerate(node_rows, 1):
        raw = msgspec.json.encode(_versioned(node, version))
        yield nodes.translate(Record("LISTED", raw, epoch_us, cluster, SOURCE), policy)
    steps = [
        (second, order, pod.name, change, pod)
        for pod in pod_rows
        for order, (change, second) in enumerate(
            (("ADDED", pod.created), ("MODIFIED", pod.scheduled), ("DELETED", pod.deleted))
        )
        if second is not None
    ]
    steps.sort(key=lambda step: step[:3])
    for version, (second, _, _, change, pod) in enumerate(steps, len(node_rows) + 1):
        raw = msgspec.json.encode(_versioned(_pod_object(pod, change, epoch_us), version))
        time_us = epoch_us + second * SECOND_US
        yield pods.translate(Record(change, raw, time_us, cluster, SOURCE), policy)


def _rows(path: Path, columns: tuple[str, ...], read: Callable[[Cells], T], key: str) -> list[T]:
    """Each row of ``path`` by ``read``. Raises ObservationError."""
    rows: list[T] = []
    seen: set[str] = set()
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = csv.reader(file, strict=True)
            header = next(lines, [])
            missing = [column for column in columns if column not in header]
            if missing:
                raise ObservationError(
                    f"{path.name}, line 1: column {missing[0]} is missing",
                    file=path.name,
                    line=1,
                    column=missing[0],
                )
            for texts in lines:
                if len(texts) != len(header):
                    raise ObservationError(
                        f"{path.name}, line {lines.line_num}: {len(texts)} cells of {len(header)}",
                        file=path.name,
                        line=lines.line_num,
                    )
                cells = Cells(path.name, lines.line_num, dict(zip(header, texts, strict=True)))
                if cells.text(key) in seen:
                    cells.refuse(key, "is there twice")
                seen.add(cells.texts[key])
                rows.append(read(cells))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ObservationError(f"{path} cannot be read: {reason}", file=path.name) from error
    return rows


def _node(cells: Cells) -> TraceNode:
    return TraceNode(
        cells.text("sn"),
        cells.number("cpu_milli"),
        cells.number("memory_mib"),
        cells.number("gpu"),
        cells.texts["model"],
    )


def _node_object(cells: Cells) -> dict[str, object]:
    """A node as the API server would show it."""
    name, model, gpus = cells.text("sn"), cells.texts["model"], cells.number("gpu")
    allocatable = {
        "cpu": f"{cells.number('cpu_milli')}m",
        "memory": f"{cells.number('memory_mib')}Mi",
    }
    if gpus:
        allocatable["nvidia.com/gpu"] = str(gpus)
    return {
        "metadata": {
            "uid": _uid("node", name),
            "name": name,
            "labels": {"alibabacloud.com/gpu-card-model": model} if model else {},
        },
        "status": {
            "allocatable": allocatable,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _pod(cells: Cells) -> TracePod:
    pod = TracePod(
        cells.text("name"),
        cells.number("cpu_milli"),
        cells.number("memory_mib"),
        cells.number("num_gpu"),
        cells.number("gpu_milli"),
        "|".join(sorted({token for token in cells.texts["gpu_spec"].split("|") if token})),
        cells.text("qos"),
        cells.text("pod_phase"),
        cells.number("creation_time"),
        cells.optional_number("scheduled_time"),
        cells.optional_number("deletion_time"),
    )
    # A share is of one card; whole cards are 1000 each; anything else would be charged by a guess.
    whole = pod.gpu_milli == 1000 if pod.num_gpu else pod.gpu_milli == 0
    if not whole and not (pod.num_gpu == 1 and 0 < pod.gpu_milli < 1000):
        cells.refuse("gpu_milli", f"does not fit num_gpu = {pod.num_gpu}")
    if pod.scheduled is not None and pod.scheduled < pod.created:
        cells.refuse("scheduled_time", "lies before creation_time")
    if pod.deleted is not None and pod.deleted < max(pod.created, pod.scheduled or 0):
        cells.refuse("deletion_time", "lies before what it ends")
    return pod


def _pod_object(pod: TracePod, change: str, epoch_us: int) -> dict[str, object]:
    """A pod as a watch would show it at ``change``. Its phase is the trace's last one, kept as a
    label only.
    """

    def at(second: int) -> str:
        return format_stamp(epoch_us + second * SECOND_US)

    bound = pod.scheduled is not None and change != "ADDED"
    metadata: dict[str, object] = {
        "uid": _uid("pod", pod.name),
        "name": pod.name,
        "namespace": NAMESPACE,
        "creationTimestamp": at(pod.created),
        "labels": {
            key: value
            for key, value in (("qos", pod.qos), ("gpu_spec", pod.gpu_spec), ("phase", pod.phase))
            if value
        },
    }
    if change == "DELETED" and pod.deleted is not None:
        metadata |= {"deletionTimestamp": at(pod.deleted), "deletionGracePeriodSeconds": 0}
    spec: dict[str, object] = {
        "containers": [{"name": "main", "resources": {"requests": _requests(pod)}}]
    }
    status: dict[str, object] = {"phase": "Running" if bound else "Pending"}
    if bound and pod.scheduled is not None:
        spec["nodeName"] = UNKNOWN_NODE
        status["conditions"] = [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(pod.scheduled)}
        ]
    return {"metadata": metadata, "spec": spec, "status": status}


def _requests(pod: TracePod) -> dict[str, str]:
    requests = {"cpu": f"{pod.cpu_milli}m", "memory": f"{pod.memory_mib}Mi"}
    if pod.num_gpu and pod.gpu_milli == 1000:
        requests["nvidia.com/gpu"] = str(pod.num_gpu)
    elif pod.num_gpu:
        points, rest = divmod(pod.gpu_milli, 10)
        requests["koordinator.sh/gpu-core"] = f"{points}.{rest}" if rest else str(points)
    return requests


def _versioned(thing: dict[str, object], version: int) -> dict[str, object]:
    """``thing`` with a resourceVersion: the running number of its event, as a store would give
    it.
    """
    metadata = thing["metadata"]
    assert isinstance(metadata, dict)
    return thing | {"metadata": metadata | {"resourceVersion": str(version)}}


def _uid(kind: str, name: str) -> str:
    return str(uuid.uuid5(_UIDS, f"{kind}/{name}"))
