"""`bursar why` of a pod without any decision: its life, as the ledger charges it."""

import json

from tests import factories as given
from tests.deploy.ledgers import bursar, make_ledger

EVENTS = [
    given.pod_observed("waits", at=30, created=10, node=None, phase="Pending"),
    given.pod_observed("holds", version=2, at=40, created=10, scheduled=20),
    given.pod_observed("ended", version=3, at=40, created=10, scheduled=20),
    given.pod_vanished("ended", version=4, at=80, created=10, scheduled=20, deletion=80),
    given.pod_observed("never", version=5, at=50, created=40, node=None, phase="Pending"),
    given.pod_vanished(
        "never", version=6, at=100, created=40, node=None, phase="Pending", deletion=90
    ),
]


def asked(capsys, folder, name):
    assert bursar("why", name, "--cluster", given.CLUSTER, "--data", folder, "-o", "json") == 0
    return [(step["step"], step["numbers"]) for step in json.loads(capsys.readouterr().out)]


def test_the_life_of_a_pod_without_decisions_is_told(capsys, tmp_path):
    make_ledger(tmp_path, EVENTS)

    assert asked(capsys, tmp_path, "ns/waits") == [("created", "has waited for a node for 1m 30s")]
    assert asked(capsys, tmp_path, "ns/holds") == [
        ("created", "waited 10s"),
        ("started", "bound to node n; has held its request for 1m 20s"),
    ]
    assert asked(capsys, tmp_path, "ns/ended") == [
        ("created", "waited 10s"),
        ("started", "bound to node n"),
        ("ended", "held its request for 1m 00s"),
    ]
    assert asked(capsys, tmp_path, "ns/never") == [
        ("created", "waited 50s"),
        ("ended", "was never bound"),
    ]
