"""`bursar queue`, on a ledger that webhooks, keeper and queue filled."""

import json

import pytest

from bus.events.workloads import WorkloadObserved
from bus.kube.kinds import QUEUE_ANNOTATION
from reactors.queue import releasing
from tests.deploy.ledgers import bursar, make_ledger
from tests.deploy.queue_ledger import lived
from tests.simulation.loop import simulate


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(releasing, "APART_SECONDS", 0.0)
        events = simulate(lived())
    return make_ledger(tmp_path_factory.mktemp("queue"), events)


def test_who_waits_in_which_place_for_what_and_until_when(capsys, data):
    assert bursar("queue", "show", "--data", data, "-o", "json") == 0
    rows = json.loads(capsys.readouterr().out)

    told = [(r["place"], r["name"], r["priority"], r["waited_s"], r["starts_at"]) for r in rows]
    assert told == [
        (1, "next", 7, 5, "2026-01-01T00:01:40Z"),
        (2, "wide", 0, 5, "2026-01-01T00:02:30Z"),
        (3, "late", 0, 0, None),
        (None, "kept", 0, 5, None),
    ]
    assert rows[0]["reason"] == "over-quota"
    assert rows[0]["deficits"] == [
        {"key": "limits.cpu", "asked": 2000, "used": 3000, "limit": 4000}
    ]
    assert rows[3]["reason"] == "held"


def test_people_read_what_is_missing(capsys, data):
    assert bursar("queue", "show", "team", "--data", data) == 0
    lines = capsys.readouterr().out.splitlines()

    assert "1 of limits.cpu" in next(line for line in lines if "ns/next" in line)
    assert "2 workloads ahead" in next(line for line in lines if "ns/late" in line)
    assert "held" in next(line for line in lines if "ns/kept" in line)


def test_an_order_names_what_waits_and_who_ordered_it(capsys, data, monkeypatch):
    said = []

    async def order(settings, cluster, fact):
        said.append((cluster, fact))
        return 7

    monkeypatch.setattr("deploy.queries.queues.order", order)
    assert (
        bursar("queue", "move", "ns/late", "--priority", "9", "--author", "ada", "--data", data)
        == 0
    )
    assert bursar("queue", "release", "ns/kept", "--author", "ada", "--data", data) == 0

    assert bursar("queue", "hold", "ns/late", "--author", "ada", "--data", data) == 0
    held = "hold ns/late: recorded as event 7; takes effect at the next pass of the queue"
    assert held in capsys.readouterr().err

    (cluster, moved), (_, released), _ = said
    assert (cluster, moved.action, moved.priority, moved.author) == ("c1", "move", 9, "ada")
    assert (released.action, released.priority) == ("release", None)


def test_an_order_about_nobody_is_refused(capsys, data):
    assert bursar("queue", "hold", "ns/first", "--data", data) != 0
    assert "there is no waiting workload 'ns/first'; there are ns/kept" in capsys.readouterr().err


def test_an_order_about_two_of_one_name_asks_for_a_uid(capsys, data, tmp_path):
    """A Job and a RayJob may have one name."""
    twin = WorkloadObserved(
        uid="twin", kind="RayJob", namespace="ns", name="late", resource_version="9",
        wanted={"limits.cpu": 1000}, held=True, annotations={QUEUE_ANNOTATION: "team"},
    )  # fmt: skip
    events = simulate(lived())
    own = next(e for e in events if e.type == twin.wire_type and b'"late"' in e.body)
    other = twin.event(cluster="c1", key="twin", id="twin", source="t", time_us=own.time_us)
    both = make_ledger(tmp_path, [*events, other])

    assert bursar("queue", "hold", "ns/late", "--data", both) != 0
    said = capsys.readouterr().err
    assert f"Job {own.key}" in said
    assert "RayJob twin" in said
