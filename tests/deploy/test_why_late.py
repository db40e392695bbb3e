"""`bursar why` of a decision that was stored after its asker had been refused."""

import json

import pytest

from tests.deploy.ledgers import bursar
from tests.deploy.quota_ledger import make_quota_ledger
from tests.reactors.cluster import Cluster, job
from tests.reactors.outages import Away, body, late

pytestmark = pytest.mark.simulated


async def told_late():
    async with Cluster(Away()) as cluster:
        await cluster.see_quota("team", {"limits.cpu": 8000})
        await late(cluster, body(job("a", 7)))
        return cluster.transport.events


def test_why_does_not_say_admitted_of_what_its_asker_was_refused(capsys, tmp_path):
    make_quota_ledger(tmp_path, told_late)
    assert bursar("why", "ns/a", "--data", tmp_path, "-o", "json") == 0
    late_, withdrawn = json.loads(capsys.readouterr().out)

    assert (late_["step"], withdrawn["step"]) == ("late", "withdrawn")
    assert "stored after the answer bursar-unavailable" in late_["numbers"]
    assert "held from now on" not in late_["numbers"]
    assert (withdrawn["reason"], withdrawn["numbers"]) == (
        "unanswered", "held from now on: nothing",
    )  # fmt: skip
