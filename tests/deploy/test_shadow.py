"""``bursar agreement``: what was decided in shadow beside what came of it, and go or no-go for each reactor."""

import json
from pathlib import Path

import pytest

from deploy.cli.program.exits import Exit
from tests.deploy.ledgers import bursar, make_ledger
from tests.projections.bound import EVENTS
from tests.reactors.jobs.scene import begun
from tests.reactors.lab.worlds import Person, World, people, policy
from tests.simulation.loop import simulate

HOUR = 3_600


def told(capsys, data, *arguments, code=0):
    assert bursar("agreement", "--data", data, "-o", "json", *arguments) == code
    return json.loads(capsys.readouterr().out)


def figures(rows, reactor):
    """By reason: decided, agreed, alone, against, open."""
    names = ("decided", "agreed", "alone", "against", "open")
    return {r["reason"]: [r[name] for name in names] for r in rows if r["reactor"] == reactor}


@pytest.fixture(scope="module")
def culled(tmp_path_factory):
    users = [
        Person("ann", "ns", [(100, 1_000), (3_000, 3_500)], cpu="4", gpu=2),
        Person("bob", "ns", [(100, 1_000)], cpu="2", gpu=1),
        Person("cyd", "ns", [(100, 1_000)], leaves=4_000),
    ]
    record = World(users, policy(idle_seconds=600), "shadow").run(3 * HOUR)
    return make_ledger(tmp_path_factory.mktemp("culled"), record.events)


def test_a_notebook_that_was_used_again_speaks_against_and_one_that_its_owner_ended_agrees(
    capsys, culled
):
    rows = told(capsys, culled)

    found = figures(rows, "culling")["idle"]
    # Ann was back; whatever she was stopped for once more, and Bob's, nobody used again.
    assert found[3] == 1 and found[1] == 1 and found[2] >= 1
    all_ = next(r for r in rows if r["reactor"] == "culling" and r["reason"] is None)
    assert all_["verdict"] == "no-go" and "is allowed" in all_["why"]
    assert all_["gpu_milli_s"] > all_["gpu_milli_s_against"] > 0


def test_go_needs_days_and_few_against(capsys, culled):
    lenient = ("culling", "--against", "60")
    assert (
        "days of decisions are needed"
        in told(capsys, culled, *lenient, code=Exit.DIFFERENT)[-1]["why"]
    )
    assert told(capsys, culled, *lenient, "--days", "0")[-1]["verdict"] == "go"
    assert bursar("agreement", "nobody", "--data", culled) == Exit.USAGE
    assert "is none of admission" in capsys.readouterr().err


def test_a_page_says_of_each_reactor_go_or_why_not(capsys, culled):
    assert bursar("agreement", "--data", culled) == 0
    out = capsys.readouterr().out

    assert "evictions: no-go: no shadow decision with a known outcome" in out
    assert [line.split()[0] for line in out.splitlines() if " all " in line] == [
        "admission", "culling", "evictions", "jobs", "scheduling",
    ]  # fmt: skip


def test_the_page_of_the_documents_is_what_the_command_prints(capsys, tmp_path):
    half_a_day = 12 * HOUR
    record = World(people(5, half_a_day, count=6), policy(idle_seconds=HOUR), "shadow").run(
        half_a_day
    )
    data = make_ledger(tmp_path, record.events)
    text = Path("docs/operating.md").read_text()
    lines = text.partition("$ bursar agreement culling\n")[2].partition("```")[0].splitlines()

    assert bursar("agreement", "culling", "--data", data, "--cluster", "c") == Exit.DIFFERENT
    assert len(lines) == 5 and lines == capsys.readouterr().out.splitlines()[:5]


def test_pods_on_another_node_that_fitted_are_alone_and_on_one_that_was_refused_against(
    capsys, tmp_path
):
    rows = told(capsys, make_ledger(tmp_path, EVENTS))

    # 3 the same or as good, 2 less good or unrecorded, 2 refused or unplaced, 2 wait.
    assert figures(rows, "scheduling")["profile bursar"] == [9, 3, 2, 2, 2]


def test_steps_of_jobs_are_counted(capsys, tmp_path):
    async def lived():
        return (await begun()).transport.events

    rows = told(capsys, make_ledger(tmp_path, simulate(lived())), "--days", "0")

    assert figures(rows, "jobs") == {
        "create": [2, 2, 0, 0, 0], "report": [1, 1, 0, 0, 0], None: [3, 3, 0, 0, 0],
    }  # fmt: skip
    assert next(r for r in rows if r["reactor"] == "jobs" and not r["reason"])["verdict"] == "go"


def test_a_pod_that_was_to_be_evicted_and_ran_on_speaks_against(capsys, tmp_path):
    from tests.reactors.evictions.scene import Evicting, overuse

    async def lived():
        async with Evicting() as cluster:
            await cluster.nodes(20)
            await cluster.see_elastic("q", 10, 20)
            await cluster.see_elastic("other", 10, 20)
            for number in range(100):
                await cluster.run_pod(f"else-{number}", quota="nobody", gpu=0)
            await cluster.policy("shadow", monitor_all_quotas=True, delay_evict_seconds=20)
            await overuse(cluster)
            for _ in range(4):
                await cluster.tick()
            assert ["p09", "p06"] == [one.target.name for one in cluster.decisions()]
            await cluster.evict("ns", "p09", uid="uid-p09")
            cluster.clock.after(2 * HOUR)
            await cluster.run_pod("later")
            return list(cluster.transport.events)

    data = make_ledger(tmp_path, simulate(lived()))
    rows = told(capsys, data, "evictions", "--days", "0", code=Exit.DIFFERENT)

    assert figures(rows, "evictions")[None] == [2, 1, 0, 1, 0]
    assert rows[-1]["verdict"] == "no-go"


def test_what_was_refused_and_came_speaks_against(capsys, tmp_path):
    from tests.reactors.cluster import Cluster

    async def lived():
        async with Cluster() as cluster:
            await cluster.see_quota("team", {"limits.cpu": 4_000})
            await cluster.ask("fits", 3)
            await cluster.see("fits", 3)
            await cluster.ask("comes", 3)
            # In shadow nothing is refused.
            await cluster.see("comes", 3)
            await cluster.ask("never", 3)
            cluster.clock.after(2 * HOUR)
            await cluster.see("later", 0, quota="")
            return cluster.transport.events

    data = make_ledger(tmp_path, simulate(lived()))
    found = figures(told(capsys, data), "admission")

    assert found["fits"] == [1, 1, 0, 0, 0]
    assert found["over-quota"] == [2, 1, 0, 1, 0]
