"""`bursar evictions` and v1_evictions, on a ledger of one that went and one that a disruption budget held."""

import json
import re

import pytest

from bus.events.priorities import PriorityClassObserved
from reactors.evictions.settings import EvictionSettings
from tests import factories as said
from tests.deploy.ledgers import bursar, make_ledger
from tests.reactors.evictions.scene import CARD, PDB, QUOTA, Evicting
from tests.simulation.loop import simulate


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_ledger(tmp_path_factory.mktemp("evictions"), simulate(lived()))


async def lived():
    async with Evicting() as cluster:
        await cluster.policy()
        for number in range(200):
            await cluster.run_pod(f"else-{number}", quota="nobody", gpu=0)
        await cluster.see_paid("team", {f"limits.{CARD}": 4})
        await cluster.run_pod("web", quota="team", label=QUOTA)
        await cluster.settled()
        await cluster.judge("team", f"limits.{CARD}", "GraceOver", spent=5_400_000, limit=3_600_000)
        cluster.refuses = PDB
        await cluster.tick()
        cluster.refuses = None
        await cluster.run_pod("train", quota="team", label=QUOTA)
        job = said.workload_observed(
            "job", kind="Job", cluster="c1", labels={QUOTA: "team"}, pods=1,
            demand={f"requests.{CARD}": 1, f"limits.{CARD}": 1},
        )  # fmt: skip
        await cluster.transport.publish([job])
        await cluster.run_pod("job-0", quota="team", label=QUOTA, owner=said.owner("job", "Job"))
        await cluster.tick()
        await cluster.tick()
        return list(cluster.transport.events)


def test_who_had_to_go_why_and_what_became_of_it(capsys, data):
    assert bursar("evictions", "--data", data, "-o", "json") == 0
    rows = json.loads(capsys.readouterr().out)

    told = {row["name"]: (row["reason"], row["result"], row["message"]) for row in rows}
    assert told == {
        "train": ("budget-grace-over", "done", ""),
        "job-0": ("budget-grace-over", "done", ""),
        "web": ("budget-grace-over", "refused", PDB.message),
    }
    assert {row["quota"] for row in rows} == {"team"}


async def refused():
    async with Evicting() as cluster:
        await cluster.policy()
        await cluster.see_paid("team", {f"limits.{CARD}": 4})
        await cluster.run_pod("web", quota="team", label=QUOTA)
        await cluster.settled()
        await cluster.judge("team", f"limits.{CARD}", "GraceOver")
        cluster.refuses = PDB
        await cluster.tick()
        return list(cluster.transport.events)


def test_a_pod_that_rests_after_a_refusal_is_told_with_the_end_of_its_rest(capsys, tmp_path):
    data = make_ledger(tmp_path, simulate(refused()))
    row, _ = asked(capsys, "evictions", "--data", data)

    assert (row["name"], row["result"], row["decided_at"]) == ("web", "not yet", None)
    assert re.fullmatch(r"refused until \d\d:\d\dZ", row["message"])
    assert bursar("evictions", "--data", data) == 0
    assert "refused: it was refused, and rests" in capsys.readouterr().out
    steps = asked(capsys, "why", "ns/web", "--data", data)
    assert (steps[-1]["step"], steps[-1]["reason"]) == ("not yet", "refused")


def asked(capsys, *command):
    assert bursar(*command, "-o", "json") == 0
    return json.loads(capsys.readouterr().out)


def test_why_takes_the_pod_and_the_decision_that_evictions_shows(capsys, data):
    rows = {row["name"]: row for row in asked(capsys, "evictions", "--data", data)}
    by_pod = asked(capsys, "why", "ns/web", "--data", data)
    by_id = asked(capsys, "why", rows["web"]["id"], "--data", data)
    told = [(s["step"], s["about"], s["reason"]) for s in by_id]

    assert told == [
        ("evict", "Pod ns/web", "budget-grace-over"),
        ("refused", "Pod ns/web", PDB.message),
    ]
    assert by_id[0]["quota"] == "team"
    assert bursar("why", "ns/web", "--data", data) == 0
    head, _, *lines = (
        re.split(" {2,}", line.strip()) for line in capsys.readouterr().out.splitlines()
    )
    (shown,) = (line for line in lines if "refused" in line)
    assert shown[head.index("REASON")] == PDB.message
    hours = f"hours of limits.{CARD}"
    assert f"; spent 1.5 {hours}; limit 1 {hours}; exhausted 2025-12-31T" in by_id[0]["numbers"]
    assert all(step in by_pod for step in by_id)


def test_why_of_a_workload_tells_which_of_its_pods_had_to_go(capsys, data):
    steps = asked(capsys, "why", "ns/job", "--data", data)

    assert ("evict", "Pod ns/job-0") in [(s["step"], s["about"]) for s in steps]


def test_people_read_the_disruption_budget_in_the_way(capsys, data):
    assert bursar("evictions", "--data", data) == 0
    lines = capsys.readouterr().out.splitlines()

    assert "The disruption budget web needs 2" in next(line for line in lines if "ns/web" in line)
    assert "bursar why POD" in lines[-1]


def test_evictions_are_in_shadow_mode_by_default():
    assert "shadow" == EvictionSettings().mode


@pytest.mark.parametrize(
    ("mode", "words"),
    [("off", "no quota gives"), ("shadow", "no pod is touched"), ("on", "pods are evicted")],
)
def test_bursar_up_says_what_becomes_of_pods(mode, words):
    assert EvictionSettings().announcement(mode).startswith(f"{mode}: ")
    assert words in EvictionSettings().announcement(mode)


def test_whom_room_was_made_for_is_told(capsys, tmp_path):
    """By `bursar evictions`, v1_evictions and `bursar why`; and it follows from the history."""

    async def preempting():
        async with Evicting() as cluster:
            await cluster.policy(preemption="on")
            await cluster.see_quota("team", {f"limits.{CARD}": 1})
            await cluster.run_pod("train", quota="team", label=QUOTA)
            wanted = {f"limits.{CARD}": 1, f"requests.{CARD}": 1}
            fact = PriorityClassObserved(uid="h", name="high", resource_version="1", value=9)
            await cluster.say(fact, "high")
            await cluster.see(
                "urgent", 0, suspended=True, held=True, wanted=wanted, priority_class="high"
            )
            await cluster.tick()
            return list(cluster.transport.events)

    data = make_ledger(tmp_path, simulate(preempting()))
    (row,) = asked(capsys, "evictions", "--data", data)
    why = asked(capsys, "why", row["id"], "--data", data)

    assert (row["name"], row["reason"], row["result"]) == ("train", "quota-preempted", "done")
    assert row["beneficiary"] == "Job ns/urgent"
    assert "for_priority 9" in why[0]["numbers"]
    assert "makes room for Job ns/urgent" in why[0]["numbers"]
    assert bursar("verify", "--decisions", "--data", data) == 0
