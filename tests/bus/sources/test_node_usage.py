"""What metrics-server says of nodes: a measurement as a NodeMetric is one, without pods."""

import json

import msgspec
import pytest

from bus.clock import parse_stamp
from bus.errors import ObservationError
from bus.sources.catalogue import NODE_USAGE
from bus.sources.node_usage import gone
from tests.bus.sources import records
from tests.bus.sources.records import POLICY, body

STAMP = "2026-11-28T06:00:00Z"
VERSION = str(parse_stamp(STAMP))
ITEM = {
    "metadata": {"name": "n1", "creationTimestamp": STAMP, "labels": {"a": "b"}}, "timestamp": STAMP, "window": "20.051s",
    "usage": {"cpu": "156984n", "memory": "1Gi", "ephemeral-storage": "1"},
}  # fmt: skip
SAID = {"uid": "measured-n1", "name": "n1", "resource_version": VERSION, "updated": STAMP, "names_no_pods": True}  # fmt: skip


def record(thing, change, late_us=10_000_000):
    """Received so much later than :data:`STAMP`."""
    found = records.record(thing, change)
    return msgspec.structs.replace(found, time_us=int(VERSION) + late_us)


def said(**fields):
    return body(NODE_USAGE.translate(record(ITEM | fields, "LISTED"), POLICY))


def test_a_measurement_says_what_a_node_uses_and_over_how_long():
    event = NODE_USAGE.translate(record(ITEM, "LISTED"), POLICY)
    found = SAID | {"interval_seconds": 21, "used": {"cpu": "156984n", "memory": "1Gi"}}

    assert (event.type, event.key, body(event)) == ("nodemetric.observed", "n1", found)
    assert event.id == f"nodemetric.observed/measured-n1/{VERSION}"


WINDOWS = {"1m30s": 90, "1h0m0s": 3600, "0.2s": 1, "": None, "soon": None, "9" * 99: None}


@pytest.mark.parametrize(("window", "seconds"), WINDOWS.items(), ids=range(6))
def test_a_window_is_whole_seconds_or_nobody_can_read_it(window, seconds):
    assert said(window=window).get("interval_seconds") == seconds


def test_amounts_that_are_too_long_are_none():
    assert said(usage={"cpu": "1" * 99, "memory": "2"})["used"] == {"memory": "2"}
    assert said(usage=None)["used"] == {}


NOTHING = [{"timestamp": ""}, {"timestamp": "soon"}, *({"metadata": {"name": one}} for one in ("", "a/b", "a" * 999))]  # fmt: skip


@pytest.mark.parametrize("fields", NOTHING, ids=range(5))
def test_a_measurement_of_no_node_or_no_time_is_refused(fields):
    with pytest.raises(ObservationError):
        said(**fields)


def test_a_node_whose_clock_was_ahead_is_measured_on_once_it_is_set():
    """Else what it measures would be older than the future until that has come."""
    ahead = NODE_USAGE.translate(record(ITEM | {"timestamp": "2031-01-01T00:00:00Z"}, "LISTED", 0), POLICY)  # fmt: skip
    later = record(ITEM | {"timestamp": "2026-11-28T06:00:30Z"}, "LISTED", 60_000_000)
    versions = [int(body(one)["resource_version"]) for one in (ahead, NODE_USAGE.translate(later, POLICY))]  # fmt: skip

    assert versions == [int(VERSION), int(VERSION) + 30_000_000]


def test_a_node_that_is_measured_no_more_has_vanished_after_its_last_measurement():
    raw = gone("measured-n1", int(VERSION) + 5)
    event = NODE_USAGE.translate(record(json.loads(raw), "DELETED"), POLICY)
    found = {"uid": "measured-n1", "name": "n1", "resource_version": str(int(VERSION) + 5)}

    assert (event.type, body(event)) == ("nodemetric.vanished", found)
