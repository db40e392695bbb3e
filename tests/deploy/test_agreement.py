"""`bursar schedule agreement`: what a shadow chose, and where the pods went."""

import json

import pytest

from tests.deploy.ledgers import bursar, make_ledger
from tests.projections.bound import EVENTS


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_ledger(tmp_path_factory.mktemp("agreement"), EVENTS)


def test_each_pod_counts_once_by_its_newest_decision(capsys, data):
    assert bursar("schedule", "agreement", "--data", data, "-o", "json") == 0
    (found,) = json.loads(capsys.readouterr().out)

    assert found | {"day": "", "cluster": ""} == {
        "cluster": "", "profile": "bursar", "day": "", "pods": 10, "same": 2, "equal": 1, "lower": 1,
        "unrecorded": 1, "refused": 1, "unplaced": 1, "waiting": 2, "gone": 1,
    }  # fmt: skip


def test_people_see_a_table_of_80_columns(capsys, data):
    assert bursar("schedule", "agreement", "--data", data) == 0
    out = capsys.readouterr().out

    assert "3 of 7 pods with a node, 42.9 %, are on the chosen one or an equally good one" in out
    assert max(map(len, out.splitlines())) <= 80
    assert "GONE" in out


def test_older_decisions_are_left_out(capsys, data):
    assert bursar("schedule", "agreement", "--data", data, "--from", "0m", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == []
