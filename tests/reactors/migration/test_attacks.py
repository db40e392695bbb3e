"""Odd PodMigrationJobs, tenants and kills: no job stops another one, moves a pod without its job, or takes a room away."""

import pytest

from bus.errors import ClusterUnavailableError, RequestRefusedError
from bus.events.decisions import Evict
from bus.events.migrations import ReserveRoom
from reactors.migration import decide
from reactors.migration.reactor import reactor
from reactors.migration.settings import MigrationPolicy
from tests.reactors.migration.scene import API, CORE, FAST, JOBS, ROOMS, Moving

pytestmark = pytest.mark.simulated

PDB = ClusterUnavailableError(status=429, message="it would violate the pod's disruption budget")
NODE_TERMS = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [None]}}


@pytest.fixture
async def cluster():
    moving = Moving()
    await moving.begin()
    moving.replicas = moving.deployment()
    moving.deployment("other")
    await moving.turn()
    return moving


def foreign(name, owner):
    """A Reservation of somebody else, Available on another node."""
    spec = {"owners": [owner], "allocateOnce": True, "template": {"spec": {"containers": []}}}
    status = {"phase": "Available", "nodeName": "n2"}
    return {"apiVersion": API, "kind": "Reservation", "metadata": {"name": name}, "spec": spec, "status": status}  # fmt: skip


@pytest.mark.parametrize(
    "template",
    [
        "x", {"metadata": []}, {"metadata": {"labels": ["a"]}}, {"spec": {"ttl": 5}}, {"spec": {"owners": ["x"]}},
        {"spec": {"template": {"spec": {"affinity": []}}}},
        {"spec": {"template": {"spec": {"affinity": {"nodeAffinity": NODE_TERMS}}}}},
    ],
    ids=str,
)  # fmt: skip
async def test_a_template_of_another_form_is_refused_in_words_and_stops_no_other_job(cluster, template):  # fmt: skip
    job = cluster.migrate("web-0", reservationOptions={"template": template})
    bystander = cluster.migrate("other-0")
    await cluster.turns(3)

    (created,) = cluster.status(job)["conditions"]
    assert ("FailedCreateReservation", "False") == (created["reason"], created["status"])
    assert "spec.reservationOptions.template" in created["message"]
    assert cluster.room(bystander) is not None


async def test_a_template_with_empty_parts_is_completed_from_the_pod(cluster):
    job = cluster.migrate("web-0", reservationOptions={"template": {"spec": {"template": {"spec": None}}}})  # fmt: skip
    await cluster.turns(2)

    assert cluster.room(job)["spec"]["owners"][0]["controller"]["name"] == "web-1"


async def test_two_jobs_of_one_pod_both_hear_the_outcome_of_its_eviction(cluster):
    first = cluster.migrate("web-0", ttl="20m")
    await cluster.turn()
    cluster.migrate("web-0", "second", ttl="20m")
    await cluster.turn()
    cluster.api.keeps["web-0"] = PDB
    cluster.place(first, "n2")
    await cluster.turns(3)
    assert "FailedEvict" == cluster.status(first)["reason"]

    cluster.api.keeps.clear()
    await cluster.turns(60)
    assert ["web-0"] == [pod for pod, _ in cluster.api.evictions]
    assert cluster.room(first) is not None


async def test_no_pod_is_evicted_for_a_job_that_was_deleted_while_migrations_were_off(cluster):
    for pod in ("web-1", "web-3"):
        cluster.pod(pod, cluster.replicas, ready=False)
    job = cluster.migrate("web-0", mode="EvictDirectly", ttl="1h")
    await cluster.turns(2)
    await cluster.set_policy(MigrationPolicy(pace=FAST), "off")
    cluster.api.drop(f"{JOBS}/{job}")
    # PodMigrationJobs are not followed while migrations are off.
    cluster.api.changes = [one for one in cluster.api.changes if "podmigrationjobs" not in one[1]]
    for pod in ("web-1", "web-3"):
        cluster.pod(pod, cluster.replicas)
    await cluster.turns(2)
    await cluster.set_policy(MigrationPolicy(pace=FAST), "on")
    await cluster.turns(3)
    await cluster.list_jobs()
    await cluster.turns(3)

    assert ([], []) == (cluster.api.evictions, cluster.facts(Evict))


async def test_a_foreign_reservation_with_the_name_of_a_job_is_neither_used_nor_deleted(cluster):
    for pod in ("web-1", "web-3"):
        cluster.pod(pod, cluster.replicas, ready=False)
    job = cluster.migrate("web-0")
    await cluster.turn()
    path = f"{ROOMS}/{cluster.job(job)['metadata']['uid']}"
    owner = {"labelSelector": {"matchLabels": {"app": "theirs"}}}
    cluster.api.put(path, foreign(path.rpartition("/")[2], owner))
    await cluster.turn()
    for pod in ("web-1", "web-3"):
        cluster.pod(pod, cluster.replicas)
    await cluster.turns(3)
    message = cluster.status(job)["conditions"][0]["message"]
    assert "belongs to another object" in message
    await cluster.turns(32)

    assert ("Failed", "Timeout") == cluster.phase(job)
    assert path in cluster.api.objects and [] == cluster.api.evictions


@pytest.mark.parametrize("changed", [False, True], ids=["same policy", "another policy"])
async def test_a_kill_after_the_eviction_keeps_the_room_of_the_pod(cluster, changed):
    job = cluster.migrate("web-0")
    await cluster.turn()
    cluster.place(job, "n2")
    await cluster.watch()
    await cluster.tick()
    (evict,) = cluster.facts(Evict)
    await cluster.api.evict("ns", "web-0", uid=evict.target.uid)
    cluster.runner = cluster.new_runner(reactor)
    await cluster.read()
    if changed:
        await cluster.set_policy(MigrationPolicy(pace=FAST, max_migrating_per_node=3))
    await cluster.turns(4)

    assert "Running" == cluster.phase(job)[0] and cluster.room(job) is not None


@pytest.mark.parametrize(
    "part",
    [
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]},
        {"resourceClaims": [{"name": "r", "resourceClaimName": "r"}]},
    ],
    ids=["volume", "device"],
)
async def test_a_pod_whose_terms_are_too_large_to_be_recorded_never_moves(part):
    cluster = Moving()
    await cluster.begin()
    terms = [
        {"matchExpressions": [{"key": f"k{n}", "operator": "In", "values": ["x" * 60] * 20}]} for n in range(100)
    ]  # fmt: skip
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    cluster.deployment(affinity={"nodeAffinity": rule}, **part)
    job = cluster.migrate("web-0", mode="EvictDirectly")
    await cluster.turns(2)

    assert (("Failed", "ForbiddenMigratePod"), []) == (cluster.phase(job), cluster.api.evictions)


async def test_a_pod_that_opts_out_never_moves(cluster):
    cluster.deployment("kept", annotations={"bursar.io/do-not-move": "true"})
    job = cluster.migrate("kept-0")
    await cluster.turns(2)

    assert ("Failed", "ForbiddenMigratePod") == cluster.phase(job)


async def test_a_pod_in_deletion_is_reserved_nothing_and_its_job_says_so(cluster):
    cluster.pod("web-9", cluster.replicas)
    body = cluster.api.objects[f"{CORE}/pods/web-0"]
    body["metadata"] |= {"deletionTimestamp": "2025-10-26T08:00:00Z", "finalizers": ["x"]}
    cluster.api.put(f"{CORE}/pods/web-0", body)
    job = cluster.migrate("web-0", ttl="100h")
    await cluster.turns(30)

    assert "being deleted" in cluster.status(job)["conditions"][0]["message"]
    assert 5 > len(cluster.facts(ReserveRoom))


async def test_without_koordinators_kinds_the_job_names_them(cluster):
    cluster.api.lacks = (ROOMS,)
    job = cluster.migrate("web-0")
    await cluster.turns(3)

    assert "no Reservations" in cluster.status(job)["conditions"][0]["message"]


async def test_a_pod_of_another_namespace_cannot_stop_the_moves_of_a_workload(cluster):
    reference = cluster.reference(cluster.replicas)
    metadata = {"name": "evil", "namespace": "evil", "ownerReferences": [reference]}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}
    spec = {"nodeName": "n5", "containers": [{"name": "c", "image": "x"}]}
    cluster.api.put("/api/v1/namespaces/evil/pods/evil", {"metadata": metadata, "spec": spec, "status": status})  # fmt: skip
    job = cluster.migrate("web-0")
    await cluster.turns(2)

    assert "Running" == cluster.phase(job)[0]


async def test_a_change_of_a_waiting_job_looks_at_no_other_job(cluster, monkeypatch):
    """Jobs are counted on ticks, and where a running job changed."""
    for number in range(20):
        cluster.migrate(f"web-{number % 4}", f"j{number}", ttl="5h")
    counted = []
    monkeypatch.setattr(decide, "Migrating", lambda *parts: counted.append(parts))
    await cluster.watch()

    assert [] == counted and 20 == len(cluster.runner.replica.states["migration"].tracked)


async def test_a_refused_reservation_repeats_no_value_of_its_template(cluster):
    """The API server repeats values in its words, and outcomes go into the history."""
    words = 'spec.template: Invalid value: "sesame": no'
    cluster.api.refuses = RequestRefusedError(reason="Invalid", message=words)
    job = cluster.migrate("web-0")
    await cluster.turns(2)

    (created,) = cluster.status(job)["conditions"]
    assert "Invalid value: …" in created["message"]
    assert not any("sesame" in str(event) for event in cluster.transport.events)
