"""A data folder whose ledger knows a small quota tree: lived by the product's own handler and keeper, on a bus in memory."""

from bus.events.pods import Owner
from bus.events.quotas import Budget, Queue
from tests import factories as said
from tests.deploy.ledgers import make_ledger
from tests.reactors.cluster import QUOTA, Cluster
from tests.simulation.loop import simulate

HOUR = 3_600_000
GPU = "limits.nvidia.com/gpu"


def make_quota_ledger(folder, story=None):
    """The folder with the ledger of a story, by default :func:`lived`."""
    return make_ledger(folder, simulate((story or lived)()))


async def lived():
    """``org`` (20 cores, 4 cards) with ``team`` (8, of these 3 of model A4) and ``labs`` (6, mapped from a namespace).

    In ``team``: train holds 5 cores and was seen, wild 1 and was never admitted, big was refused 9, old ended.
    """
    async with Cluster() as cluster:
        await _quotas(cluster)
        await cluster.ask("train", 5)
        await cluster.see("train", 5)
        await cluster.ask("old", 1)
        await cluster.see("old", 1)
        await cluster.lose("old")
        await cluster.see("wild", 1)
        await cluster.ask("big", 9)
        await cluster.see("mapped", 1, quota="", namespace="lab")
        await cluster.see("nobodys", 1, quota="")
        await cluster.see("below", 1, quota="", owner=Owner("Job", "train", "train"))
        pod = said.pod_observed(
            "pod", 1, 36_000, cluster="c1", cpu=2, labels={QUOTA: "team"}, created=0, scheduled=0
        )
        await cluster.transport.publish([pod])
        return cluster.transport.events


async def room():
    """``team`` with 3 of 8 cores left: train holds 5. A raise to 12 is on its way, and another parent was refused."""
    async with Cluster() as cluster:
        await _quotas(cluster)
        await cluster.ask("train", 5)
        await cluster.see("train", 5)
        await cluster.review(_team("12"), old_object=_team("8"), **UPDATE)
        await cluster.review(_team("8", "labs"), old_object=_team("8"), **UPDATE)
        return cluster.transport.events


UPDATE = {
    "operation": "UPDATE", "group": "bursar.io", "version": "v1alpha1",
    "resource": "bizgroupresourcequotas", "kind": "BizGroupResourceQuota",
}  # fmt: skip


def _team(cpu, parent="org"):
    hard = {"limits.cpu": cpu, "limits.cpu.A4": "3", GPU: "2", "cash/limits.cpu": "30"}
    return {
        "apiVersion": "bursar.io/v1alpha1",
        "kind": "BizGroupResourceQuota",
        "metadata": {"name": "team", "uid": "uid-team"},
        "spec": {"parentBizGroup": parent, "hard": hard, "budget": {"period": "Month"}},
    }


async def _quotas(cluster):
    await cluster.see_quota(
        "org", {"limits.cpu": 20_000, GPU: 4}, cash={"limits.cpu": 100 * HOUR},
        budget=Budget("Total"),
    )  # fmt: skip
    await cluster.see_quota(
        "team", {"limits.cpu": 8_000, "limits.cpu.A4": 3_000, GPU: 2}, parent="org",
        cash={"limits.cpu": 30 * HOUR}, budget=Budget("Month"),
    )  # fmt: skip
    await cluster.see_quota(
        "labs", {"limits.cpu": 6_000, GPU: 2}, parent="org", queue=Queue(hold=True)
    )
    spaces = (("lab", {QUOTA: "labs"}), ("ignored", {"bursar.io/admission": "ignore"}))
    await cluster.transport.publish(
        [said.namespace_observed(name, cluster="c1", labels=labels) for name, labels in spaces]
    )


def deployment(name, replicas, cpu, quota="team", namespace="ns", **labels):
    """A Deployment's manifest."""
    container = {"name": "main", "image": "i", "resources": {"limits": {"cpu": cpu}}}
    named = {QUOTA: quota} if quota else {}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": named | labels},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [container]}}},
    }
