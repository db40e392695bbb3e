"""Jobs that Bursar runs: pods and services once each, replaced by exit code, cleaned up, and a status that says so."""

import pytest

from bus import crashpoints
from bus.errors import PermissionDeniedError, RequestRefusedError
from bus.events.decisions import CreateReplica, EffectSettled
from reactors.engine.policies import Pause
from reactors.engine.verify import rederive
from reactors.jobs.reactor import reactor
from reactors.jobs.shape import INDEX, JOB, OPERATOR, TYPE
from tests.factories import CLUSTER
from tests.reactors.jobs.running import CORE, GROUP, Running, job, killed

LABELS = [
    one
    for one in crashpoints.LABELS
    if one.startswith(("decision.", "effect.", "job.")) and not one.endswith(("_claim", "_group"))
]


async def begun(body=None, ends=None, **policy):
    world = Running(ends)
    await world.begin(**policy)
    await world.submit(body or job())
    await world.turns(2)
    return world


async def ended(world, turns=5):
    world.is_over = True
    await world.turns(turns)
    return world


async def test_a_job_runs_from_its_creation_to_its_success():
    world = await begun()
    assert sorted(world.api.of("pods")) == ["train-worker-0-1", "train-worker-1-1"]
    assert sorted(world.api.of("services")) == ["train-worker-0", "train-worker-1"]
    assert world.conditions() == ["Created", "Running"]

    await ended(world)
    assert world.conditions() == ["Created", "Succeeded"]
    # It would agree with itself.
    assert world.runner.replica.states["jobs"].agreements.counts == {}
    status = world.api.objects[f"{GROUP}/tfjobs/train"]["status"]
    assert status["replicaStatuses"] == {"Worker": {"succeeded": 2}}
    assert status["startTime"] < status["completionTime"]


async def test_a_pod_has_its_template_its_owner_its_decision_and_its_variables():
    world = await begun(job(kind="PyTorchJob", replicas={"Master": (1, ""), "Worker": (1, "")}))
    pod = world.api.of("pods")["train-worker-0-1"]
    (decision,) = [
        one for one in world.decisions(CreateReplica) if one.replica == "train-worker-0-1"
    ]
    (owner,) = pod["metadata"]["ownerReferences"]
    (container,) = pod["spec"]["containers"]
    variables = {one["name"]: one["value"] for one in container["env"]}
    service = world.api.of("services")["train-master-0"]["spec"]

    assert pod["metadata"]["annotations"] == {"bursar.io/made-by": decision.id}
    assert (owner["kind"], owner["controller"]) == ("PyTorchJob", True)
    assert (container["image"], pod["spec"]["restartPolicy"]) == ("x", "OnFailure")
    assert (variables["MASTER_ADDR"], variables["RANK"]) == ("train-master-0", "1")
    assert service["ports"] == [{"name": "pytorchjob-port", "port": 23456}]
    assert service["selector"].items() <= world.api.of("pods")["train-master-0-1"]["metadata"]["labels"].items()  # fmt: skip


@pytest.mark.parametrize(
    ("code", "pods", "last"),
    [(137, ["train-worker-0-1", "train-worker-1-2"], "Succeeded"), (1, None, "Failed")],
    ids=["a killed worker is made again", "an error of the program fails the job"],
)
async def test_an_exit_code_decides_what_becomes_of_a_failed_worker(code, pods, last):
    world = await ended(await begun(ends={"worker-1-1": code}))

    assert world.conditions()[-1] == last
    assert pods in (None, sorted(world.api.of("pods")))


async def test_a_pod_that_somebody_deletes_is_made_again_as_the_next_attempt():
    world = await begun()
    world.api.drop(f"{CORE}/pods/train-worker-0-1")
    await world.watch()
    await world.turns(2)

    assert sorted(world.api.of("pods")) == ["train-worker-0-2", "train-worker-1-1"]


