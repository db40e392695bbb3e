"""A pod moves: through runner, interlocks and effectors, on an API server in memory."""

import msgspec
import pytest

from bus.errors import ClusterUnavailableError, RequestRefusedError
from bus.events.decisions import Evict
from bus.events.migrations import EndReservation, ReportMigration, ReserveRoom
from reactors.engine.verify import rederive
from reactors.migration.metrics import figures
from reactors.migration.reactor import reactor
from tests.factories import CLUSTER
from tests.reactors.migration.scene import EXPIRED, Moving
from tests.scraping import scraped

pytestmark = pytest.mark.simulated

PDB = ClusterUnavailableError(status=429, message="it would violate the pod's disruption budget")


@pytest.fixture
async def cluster():
    """Four pods of a Deployment run on one node, and bystanders beside them."""
    moving = Moving()
    await moving.begin()
    moving.replicas = moving.deployment()
    moving.deployment("other")
    await moving.turn()
    return moving


async def reserved(cluster, pod="web-0", **spec):
    """A job whose reservation was made."""
    name = cluster.migrate(pod, **spec)
    await cluster.turn()
    return name


async def test_a_pod_is_evicted_once_its_reservation_is_available_on_another_node(cluster):
    job = await reserved(cluster)

    assert (("Running", ""), []) == (cluster.phase(job), cluster.api.evictions)
    await cluster.turns(3)
    assert [] == cluster.api.evictions

    cluster.place(job, "n2")
    await cluster.turn()
    assert [("web-0", [("Available", "n2")])] == cluster.api.evictions
    assert "WaitForPodBindReservation" == cluster.status(job)["reason"]

    new = cluster.pod("web-9", cluster.replicas, "n2")
    cluster.place(job, "n2", "Succeeded", owners=[new])
    await cluster.turn()
    found = cluster.status(job)
    assert (("Succeeded", ""), "Complete", "n2") == (
        cluster.phase(job),
        found["status"],
        found["nodeName"],
    )
    assert {"namespace": "ns", "name": "web-9", "uid": new["metadata"]["uid"]} == found["podRef"]
    assert [
        ("ReservationCreated", "True"), ("ReservationScheduled", "True"), ("Eviction", "True"), ("PodBoundReservation", "True"),
    ] == [(one["type"], one["status"]) for one in found["conditions"]]  # fmt: skip


async def test_what_was_decided_follows_from_the_history_alone(cluster):
    job = await reserved(cluster)
    cluster.place(job, "n2")
    await cluster.turns(2)
    assert {"Running"} == {one.phase for one in cluster.facts(ReportMigration)}

    found = rederive(lambda: cluster.transport.events, (reactor,), CLUSTER)

    assert 1 == len(cluster.facts(Evict))
    assert ((), True) == (found.mismatches, found.same > 2)


async def test_a_reservation_on_the_pods_own_node_ends_the_job_and_goes(cluster):
    job = await reserved(cluster)
    cluster.place(job, "n1")
    await cluster.turns(2)

    assert (("Failed", "ForbiddenMigratePod"), []) == (cluster.phase(job), cluster.api.evictions)
    assert cluster.room(job) is None


@pytest.mark.parametrize(
    ("node", "phase", "conditions", "reason"),
    [
        ("", "Failed", [EXPIRED], "ReservationExpired"),
        ("", "Failed", [{"type": "Scheduled", "status": "False", "reason": "Unschedulable", "message": "none"}], "Unschedulable"),
        ("n2", "Succeeded", [], "ForbiddenMigratePod"),
    ],
    ids=["expired", "unschedulable", "used by another pod"],
)  # fmt: skip
async def test_a_reservation_that_is_over_evicts_nothing(cluster, node, phase, conditions, reason):
    job = await reserved(cluster)
    cluster.place(job, node, phase, conditions)
    await cluster.turns(2)

    assert (("Failed", reason), []) == (cluster.phase(job), cluster.api.evictions)


async def test_a_reservation_that_is_lost_before_the_eviction_keeps_the_pod(cluster):
    job = await reserved(cluster)
    cluster.place(job, "n2")
    await cluster.watch()
    await cluster.tick()
    cluster.place(job, "n2", "Failed", [EXPIRED])
    await cluster.watch()
    await cluster.turns(2)

    assert (("Failed", "ReservationExpired"), []) == (cluster.phase(job), cluster.api.evictions)


async def test_a_timeout_ends_the_job_and_its_reservation(cluster):
    job = await reserved(cluster)
    await cluster.turns(30)

    assert (("Failed", "Timeout"), None) == (cluster.phase(job), cluster.room(job))
    await cluster.turns(31)
    assert {} == cluster.api.of("podmigrationjobs")


async def test_a_reservation_that_vanishes_ends_nothing_before_the_ttl(cluster):
    job = await reserved(cluster)
    cluster.api.drop(cluster.room_path(job))
    await cluster.turns(5)
    assert (("Running", ""), []) == (cluster.phase(job), cluster.api.evictions)
    await cluster.turns(30)

    assert ("Failed", "Timeout") == cluster.phase(job)


async def test_a_refused_reservation_is_tried_again_until_it_is_made(cluster):
    create = cluster.api.create

    async def refused(path, body):
        raise RequestRefusedError(reason="Invalid", message="no")

    cluster.api.create = refused
    job = await reserved(cluster)
    await cluster.turns(2)
    assert ("Running", "FailedCreateReservation") == cluster.phase(job)
    cluster.api.create = create
    await cluster.turns(8)

    assert cluster.room(job) is not None
    assert 2 == len(cluster.facts(ReserveRoom))


