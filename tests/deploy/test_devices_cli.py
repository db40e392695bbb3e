"""`bursar devices`, on a ledger with a card that is held, one in parts, and one that is idle."""

import json

import pytest

from bus.events.devices import ALLOCATED
from tests import factories as given
from tests.deploy.ledgers import bursar, make_ledger
from tests.projections.devices.claimed import card, claim_observed, slice_observed
from tests.projections.devices.claimed_worlds import part

EVENTS = [
    slice_observed(
        card("gpu-0", "H100"), card("gpu-1", "H100"), part("part-0", "20Gi"),
        counters={"set": {"memory": "80Gi"}},
    ),
    claim_observed("whole", "gpu-0", stamp=1, at=1),
    claim_observed("kept", "part-0", stamp=5, at=5, team="red"),
    given.pod_observed("p", claims=("whole",), at=10, created=1, namespace="ns", team="blue"),
    given.node_observed("plain", allocatable={"nvidia.com/gpu": "4", "cpu": "8"}),
    *given.pods_listed(["p"], "9", 100),
]  # fmt: skip

DEALT = {
    ALLOCATED: '{"gpu":[{"minor":3,"id":"GPU-3","resources":{"koordinator.sh/gpu-memory":"8Gi"}}]}'
}


def test_a_card_that_koordinators_rules_gave_is_shown(capsys, tmp_path):
    half = given.requesting({"koordinator.sh/gpu": "50"})
    events = [
        given.pod_observed("p", resources=half, card_texts=DEALT, at=10, created=1, namespace="ns", team="blue"),
        *given.pods_listed(["p"], "9", 100),
    ]  # fmt: skip

    assert asked(capsys, make_ledger(tmp_path, events)) == [("gpu-3", "held", 500, "p", "blue")]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_ledger(tmp_path_factory.mktemp("devices"), EVENTS)


def asked(capsys, data, *arguments):
    assert bursar("devices", "--data", data, "-o", "json", *arguments) == 0
    return [
        (row["card"].rpartition("/")[2], row["state"], row["gpu_milli"], row["pod"] or row["claim"], row["team"])
        for row in json.loads(capsys.readouterr().out)
    ]  # fmt: skip


def test_every_card_says_who_has_which_part(capsys, data):
    held = ("gpu-0", "held", 1000, "p", "blue")
    assert asked(capsys, data) == [
        held,
        ("gpu-1", "idle", 1000, None, None),
        ("set", "reserved", 250, "kept", "red"),
        ("set", "idle", 750, None, None),
        ("nvidia", "plugin", 4000, None, None),
    ]
    assert asked(capsys, data, "--team", "blue") == [held]
    assert asked(capsys, data, "--node", "elsewhere") == []


@pytest.mark.parametrize("output", ["table", "wide", "csv"])
def test_people_see_it_in_a_table(capsys, data, output):
    assert bursar("devices", "--data", data, "-o", output) == 0
    told = capsys.readouterr().out

    assert all(text in told for text in ("gpu-0", "held", "reserved", "idle"))
    if output == "table":
        assert max(map(len, told.splitlines())) <= 80
        assert "ns/p" in told and "cards: 1 held, 0.25 reserved, 1.75 idle, 4 plugin" in told