async def test_a_service_that_somebody_deletes_is_made_again_and_its_pod_is_not():
    world = await begun()
    world.api.drop(f"{CORE}/services/train-worker-0")
    await world.watch()
    await world.turns(2)

    assert sorted(world.api.of("services")) == ["train-worker-0", "train-worker-1"]
    assert (world.api.made["services", "train-worker-0"], world.api.made["pods", "train-worker-0-1"]) == (2, 1)  # fmt: skip
    (again,) = [one for one in world.decisions(CreateReplica) if one.reason == "service_missing"]
    assert (again.replica, again.attempt) == ("train-worker-0", 0)


async def test_a_service_that_was_lost_before_it_was_seen_is_made_again_after_one_list():
    world = Running()
    await world.begin()
    await world.submit(job())
    await world.work()
    world.api.drop(f"{CORE}/services/train-worker-0")
    await world.relist_services()
    await world.turns(3)

    assert world.api.made["services", "train-worker-0"] == 2
    assert set(world.api.made[one] for one in world.api.made if one[0] == "pods") == {1}


async def test_who_may_not_follow_services_makes_each_once():
    """A reader of an older version has no right to them."""
    world = Running()
    await world.begin(sees_services=False)
    await world.submit(job())
    await world.turns(40)
    await ended(world)

    assert set(world.api.made.values()) == {1}
    assert world.conditions()[-1] == "Succeeded"


async def test_a_name_that_another_service_has_is_refused_and_rests():
    world = await begun()
    path = f"{CORE}/services/train-worker-0"
    world.api.drop(path)
    world.api.put(path, {"metadata": {"name": "train-worker-0", "namespace": "ns"}})
    await world.watch()
    await world.turns(4)

    tried = [one for one in world.decisions(CreateReplica) if one.reason == "service_missing"]
    (result,) = [one.result for one in world.facts(EffectSettled) if one.decision == tried[0].id]
    assert (result, len(tried)) == ("refused", 1)


async def test_a_pod_that_was_lost_before_it_was_seen_is_made_again_after_one_list():
    world = Running()
    await world.begin()
    await world.submit(job())
    await world.work()
    world.api.drop(f"{CORE}/pods/train-worker-0-1")
    await world.relist()
    await world.tick()
    await world.work()

    assert world.api.made["pods", "train-worker-0-1"] == 2


async def test_a_suspended_job_loses_pods_and_services_and_is_made_anew():
    world = await begun()
    path = f"{GROUP}/tfjobs/train"
    body = world.api.objects[path]
    body["spec"]["runPolicy"]["suspend"] = True
    world.api.put(path, body)
    await world.watch()
    await world.turns(2)
    assert (world.api.of("pods"), world.api.of("services")) == ({}, {})
    assert world.conditions() == ["Created", "Suspended"]

    body = world.api.objects[path]
    body["spec"]["runPolicy"]["suspend"] = False
    world.api.put(path, body)
    await world.watch()
    await ended(world)
    assert world.conditions()[-1] == "Succeeded"


async def test_what_the_api_server_refuses_rests_and_is_tried_again():
    world = Running()
    world.api.refuses = PermissionDeniedError(message="exceeded quota: team")
    await world.begin()
    await world.submit(job())
    await world.turns(5)
    assert len(world.decisions(CreateReplica)) == 2

    world.api.refuses = None
    await world.turns(5)
    assert sorted(world.api.of("pods")) == ["train-worker-0-1", "train-worker-1-1"]


@pytest.mark.parametrize(
    ("body", "runs", "pods"),
    [
        (job(marked=False), "marked", 0), (job(marked=False), "all", 2), (job(), "marked", 2),
        (job(marked=False, managedBy="kueue.x-k8s.io/multikueue"), "all", 0),
        (job(marked=False, managedBy="kubeflow.org/training-operator"), "all", 0),
    ],
    ids=["marks nobody", "marks nobody, and all are run", "marked", "another's", "the operator's"],
)  # fmt: skip
async def test_only_jobs_are_run_that_are_left_to_bursar(body, runs, pods):
    world = await begun(body, runs=runs)

    assert len(world.api.of("pods")) == pods