async def test_a_disruption_budget_keeps_the_pod_until_it_allows_the_eviction(cluster):
    cluster.api.keeps["web-0"] = PDB
    job = await reserved(cluster, ttl="10m")
    cluster.place(job, "n2")
    await cluster.turns(3)
    assert ("Running", "FailedEvict") == cluster.phase(job)
    cluster.api.keeps.clear()
    await cluster.turns(32)

    assert ["web-0"] == [pod for pod, _ in cluster.api.evictions]


async def test_a_paused_job_takes_no_step(cluster):
    job = await reserved(cluster, paused=True)
    await cluster.turns(3)

    assert ({}, []) == (cluster.status(job), cluster.facts(ReserveRoom))


async def test_an_eviction_without_a_reservation_is_asked_for_by_its_mode(cluster):
    job = await reserved(cluster, mode="EvictDirectly")
    await cluster.turn()

    assert [("web-0", [])] == cluster.api.evictions
    assert ("Succeeded", "") == cluster.phase(job)


async def test_a_pod_that_waits_for_a_node_takes_the_reservation_itself(cluster):
    cluster.pod("web-0", cluster.replicas, "")
    job = await reserved(cluster)
    owner = cluster.room(job)["spec"]["owners"]
    cluster.place(job, "n2")
    await cluster.turn()
    assert ("Running", "Unschedulable") == cluster.phase(job)
    cluster.pod("web-0", cluster.replicas, "n2")
    await cluster.turn()

    assert (("Succeeded", ""), []) == (cluster.phase(job), cluster.api.evictions)
    assert [{"kind", "namespace", "name", "uid"}] == [set(one["object"]) for one in owner]


@pytest.mark.parametrize(
    ("reference", "reason"),
    [({"namespace": "ns"}, "InvalidPodRef"), ({"namespace": "ns", "name": "absent"}, "MissingPod")],
)
async def test_a_job_without_a_pod_fails(cluster, reference, reason):
    job = await reserved(cluster, podRef=reference)
    await cluster.turns(4)

    assert ("Failed", reason) == cluster.phase(job)


async def test_a_job_of_a_pod_that_is_observed_late_moves_it(cluster):
    job = await reserved(cluster, "web-late")
    assert "" == cluster.phase(job)[0]
    replicas = cluster.owned("ReplicaSet", "late-1", None, 4)
    for name in ("web-late", "late-2", "late-3", "late-4"):
        cluster.pod(name, replicas)
    await cluster.turn()

    assert "Running" == cluster.phase(job)[0]


async def test_a_namesake_with_another_uid_is_not_moved(cluster):
    job = await reserved(cluster, podRef={"namespace": "ns", "name": "web-0", "uid": "another"})
    await cluster.turns(4)

    assert (("Failed", "MissingPod"), []) == (cluster.phase(job), cluster.api.evictions)


async def test_shadow_decides_each_step_once_and_does_none():
    cluster = Moving()
    await cluster.begin("shadow")
    cluster.deployment()
    await cluster.turn()
    job = await reserved(cluster)
    await cluster.turns(5)

    assert ({}, {}) == (cluster.status(job), cluster.api.of("reservations"))
    assert [True] == [one.is_shadow for one in cluster.facts(ReserveRoom)]
    assert [("Running", True)] == [(one.phase, one.is_shadow) for one in cluster.facts(ReportMigration)]  # fmt: skip


async def test_nothing_is_decided_while_it_is_off():
    cluster = Moving()
    await cluster.begin("off")
    cluster.deployment()
    job = await reserved(cluster)
    await cluster.turns(3)

    assert ({}, []) == (cluster.status(job), cluster.facts(ReserveRoom))


async def test_a_process_that_starts_from_the_history_goes_on(cluster):
    job = await reserved(cluster)
    cluster.place(job, "n2")
    await cluster.watch()
    cluster.runner = cluster.new_runner(reactor)
    await cluster.read()
    await cluster.turns(2)

    assert ["web-0"] == [pod for pod, _ in cluster.api.evictions]
    assert 1 == len(cluster.facts(ReserveRoom))


async def test_bystanders_are_never_named(cluster):
    job = await reserved(cluster)
    cluster.place(job, "n2")
    await cluster.turns(3)
    new = cluster.pod("web-9", cluster.replicas, "n2")
    cluster.place(job, "n2", "Succeeded", owners=[new])
    await cluster.turns(3)

    assert {"web-0"} == {one.target.name for one in cluster.facts(Evict)}
    assert [] == cluster.facts(EndReservation)
    assert {f"other-{number}" for number in range(4)} <= set(cluster.api.of("pods"))


async def test_the_metrics_count_jobs_by_phase(cluster):
    await reserved(cluster)
    cluster.migrate("absent")
    await cluster.turns(5)
    found = scraped(figures(cluster.runner.replica))

    assert 1 == found['bursar_migrations{phase="Running"}']
    assert 1 == found['bursar_migrations_ended_total{phase="Failed",reason="MissingPod"}']


async def test_a_snapshot_holds_what_was_decided(cluster):
    job = await reserved(cluster)
    cluster.place(job, "n2")
    await cluster.turn()
    saved = cluster.runner.replica.saved()
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(saved), type=type(saved))
    runner = cluster.new_runner(reactor)
    runner.replica.restore(again)

    assert runner.replica.states["migration"].saved() == cluster.runner.replica.states["migration"].saved()  # fmt: skip
