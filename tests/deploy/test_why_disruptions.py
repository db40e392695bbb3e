"""`bursar why` of a pod that others ended, as its conditions say."""

import json

from bus.sources.pods import DISRUPTIONS
from deploy.cli.explaining.disruptions import WHO
from tests import factories as given
from tests.deploy.ledgers import bursar, make_ledger

ENDED = {"disrupted": 5, "disruption": "DeletionByDeviceTaintManager"}
EVENTS = [
    given.pod_observed("p"),
    given.pod_observed("p", version=2, at=5, **ENDED),
    given.pod_vanished("p", version=3, at=6, deletion=6, **ENDED),
    given.pod_observed("q", version=4, at=7, disrupted=7),
]


def asked(capsys, folder, name):
    make_ledger(folder, EVENTS)
    assert bursar("why", name, "--cluster", given.CLUSTER, "--data", folder, "-o", "json") == 0
    return json.loads(capsys.readouterr().out)


def test_why_says_who_ended_a_pod(capsys, tmp_path):
    (step,) = asked(capsys, tmp_path, "pod/ns/p")

    assert (step["step"], step["about"]) == ("disrupted", "Pod ns/p")
    assert step["reason"] == "DeletionByDeviceTaintManager"
    assert "DeviceTaintRule" in step["numbers"]


def test_why_says_that_a_pod_was_ended_for_a_reason_that_is_not_kept(capsys, tmp_path):
    (step,) = asked(capsys, tmp_path, "ns/q")

    assert (step["reason"], step["numbers"][:17]) == ("", "another component")


def test_each_reason_that_is_kept_has_its_words():
    assert set(WHO) == DISRUPTIONS