async def test_a_job_of_which_an_operator_makes_pods_is_left_to_it():
    world = await begun(job(marked=False), runs="all")
    pod = world.api.of("pods")["train-worker-0-1"]
    world.clock.after(1)
    world.api.put(f"{CORE}/pods/train-worker-0", pod | {"metadata": pod["metadata"] | {"name": "train-worker-0"}})  # fmt: skip
    await world.watch()
    world.api.drop(f"{CORE}/pods/train-worker-1-1")
    await world.watch()
    await world.tick()
    await world.work()

    assert sorted(world.api.of("pods")) == ["train-worker-0", "train-worker-0-1"]


async def test_pods_that_an_operator_left_behind_are_taken_over():
    world = Running()
    await world.begin("off")
    await world.submit(job())
    uid = world.api.objects[f"{GROUP}/tfjobs/train"]["metadata"]["uid"]
    labels = {OPERATOR: "tfjob-controller", JOB: "train", TYPE: "worker", INDEX: "0"}
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "train", "uid": uid}
    metadata = {
        "name": "train-worker-0", "namespace": "ns", "labels": labels,
        "ownerReferences": [owner | {"controller": True}],
    }  # fmt: skip
    body = {"metadata": metadata, "spec": {"containers": [{"name": "tensorflow"}]}}
    world.api.put(f"{CORE}/pods/train-worker-0", body)
    await world.watch()
    world.clock.after(10)
    await world.begin()
    await world.turns(3)

    assert sorted(world.api.of("pods")) == ["train-worker-0", "train-worker-1-1"]


async def test_of_two_attempts_at_one_slot_the_earlier_is_deleted():
    """As a paused process may make one after its successor did."""
    world = await begun()
    body = world.api.of("pods")["train-worker-0-1"]
    world.api.drop(f"{CORE}/pods/train-worker-0-1")
    await world.watch()
    await world.turns(2)
    del body["metadata"]["uid"]
    world.api.put(f"{CORE}/pods/train-worker-0-1", body)
    await world.watch()
    await world.tick()
    await world.work()

    assert sorted(world.api.of("pods")) == ["train-worker-0-2", "train-worker-1-1"]
    assert "train-worker-0" in world.api.of("services")


async def test_a_name_that_belongs_to_somebody_else_is_refused():
    world = Running()
    await world.begin()
    body = {"metadata": {"name": "train-worker-0-1", "namespace": "ns"}, "spec": {"containers": []}}
    await world.submit(job())
    # Made after the decision: nobody could know of it.
    world.api.put(f"{CORE}/pods/train-worker-0-1", body)
    await world.work()

    assert ("refused", "the pod train-worker-0-1 belongs to another object") in world.outcomes()


SECRETS = (
    '"s3cret\\"x": must not have spaces', "{key: a, s3cret: b}", "`a: s3cret`: no", "[a: s3cret]\ns3cret",
)  # fmt: skip


@pytest.mark.parametrize("words", SECRETS)
@pytest.mark.parametrize("error", [RequestRefusedError, PermissionDeniedError])
async def test_what_the_api_server_repeats_of_a_template_is_left_out_of_the_history(words, error):
    world = Running()
    message = f"spec.containers[0].image: Invalid value: {words}"
    world.api.refuses = error(request="create pods", message=message)
    await world.begin()
    await world.submit(job())
    await world.work()
    found = str(world.outcomes())

    assert "image: Invalid value: …" in found
    assert "cret" not in found


async def test_a_pause_holds_every_step():
    world = Running()
    await world.begin()
    world.runner.replica.policies.pause = Pause("ops", 0, "")
    await world.submit(job())
    await world.turns(2)

    assert (world.api.of("pods"), world.decisions(CreateReplica)) == ({}, [])


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("label", LABELS)
async def test_killed_at_every_label_no_pod_is_made_twice_and_none_is_left_behind(label, times):
    """A worker is killed and made again, the job succeeds, loses its pods, and is deleted."""
    world = Running({"worker-1-1": 137})
    await world.begin()
    await world.submit(job(cleanPodPolicy="All", ttlSecondsAfterFinished=20))
    died = await killed(world, label, times, 16)

    assert died or (label, times) in {("job.before_end", 2), ("job.after_end", 2)}
    # Events stay for their hour.
    assert [path for path in world.api.objects if "/events/" not in path] == []
    assert world.api.made["pods", "train-worker-1-2"] == 1
    assert set(world.api.made.values()) == {1}


