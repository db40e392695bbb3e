"""`bursar why` of a PodMigrationJob and of its pod, on a ledger of one that moved its pod."""

import json

import pytest

from tests.deploy.ledgers import bursar, make_ledger
from tests.reactors.migration.scene import Moving
from tests.simulation.loop import simulate


async def lived():
    """One pod was evicted, and the reservation of another one waits for a node."""
    cluster = Moving()
    await cluster.begin()
    for name in ("web", "other"):
        cluster.deployment(name)
    await cluster.turn()
    job = cluster.migrate("web-0", "move")
    await cluster.turn()
    cluster.migrate("other-0", "later")
    await cluster.turn()
    cluster.place(job, "n2")
    await cluster.turn(after=1)
    await cluster.turn()
    return list(cluster.transport.events)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_ledger(tmp_path_factory.mktemp("migration"), simulate(lived()))


def steps(capsys, name, data):
    assert bursar("why", name, "--data", data, "-o", "json") == 0
    return json.loads(capsys.readouterr().out)


def test_the_steps_of_a_job_are_found_by_its_name(capsys, data):
    found = [(one["step"], one["reason"]) for one in steps(capsys, "migration/move", data)]

    assert {("reserve_room", "room_missing"), ("report_migration", "Running")} <= set(found)
    assert {("report_migration", "WaitForPodBindReservation"), ("done", "")} <= set(found)
    assert ("evict", "pod-moved") in found and "other-0" not in str(
        steps(capsys, "migration/move", data)
    )


def test_the_reservation_and_the_eviction_are_found_by_the_pod(capsys, data):
    found = [(one["step"], one["reason"]) for one in steps(capsys, "ns/web-0", data)]

    wanted = [one for one in found if one[0] in ("reserve_room", "evict")]
    assert [("reserve_room", "room_missing"), ("evict", "pod-moved")] == wanted
    assert "ns/other-0" not in str(found)


def test_a_job_that_waits_ends_with_what_it_waits_for(capsys, data):
    last = steps(capsys, "migration/later", data)[-1]

    assert ("not yet", "reservation_pending") == (last["step"], last["reason"])
    assert "its reservation has no node yet" in last["numbers"]
