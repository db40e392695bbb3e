"""A node that gives more cards than it has, as `bursar acct` and `bursar status` show it."""

import json

from tests import factories as given
from tests.deploy.ledgers import bursar, make_ledger


def ledger(folder, cards):
    """Two pods with two cards each on a node with so many, and a neighbor with one of one."""
    nodes = [
        given.node_observed(name, allocatable={"nvidia.com/gpu": gpu})
        for name, gpu in (("n", cards), ("m", "1"))
    ]
    pods = [
        given.pod_observed("a", gpu=2),
        given.pod_observed("b", gpu=2),
        given.pod_observed("c", gpu=0),
        given.pod_observed("d", gpu=1, node="m"),
    ]
    return make_ledger(
        folder, given.numbered([*nodes, *pods, *given.pods_listed(list("abcd"), "9", 60)])
    )


def answers(capsys, data):
    """The flags of each pod's rows, and what status says of nodes."""
    assert bursar("acct", "--data", data, "-o", "json") == 0
    rows = json.loads(capsys.readouterr().out)
    bursar("status", "--data", data, "-o", "json")
    status = json.loads(capsys.readouterr().out)
    return {row["pod"]: row["flags"] for row in rows}, status["oversubscribed"]


def test_rows_have_the_flag_and_status_names_node_and_resource(tmp_path, capsys):
    data = ledger(tmp_path, "3")
    flags, nodes = answers(capsys, data)

    assert flags == {"a": "oversubscribed", "b": "oversubscribed", "c": "", "d": ""}
    assert nodes == [
        {
            "cluster": given.CLUSTER, "node": "n", "resources": ["nvidia.com/gpu"],
            "charged_gpu_milli": 4000, "supply_gpu_milli": 3000,
        }
    ]  # fmt: skip
    bursar("status", "--data", data)
    out = " ".join(capsys.readouterr().out.split())
    assert "n (nvidia.com/gpu): 4 cards are charged, its supply is 3" in out


def test_a_node_with_enough_cards_has_neither(tmp_path, capsys):
    data = ledger(tmp_path, "4")

    assert answers(capsys, data) == ({"a": "", "b": "", "c": "", "d": ""}, [])
