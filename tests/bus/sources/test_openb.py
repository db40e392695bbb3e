"""The recorded trace openb as a history: order, amounts, and what happens to damaged rows."""

import csv
import hashlib
import json
import os
from collections import Counter
from pathlib import Path

import pytest

from bus.charges import charged_bytes
from bus.clock import SECOND_US, parse_stamp
from bus.errors import ObservationError
from bus.events.nodes import NodeObserved
from bus.events.pods import PodObserved, PodVanished
from bus.sources import openb

REPOSITORY = Path(__file__).parents[3]
SHARED = Path(os.environ.get("BURSAR_SHARED") or REPOSITORY.parent / "shared")
TRACE = SHARED / "traces" / "openb"
needs_trace = pytest.mark.skipif(
    not TRACE.is_dir(),
    reason="needs the trace openb: Alibaba clusterdata, cluster-trace-gpu-v2023",
)

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,32000,262144,2,P100\nn1,8000,1024,0,\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
    "creation_time,deletion_time,scheduled_time\n"
    "b,4000,100,1,465,V100M32|V100M16|V100M32,LS,Running,5,9,5\n"
    "a,1000,200,2,1000,,BE,Failed,5,8,6\n"
    "c,1,1,0,0,,BE,Pending,7,,\n"
)


def write(folder, pods=PODS, nodes=NODES):
    (folder / openb.NODES_FILE).write_text(nodes)
    (folder / openb.PODS_FILE).write_text(pods)
    return folder


def step(event):
    """What an event says, as the canonical stream of the trace has it."""
    pod = (PodVanished if event.type == "pod.vanished" else PodObserved).read(event)
    if event.type == "pod.vanished":
        return event.time_us // SECOND_US, "deleted", pod.name
    return event.time_us // SECOND_US, "scheduled" if pod.scheduled else "created", pod.name


def pods_of(events):
    return [event for event in events if event.type.startswith("pod.")]


def test_order_is_time_then_created_scheduled_deleted_then_name(tmp_path):
    expected = [
        (5, "created", "a"),
        (5, "created", "b"),
        (5, "scheduled", "b"),
        (6, "scheduled", "a"),
        (7, "created", "c"),
        (8, "deleted", "a"),
        (9, "deleted", "b"),
    ]

    actual = [step(event) for event in pods_of(openb.read_trace(write(tmp_path)))]

    assert expected == actual


def test_a_share_is_percent_points_and_whole_cards_are_cards(tmp_path):
    events = pods_of(openb.read_trace(write(tmp_path)))
    amounts = {
        PodObserved.read(event).name: charged_bytes(bytes(PodObserved.read(event).resources))
        for event in events
        if event.type == "pod.observed"
    }

    actual = {
        name: (one.cpu_millicores, one.memory_mib, one.gpu_milligpus)
        for name, one in amounts.items()
    }

    assert {"a": (1000, 200, 2000), "b": (4000, 100, 465), "c": (1, 1, 0)} == actual


def test_a_deleted_pod_carries_its_delete_and_its_labels(tmp_path):
    last = pods_of(openb.read_trace(write(tmp_path), epoch_us=1_000 * SECOND_US))[-1]

    pod = PodVanished.read(last)

    assert (pod.namespace, pod.node, pod.grace_seconds) == ("openb", "unknown", 0)
    assert parse_stamp(pod.deletion) == last.time_us == 1_009 * SECOND_US
    assert pod.labels == {"gpu_spec": "V100M16|V100M32", "phase": "Running", "qos": "LS"}


def test_nodes_come_first_with_their_model(tmp_path):
    first, second = list(openb.read_trace(write(tmp_path)))[:2]

    assert NodeObserved.read(first).model == "P100"
    assert NodeObserved.read(first).allocatable["nvidia.com/gpu"] == "2"
    assert NodeObserved.read(second).model is None


