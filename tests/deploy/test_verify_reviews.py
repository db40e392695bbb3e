"""`bursar verify --decisions` on the answers to reviews."""

import json

import pytest

from deploy.cli.program.exits import Exit
from tests.deploy.ledgers import bursar, make_ledger
from tests.reactors.cluster import Cluster
from tests.reactors.rederive.forging import forge
from tests.simulation.loop import simulate


@pytest.fixture
def cluster():
    return simulate(lived())


async def lived():
    async with Cluster() as cluster:
        await cluster.see_quota("team", {"limits.cpu": 4000})
        for uid in "abc":
            await cluster.ask(uid, 2)
        return cluster


def verified(capsys, data):
    code = bursar("verify", "--decisions", "--data", data, "-o", "json")
    return code, json.loads(capsys.readouterr().out)


def test_every_answer_is_derived_again_and_the_rest_is_counted(capsys, cluster, tmp_path):
    code, row = verified(capsys, make_ledger(tmp_path, cluster.transport.events))

    assert (Exit.OK, True, 3, []) == (
        code, row["ok"], row["reviews"], row["reviews_different"],
    )  # fmt: skip
    assert (1, [], {}) == (
        row["observed"], row["observed_different"], row["entries_passed_over"],
    )  # fmt: skip


def test_an_answer_that_was_tampered_with_is_named(capsys, cluster, tmp_path):
    id = forge(cluster, "c", verdict="admitted", charge={"limits.cpu": 2000}, deficits=())
    code, row = verified(capsys, make_ledger(tmp_path, cluster.transport.events))

    assert (Exit.DIFFERENT, False, 2) == (code, row["ok"], row["reviews"])
    last = cluster.transport.events[-1].sequence
    assert [{"what": "altered", "decision": id, "sequence": last}] == row["reviews_different"]


def test_a_table_says_what_was_passed_over(capsys, cluster, tmp_path):
    forge(cluster, "c", basis=None)
    bursar("verify", "--decisions", "--data", make_ledger(tmp_path, cluster.transport.events))

    assert "1 older" in capsys.readouterr().out