async def test_every_decision_is_derived_again_from_the_history():
    world = await ended(await begun(job(ttlSecondsAfterFinished=20), {"worker-1-1": 137}), 8)
    found = rederive(lambda: iter(world.transport.events), [reactor], CLUSTER)

    assert (found.mismatches, found.passed_over) == ((), 0)
    assert found.same > 6


async def test_a_job_costs_few_writes():
    """Its pods and services once each, a status at each change that says more than counts, and an Event of its end."""
    world = await ended(await begun(job(replicas={"Worker": (8, "")})))

    assert {"pods": 8, "services": 8, "status": 3, "events": 1} == dict(world.api.writes)


@pytest.mark.parametrize(
    ("policy", "least"), [({}, "3"), ({"minAvailable": 2}, "2"), ({"minAvailable": 9}, "3")]
)  # fmt: skip
async def test_the_pods_of_a_job_that_asks_for_it_are_a_gang_for_the_scheduler(policy, least):
    world = Running()
    await world.begin()
    await world.submit(job(replicas={"Worker": (3, "Never")}, schedulingPolicy=policy))
    await world.turn()

    pods = world.runner.replica.cluster_state.pods.values()
    terms = {(p.constraints.gang.name, p.constraints.gang.is_light, p.constraints.gang.least) for p in pods}  # fmt: skip
    assert (len(pods), terms) == (3, {("train", True, least)})


@pytest.mark.parametrize(
    "template",
    [
        {"metadata": {"annotations": {"gang.scheduling.koordinator.sh/name": "own"}}},
        {"metadata": {"labels": {"pod-group.scheduling.sigs.k8s.io": "own"}}},
        {"spec": {"schedulingGroup": {"podGroupName": "own"}}},
    ],
    ids=["annotation", "label", "field"],
)
async def test_a_template_that_names_a_gang_itself_is_left_as_it_is(template):
    world, body = Running(), job(schedulingPolicy={})
    found = body["spec"]["tfReplicaSpecs"]["Worker"]["template"]
    body["spec"]["tfReplicaSpecs"]["Worker"]["template"] = {
        part: {**found.get(part, {}), **template.get(part, {})} for part in ("metadata", "spec")
    }
    await world.begin()
    await world.submit(body)
    await world.turn()

    pods = world.api.of("pods").values()
    assert len(pods) == 2 and not any(
        "gang.scheduling.koordinator.sh/min-available" in one["metadata"]["annotations"] for one in pods
    )  # fmt: skip


async def test_a_job_without_a_scheduling_policy_is_no_gang():
    world = Running()
    await world.begin()
    await world.submit(job())
    await world.turn()

    assert not any(
        "gang" in str(one["metadata"]["annotations"]) for one in world.api.of("pods").values()
    )


async def test_a_waiting_gang_that_is_made_smaller_says_so_after_a_pause():
    world, path = Running(), f"{GROUP}/tfjobs/train"
    await world.begin()

    async def is_now(**policy):
        world.api.put(
            path,
            job(schedulingPolicy={}, **policy)
            | {"status": world.api.objects.get(path, {}).get("status", {})},
        )
        await world.watch()
        for _ in range(3):
            await world.work()
            await world.watch()
            await world.tick()
        pods = world.api.of("pods").values()
        return [
            one["metadata"]["annotations"]["gang.scheduling.koordinator.sh/min-available"]
            for one in pods
        ]

    three = {"replicas": {"Worker": (3, "Never")}}
    two = {"replicas": {"Worker": (2, "Never")}}
    assert await is_now(**three) == ["3"] * 3
    assert await is_now(**two) == ["3"] * 2
    assert await is_now(**two, suspend=True) == []
    assert await is_now(**two) == ["2"] * 2