def test_reading_twice_gives_the_same_events(tmp_path):
    folder = write(tmp_path)

    assert list(openb.read_trace(folder)) == list(openb.read_trace(folder, openb.PODS_FILE))


@pytest.mark.parametrize(
    ("before", "after", "line", "column"),
    [
        ("4000,100", "4e3,100", 2, "cpu_milli"),
        ("4000,100", "-4,100", 2, "cpu_milli"),
        ("4000,100", "\u0664,100", 2, "cpu_milli"),
        ("2,1000,,BE", "2,500,,BE", 3, "gpu_milli"),
        ("0,0,,BE", "0,10,,BE", 4, "gpu_milli"),
        ("Running,5,9,5", "Running,5,9,4", 2, "scheduled_time"),
        ("Failed,5,8,6", "Failed,5,5,6", 3, "deletion_time"),
        ("Failed,5,", "Failed,,", 3, "creation_time"),
        ("c,1,1", "a,1,1", 4, "name"),
        ("c,1,1", ",1,1", 4, "name"),
        (",qos,", ",quality,", 1, "qos"),
    ],
    ids=[
        "an exponent is no whole number",
        "a negative amount",
        "a foreign digit",
        "half of two cards",
        "a share of no card",
        "bound before it was created",
        "deleted before it was bound",
        "no creation time",
        "one name twice",
        "no name",
        "a missing column",
    ],
)
def test_a_bad_cell_is_named_and_nothing_is_read(tmp_path, before, after, line, column):
    assert before in PODS
    folder = write(tmp_path, PODS.replace(before, after, 1))

    with pytest.raises(ObservationError) as caught:
        openb.read_trace(folder)

    assert (caught.value.file, caught.value.line, caught.value.column) == (
        openb.PODS_FILE,
        line,
        column,
    )
    assert f"line {line}, column {column}" in str(caught.value) or line == 1


@pytest.mark.parametrize(
    "pods",
    [PODS + "d,1\n", PODS + 'd,"1', ""],
    ids=["a short row", "an open quote", "an empty file"],
)
def test_a_damaged_file_is_refused_whole(tmp_path, pods):
    with pytest.raises(ObservationError):
        openb.read_trace(write(tmp_path, pods))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ObservationError, match=r"elsewhere\.csv"):
        openb.read_trace(write(tmp_path), "elsewhere.csv")


@pytest.mark.long
@needs_trace
@pytest.mark.parametrize(
    ("pods_file", "key"), [(None, "default"), ("openb_pod_list_gpuspec33.csv", "gpuspec33")]
)
def test_the_recorded_trace_is_the_canonical_stream(pods_file, key):
    expected = json.loads((SHARED / "cases" / "openb_ledger.json").read_text())[key]
    events = pods_of(openb.read_trace(TRACE, pods_file))

    stream = "".join(f"{time},{kind},{name}\n" for time, kind, name in map(step, events))

    assert len(events) == expected["events"]
    assert hashlib.sha256(stream.encode()).hexdigest() == expected["sha256"]
    assert len({event.id for event in events}) == len(events)


@pytest.mark.long
@needs_trace
def test_every_recorded_pod_is_charged_what_its_row_says():
    with (TRACE / openb.PODS_FILE).open(newline="") as file:
        expected = {
            row["name"]: (
                int(row["cpu_milli"]),
                int(row["memory_mib"]),
                int(row["num_gpu"]) * int(row["gpu_milli"]),
            )
            for row in csv.DictReader(file)
        }
    pods = [
        PodVanished.read(event) for event in openb.read_trace(TRACE) if event.type == "pod.vanished"
    ]
    amounts = {pod.name: charged_bytes(bytes(pod.resources)) for pod in pods}

    assert expected == {
        name: (one.cpu_millicores, one.memory_mib, one.gpu_milligpus)
        for name, one in amounts.items()
    }
    assert Counter(pod.scheduled is None for pod in pods)[True] == 897
