"""``bursar why`` names the reservation that a pod uses, those that keep room from it, and what a reservation has."""

import json

from tests.deploy.ledgers import bursar, make_ledger
from tests.reactors.scheduling.reserving import reserving


async def story():
    at = await reserving()
    await at.say(at.reservation("web", 6, "n0", ttl="24h"), at.reservation("late", 3))
    await at.say(at.owner("own", "web", 2))
    await at.say(at.seen("own", "web", 2), at.owner("big", "other", 5), at.owner("huge", "web", 7))
    await at.tick(15)
    return at


def told(capsys, data, name):
    assert bursar("why", name, "--cluster", "c", "--data", data, "-o", "json") == 0
    return json.loads(capsys.readouterr().out)


async def test_why_names_reservations(capsys, tmp_path):
    at = await story()
    data = make_ledger(tmp_path, at.transport.events)
    (used,) = [one for one in told(capsys, data, "ns/own") if one["step"] == "uses"]
    assert used["numbers"].startswith(
        "reservation web on node n0; node n0; reserves cpu 6; cpu 2 used by ns/own"
    )

    (waits,) = [one for one in told(capsys, data, "ns/big") if one["step"] == "unschedulable"]
    assert "node n0: reservation web keeps cpu 4 for other pods" in waits["numbers"]
    (waits,) = [one for one in told(capsys, data, "ns/huge") if one["step"] == "unschedulable"]
    assert "reservation web is for it, and has cpu 4 left" in waits["numbers"]

    (web,) = told(capsys, data, "reservation/web")
    assert (web["step"], web["about"]) == ("available", "reservation web")
    assert "cpu 4 idle; ends at " in web["numbers"]
    late = told(capsys, data, "reservation/late")
    assert [one["step"] for one in late] == ["waits", "unschedulable"]
    assert "reservation web keeps cpu 4 for other pods" in late[1]["numbers"]


async def test_the_queue_shows_reservations_that_wait_or_have_a_node(capsys, tmp_path):
    at = await reserving()
    await at.say(at.reservation("first", 6), at.reservation("late", 3))
    data = make_ledger(tmp_path, at.transport.events)
    assert bursar("schedule", "queue", "--cluster", "c", "--data", data, "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)

    assert [(one["pod"], one["state"]) for one in found] == [
        ("default/first", "assumed"), ("default/late", "unschedulable"),
    ]  # fmt: skip
