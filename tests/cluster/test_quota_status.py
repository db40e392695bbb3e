"""A quota's status on a real API server: what `kubectl get` shows, and whose status is left alone."""

import pytest

from bus.clock import SystemClock
from bus.events.budgets import BudgetJudged
from bus.kube.client import Access, connect
from bus.kube.crds.quotas import PATH
from bus.memory import MemoryTransport
from projections.cluster import ClusterState
from projections.quota_trees.forest import QuotaTrees
from reactors.budgets.notices import BudgetNotices
from reactors.budgets.state import BudgetState
from reactors.effectors.quota_status import BizGroupStatus, Condition, StatusWriter
from tests.cluster.quotas import installed, name, quota

pytestmark = pytest.mark.kube

__all__ = ["installed", "name"]


@pytest.fixture
async def cluster(installed):
    opened = await connect(Access(str(installed.kubeconfig)))
    yield opened
    await opened.close()


def status(name, uid, **fields):
    return BizGroupStatus(
        name=name,
        uid=uid,
        hard={"limits.cpu": 10_000},
        used={"limits.cpu": 4_000},
        budget_left={"limits.cpu": 5_400_000},
        exhausts_s=86_400,
        conditions=(Condition("Exhausted", "False", 0),),
        moment_s=60,
        observed_sequence=7,
        **fields,
    )


async def test_kubectl_shows_what_the_ledger_knows(installed, cluster, name):
    installed.kubectl("apply", "-f", "-", input=quota(name, hard={"limits.cpu": 10}))
    before = await cluster.get(f"{PATH}/{name}")
    outcome = await StatusWriter(cluster).write(status(name, before["metadata"]["uid"]))
    after = await cluster.get(f"{PATH}/{name}")
    heading, line = installed.kubectl("get", "bgrq", name).splitlines()

    assert outcome.result == "written"
    assert heading.split() == ["NAME", "PARENT", "USED", "HARD", "BUDGET-LEFT", "EXHAUSTS-AT"]
    assert line.split() == [
        name, "limits.cpu:", "4", "limits.cpu:", "10", "limits.cpu:", "1.5", "1970-01-02T00:00:00Z",
    ]  # fmt: skip
    assert (after["spec"], after["metadata"]["generation"]) == (before["spec"], 1)
    assert after["status"]["observedSequence"] == 7


async def test_a_key_that_is_gone_from_the_ledger_is_gone_from_the_status(installed, cluster, name):
    installed.kubectl("apply", "-f", "-", input=quota(name))
    uid = (await cluster.get(f"{PATH}/{name}"))["metadata"]["uid"]
    writes = StatusWriter(cluster)
    await writes.write(status(name, uid, self_used={"limits.cpu": 1_000}))
    await writes.write(status(name, uid))

    assert (await cluster.get(f"{PATH}/{name}"))["status"]["selfUsed"] == {}


async def test_a_namesake_is_left_alone(installed, cluster, name):
    installed.kubectl("apply", "-f", "-", input=quota(name))
    outcome = await StatusWriter(cluster).write(
        status(name, "00000000-0000-0000-0000-000000000000")
    )

    assert outcome.result == "gone"
    assert "status" not in await cluster.get(f"{PATH}/{name}")


async def test_a_quota_that_is_gone_is_not_made_again(installed, cluster, namespace):
    outcome = await StatusWriter(cluster).write(status(namespace, "u"))

    assert outcome.result == "gone"
    assert namespace not in installed.kubectl("get", "bgrq")


async def test_a_spent_budget_is_an_event_that_kubectl_describe_shows(installed, cluster, name):
    installed.kubectl("apply", "-f", "-", input=quota(name, hard={"limits.cpu": 10}))
    uid = (await cluster.get(f"{PATH}/{name}"))["metadata"]["uid"]
    transport = MemoryTransport()
    state = BudgetState(ClusterState(), QuotaTrees())
    notices = BudgetNotices(cluster, transport, SystemClock(), state, name="c1", instance="node")
    now_us = SystemClock().now_us()
    fact = BudgetJudged(
        quota=name, key="limits.cpu", phase="Exhausted", at_s=now_us // 10**6,
        exhausted_s=now_us // 10**6, period_start_s=0, spent=3_600_000, limit=3_600_000,
        rule="DenyNew", based_on=1,
    )  # fmt: skip
    id = f"budget.judged/{name}"
    event = fact.event(cluster="c1", key=name, id=id, source="keeper", time_us=now_us)
    state.apply(fact, event)
    await notices.round({name: uid})
    shown = installed.kubectl("describe", "bgrq", name)

    assert "BudgetExhausted" in shown
    assert "1 of 1 hours of limits.cpu are spent" in shown
