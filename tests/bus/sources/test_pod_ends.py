"""What the fact of a pod says of its end, beside its containers' own stamps."""

import json

import msgspec
import pytest

from bus.events.pods import PodObserved, PodVanished
from bus.kube.watch.records import identity
from bus.sources import pods
from tests.bus.sources.pod_records import condition, ended, finished, observed, pod
from tests.bus.sources.records import POLICY, body, record


@pytest.mark.parametrize(("phase", "is_listed"), [("Failed", True), ("Running", False)])
def test_a_finish_in_a_list_is_another_event_than_in_a_watch(phase, is_listed):
    """A pod that runs is one event, whoever reported it: a restart would publish every pod anew otherwise."""
    raw = msgspec.json.encode(pod(status={"phase": phase}))
    listed, watched = (
        pods.translate(record(raw, change), POLICY) for change in ("LISTED", "MODIFIED")
    )

    assert [PodObserved.read(one).listed for one in (listed, watched)] == [is_listed, False]
    assert (listed.id == watched.id) == (listed.body == watched.body) == (not is_listed)
    assert identity(listed) == identity(watched)


MANAGED = [
    {"manager": "kubelet", "time": "2026-10-26T08:00:02Z", "subresource": "status", "fieldsV1": {"f:status": {}}},
    {"manager": "kube-scheduler", "time": "2026-10-26T08:00:01Z", "subresource": "status"},
    {"manager": "kubectl", "time": "2026-10-26T09:00:00Z"},
]  # fmt: skip


@pytest.mark.parametrize(
    ("phase", "managed", "written"),
    [
        ("Failed", MANAGED, "2026-10-26T08:00:02Z"),
        ("Running", MANAGED, None),
        ("Failed", MANAGED[2:], None),
        ("Failed", [{"time": 7}], None),
        ("Failed", None, None),
    ],
    ids=["newest of the status", "not of one that runs", "no status", "unreadable", "absent"],
)
def test_a_finish_records_when_its_status_was_written(phase, managed, written):
    thing = pod(status={"phase": phase})
    thing["metadata"] = thing["metadata"] | {"managedFields": managed}

    assert observed(thing).written == written
    assert "kubelet" not in json.dumps(body(pods.translate(record(thing), POLICY)))


def test_a_delete_without_the_stamp_of_the_delete_carries_evidence():
    shown = pod(status={"phase": "Running", "conditions": [condition("PodScheduled")]})
    stamped = {"deletionTimestamp": "2026-10-26T08:00:00Z", "deletionGracePeriodSeconds": 0}
    found = [
        PodVanished.read(pods.translate(record(thing, "DELETED"), POLICY)).evidence
        for thing in (shown, shown | {"metadata": shown["metadata"] | stamped})
    ]

    assert found == [("2026-10-26T07:55:28Z",), ()]


@pytest.mark.parametrize(("finish", "is_evidence"), [("07:55:27", True), ("07:55:28", False)])
def test_a_finish_before_the_bind_carries_evidence(finish, is_evidence):
    stamp = f"2026-10-26T{finish}Z"
    shown = finished(ended(stamp), conditions=[condition("PodScheduled")])
    found = observed(shown)

    assert found.finished == (stamp,)
    assert found.evidence == (("2026-10-26T07:55:28Z", stamp) if is_evidence else ())
