"""`bursar evictions` and v1_evictions, on a ledger of one that went and one that a disruption budget held."""

import asyncio
import json

import pytest

from tests.deploy.ledgers import bursar, make_ledger
from tests.reactors.evictions.scene import CARD, QUOTA, Evicting
from tests.reactors.evictions.test_evictions import PDB


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_ledger(tmp_path_factory.mktemp("evictions"), asyncio.run(lived()))


async def lived():
    async with Evicting() as cluster:
        await cluster.policy()
        for number in range(100):
            await cluster.run_pod(f"else-{number}", quota="nobody", gpu=0)
        await cluster.see_quota("team", {f"limits.{CARD}": 4})
        await cluster.run_pod("web", quota="team", label=QUOTA)
        await cluster.settled()
        await cluster.judge("team", f"limits.{CARD}", "GraceOver")
        cluster.refuses = PDB
        await cluster.tick()
        cluster.refuses = None
        await cluster.run_pod("train", quota="team", label=QUOTA)
        await cluster.tick()
        return list(cluster.transport.events)


def test_who_had_to_go_why_and_what_became_of_it(capsys, data):
    assert bursar("evictions", "--data", data, "-o", "json") == 0
    rows = json.loads(capsys.readouterr().out)

    told = {row["name"]: (row["reason"], row["result"], row["message"]) for row in rows}
    assert told == {
        "train": ("budget-grace-over", "done", ""),
        "web": ("budget-grace-over", "refused", PDB.message),
    }


def test_people_read_the_disruption_budget_in_the_way(capsys, data):
    assert bursar("evictions", "--data", data) == 0
    lines = capsys.readouterr().out.splitlines()

    assert "The disruption budget web needs 2" in next(line for line in lines if "ns/web" in line)
