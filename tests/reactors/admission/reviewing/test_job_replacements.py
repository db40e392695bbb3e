"""Pods of a Job that still end beside those that replace them (`podReplacementPolicy: TerminatingOrFailed`, its default)."""

import pytest

from tests.reactors.admission.below import CONTROLLER, ask, begin, owner, show
from tests.reactors.cluster import Cluster

pytestmark = pytest.mark.simulated

BY = {"by": ("Job", "train"), "user": CONTROLLER}


async def ending(cluster, limit):
    """A Job of two pods of 4 cores in a quota of `limit`; the first is deleted and takes a day to end."""
    await cluster.see_quota("team", {"limits.cpu": limit})
    await begin(cluster, "Job", "train", 4, 2)
    for number in range(2):
        await begin(cluster, "Pod", f"train-{number}", 4, **BY)
    await show(cluster, "Pod", "train-0", 4, by=BY["by"], deletion="2026-01-02T00:00:00Z")


async def test_a_job_asks_for_its_old_and_its_new_pod_while_both_hold():
    async with Cluster() as cluster:
        await ending(cluster, 12_000)
        answer = await ask(cluster, "Pod", "train-2", 4, **BY)

        assert (answer.reason, cluster.used()) == ("raised", 12_000)

        await show(cluster, "Pod", "train-2", 4, by=BY["by"])
        await cluster.lose_pod("train-0", owner(*BY["by"]))
        assert cluster.used() == 8000


async def test_where_the_quota_has_no_room_for_both_the_new_pod_waits_for_the_end_of_the_old():
    async with Cluster() as cluster:
        await ending(cluster, 10_000)
        answer = await ask(cluster, "Pod", "train-2", 4, **BY)

        assert (answer.reason, cluster.used()) == ("over-quota", 8000)

        await cluster.lose_pod("train-0", owner(*BY["by"]))
        assert (await ask(cluster, "Pod", "train-2", 4, **BY)).reason == "covered"
