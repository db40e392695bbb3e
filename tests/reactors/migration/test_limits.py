"""Which pods never move, which wait, and the order of those that wait."""

import pytest

from bus.events.migrations import ReserveRoom
from tests.reactors.migration.scene import Moving

pytestmark = pytest.mark.simulated
GANG = {
    "annotations": {
        "gang.scheduling.koordinator.sh/name": "g",
        "gang.scheduling.koordinator.sh/min-available": "2",
    }
}


@pytest.fixture
async def cluster():
    moving = Moving()
    await moving.begin()
    return moving


async def moved(cluster, pod):
    """Phase and reason of a job for a pod, after a few ticks."""
    job = cluster.migrate(pod)
    await cluster.turns(2)
    return cluster.phase(job)


@pytest.mark.parametrize(
    "made",
    [
        {"annotations": {"scheduling.koordinator.sh/eviction-cost": "2147483647"}},
        {"priority": 2_000_000_000},
        GANG,
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]},
        {"resourceClaims": [{"name": "r", "resourceClaimName": "r"}]},
    ],
    ids=["its owner forbids it", "critical", "of a gang", "with a volume", "with devices by claim"],
)
async def test_some_pods_never_move(cluster, made):
    cluster.deployment(**made)
    cluster.deployment("other")
    await cluster.turn()

    assert ("Failed", "ForbiddenMigratePod") == await moved(cluster, "web-0")
    assert ("Running", "") == await moved(cluster, "other-0")


@pytest.mark.parametrize("kind", ["DaemonSet", "StatefulSet"])
async def test_pods_of_a_daemon_set_never_move_and_those_of_a_stateful_set_do(cluster, kind):
    owner = cluster.owned(kind, "own", None, 4)
    for number in range(4):
        cluster.pod(f"own-{number}", owner)
    await cluster.turn()
    expected = {"DaemonSet": ("Failed", "ForbiddenMigratePod"), "StatefulSet": ("Running", "")}

    assert expected[kind] == await moved(cluster, "own-0")


async def test_a_pod_without_a_controller_and_a_single_replica_never_move(cluster):
    cluster.pod("bare")
    cluster.deployment("single", 1)
    await cluster.turn()

    assert ("Failed", "ForbiddenMigratePod") == await moved(cluster, "bare")
    assert ("Failed", "ForbiddenMigratePod") == await moved(cluster, "single-0")


async def test_a_workload_with_a_pod_that_is_not_ready_waits(cluster):
    replicas = cluster.deployment("web", 3)
    cluster.pod("web-2", replicas, ready=False)
    await cluster.turn()
    assert ("", "") == await moved(cluster, "web-0")
    cluster.pod("web-2", replicas)
    await cluster.turn()

    assert ("Running", "") == cluster.phase("move-web-0")


async def test_a_workload_that_scales_or_rolls_out_waits(cluster):
    replicas = cluster.deployment()
    deployment = cluster.api.objects["/apis/apps/v1/namespaces/ns/deployments/web"]
    extra = cluster.pod("web-4", replicas)
    await cluster.turn()
    assert ("", "") == await moved(cluster, "web-0")
    cluster.api.drop("/api/v1/namespaces/ns/pods/web-4")
    newer = cluster.owned("ReplicaSet", "web-2", deployment, 1)
    cluster.api.drop("/api/v1/namespaces/ns/pods/web-3")
    cluster.pod("web-new", newer)
    await cluster.turn()
    assert ("", "") == cluster.phase("move-web-0")
    cluster.api.drop("/api/v1/namespaces/ns/pods/web-new")
    cluster.pod("web-3", replicas)
    await cluster.turn()

    assert ("Running", "") == cluster.phase("move-web-0")
    assert extra["metadata"]["uid"]


async def test_no_more_than_two_pods_of_a_node_move_at_once(cluster):
    for number in range(4):
        cluster.deployment(f"w{number}")
    await cluster.turn()
    jobs = [cluster.migrate(f"w{number}-0") for number in range(4)]
    await cluster.turns(3)

    assert [2, 2] == [[cluster.phase(one)[0] for one in jobs].count(phase) for phase in ("Running", "")]  # fmt: skip


@pytest.mark.parametrize("limit", ["max_migrating_per_namespace", "max_migrating_globally"])
async def test_a_limit_holds_in_its_scope(limit):
    cluster = Moving()
    await cluster.begin(**{limit: 1})
    for name in ("a", "b"):
        cluster.deployment(name, node=f"of-{name}")
    await cluster.turn()
    jobs = [cluster.migrate(f"{name}-0") for name in ("a", "b")]
    await cluster.turns(3)

    assert ["", "Running"] == sorted(cluster.phase(one)[0] for one in jobs)


async def test_two_jobs_of_one_pod_move_it_once(cluster):
    cluster.deployment()
    await cluster.turn()
    jobs = [cluster.migrate("web-0", name) for name in ("first", "second")]
    await cluster.turns(3)

    assert ["", "Running"] == sorted(cluster.phase(one)[0] for one in jobs)
    assert 1 == len(cluster.facts(ReserveRoom))


async def test_the_least_important_pod_is_tried_first(cluster):
    cluster = Moving()
    await cluster.begin(max_migrating_globally=1)
    for name, priority in (("b", 9500), ("a", 5500), ("c", 9500)):
        cluster.deployment(name, priority=priority)
    await cluster.turn()
    jobs = {name: cluster.migrate(f"{name}-0") for name in "bac"}
    await cluster.turns(2)

    assert {"a": "Running", "b": "", "c": ""} == {name: cluster.phase(one)[0] for name, one in jobs.items()}  # fmt: skip


async def test_a_workload_that_becomes_unhealthy_keeps_its_pod(cluster):
    replicas = cluster.deployment("web", 3)
    await cluster.turn()
    job = cluster.migrate("web-0")
    await cluster.turns(2)
    cluster.pod("web-1", replicas, ready=False)
    cluster.place(job, "n2")
    await cluster.turns(3)
    assert [] == cluster.api.evictions
    cluster.pod("web-1", replicas)
    await cluster.turns(2)

    assert ["web-0"] == [pod for pod, _ in cluster.api.evictions]
