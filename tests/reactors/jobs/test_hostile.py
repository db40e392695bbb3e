"""Jobs as a user may write them by mistake or on purpose: none ends the process, none takes what is another's."""

import itertools

import pytest

from bus.errors import NotFoundError, RequestRefusedError
from bus.events.decisions import CreateReplica, DeleteReplica, EffectSettled
from reactors.engine.replica import MOST
from reactors.jobs.shape import INDEX
from tests.reactors.jobs.running import CORE, GROUP, Running, job

TRAIN = f"{GROUP}/tfjobs/train"


async def begun(*bodies, mode="on", turns=2, **policy):
    world = Running()
    await world.begin(mode, **policy)
    for body in bodies:
        await world.submit(body)
    await world.turns(turns)
    return world


def settled(world):
    """What became of the pods that were to be made."""
    creations = {one.id for one in world.decisions(CreateReplica)}
    facts = world.facts(EffectSettled)
    return {(one.result, one.message) for one in facts if one.decision in creations}


async def changed(world, change):
    """Its user edits the job."""
    body = world.api.objects[TRAIN]
    change(body)
    world.clock.after(1)
    world.api.put(TRAIN, body)
    await world.watch()


@pytest.mark.parametrize("mode", ["shadow", "on"])
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (job("a" * 253), "invalid_name"),
        (job("a" * 62 + "." + "b" * 62), "invalid_name"),
        (job("1st"), "invalid_name"),
        (job("bad", replicas={"Wor\x07ker": (1, "")}), "invalid_name"),
        (job("bad", replicas={"é" * 253: (1, "")}), "invalid_name"),
        (job("bad", replicas={"Worker": (1, ""), "worker": (1, "Never")}), "doubled_type"),
        (job("bad", replicas={"a/b": (1, ""), "a-b": (1, "Never")}), "doubled_type"),
    ],
    ids=["long name", "dots", "digit first", "control", "long type", "case", "slash"],
)
async def test_a_job_whose_pods_cannot_be_named_is_let_alone(body, reason, mode):
    marked = mode == "on"
    body["spec"]["runPolicy"] = {"managedBy": "bursar.io/jobs"} if marked else {}
    world = await begun(body, job(marked=marked), mode=mode)
    state = world.runner.replica.states["jobs"]
    (uid,) = [uid for uid, one in state.jobs.items() if one.job.name == body["metadata"]["name"]]

    made = {one.target.name for one in world.decisions(CreateReplica)}
    assert made == {"train"}
    policy = world.runner.replica.policies.of("jobs").policy
    assert (
        policy.reconciled(state.jobs[uid].as_reported, state.seen(uid), 0, mode).skipped == reason
    )


TEMPLATES = {
    "metadata": {"metadata": "x"},
    "labels": {"metadata": {"labels": "abc"}},
    "annotations": {"metadata": {"annotations": ["a"]}},
    "env": {"spec": {"containers": [{"name": "tensorflow", "env": "ab"}]}},
    "variable": {"spec": {"containers": [{"name": "tensorflow", "env": ["a"]}]}},
    "init": {"spec": {"initContainers": ["a"], "containers": [{"name": "tensorflow"}]}},
}


@pytest.mark.parametrize("name", TEMPLATES)
async def test_a_template_that_is_none_is_refused_and_its_job_goes_on(name):
    body = job()
    body["spec"]["tfReplicaSpecs"]["Worker"]["template"] |= TEMPLATES[name]
    world = await begun(body, job("other"))

    refused = [said for result, said in world.outcomes() if result == "refused"]
    assert len(refused) == 2
    assert all("template" in said for said in refused)
    assert {name.rpartition("-")[0] for name in world.api.of("pods")} == {"other-worker-0", "other-worker-1"}  # fmt: skip
    assert world.conditions() == ["Created"]


async def test_a_job_that_grows_without_bounds_before_its_pod_is_made_gets_none():
    world = Running()
    await world.begin()
    await world.submit(job(replicas={"Worker": (2, ""), "PS": (1, "")}))
    body = world.api.objects[TRAIN]
    body["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] = 2**31 - 1
    world.api.put(TRAIN, body)
    await world.work()

    assert settled(world) == {("stale", "the job asks for too many pods")}
    assert (world.api.of("pods"), world.api.of("services")) == ({}, {})


def _grown(body):
    body["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] = 2**31 - 1


@pytest.mark.parametrize("marked", [True, False], ids=["on", "shadow"])
async def test_a_job_that_is_too_large_makes_no_pods_and_is_suspended_all_the_same(marked):
    world = await begun(job(marked=marked), mode="on" if marked else "shadow")
    before = len(world.decisions(CreateReplica))
    await changed(world, _grown)
    await world.turns(2)
    assert len(world.decisions(CreateReplica)) == before

    if marked:
        await changed(world, lambda body: body["spec"]["runPolicy"].update(suspend=True))
        await world.turns(2)
        assert world.api.of("pods") == {}
        assert world.conditions() == ["Created", "Suspended"]


async def test_a_job_that_is_too_large_fails_at_its_deadline():
    world = await begun(job(activeDeadlineSeconds=60))
    await changed(world, _grown)
    await world.turns(8)

    assert world.conditions()[-1] == "Failed"
    assert {one.reason for one in world.decisions(DeleteReplica)} == {"limit_reached"}


async def relabelled(world, change):
    """Before Bursar's own pod is made there is one of its name that the job controls, and that is changed."""
    made = Running()
    await made.begin()
    await made.submit(job(replicas={"Worker": (1, "")}))
    await made.work()
    await world.submit(job(replicas={"Worker": (1, "")}))
    pod = made.api.of("pods")["train-worker-0-1"]
    (owner,) = pod["metadata"]["ownerReferences"]
    owner["uid"] = world.api.objects[TRAIN]["metadata"]["uid"]
    change(pod["metadata"])
    world.api.put(f"{CORE}/pods/train-worker-0-1", pod)
    await world.work()


async def test_a_pod_of_the_job_in_another_place_is_not_taken_for_the_one_that_is_made():
    world = Running()
    await world.begin()
    await relabelled(world, lambda metadata: metadata["labels"].update({INDEX: "7"}))

    assert settled(world) == {
        ("refused", "the pod train-worker-0-1 is in another place of the job")
    }


async def test_a_pod_that_is_being_deleted_is_waited_for():
    world = Running()
    await world.begin()
    stamp = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    await relabelled(world, lambda metadata: metadata.update(stamp))

    assert settled(world) == set()


async def test_a_pod_that_is_gone_after_its_name_was_taken_is_tried_again():
    world = Running()
    await world.begin()
    get = world.api.get

    async def gone(path):
        if "/pods/" in path:
            raise NotFoundError(message=path)
        return await get(path)

    world.api.get = gone
    await relabelled(world, lambda metadata: None)

    assert settled(world) == set()


async def test_what_is_refused_again_rests_twice_as_long_up_to_ten_minutes():
    world = Running()
    world.api.refuses = RequestRefusedError(request="create pods", message="no")
    await world.begin()
    await world.submit(job())
    await world.turns(160)
    at_s = sorted({one.at_us // 10**6 for one in world.decisions(CreateReplica)})
    assert [-(-(later - at) // 60) for at, later in itertools.pairwise(at_s)][:5] == [
        1,
        2,
        4,
        8,
        10,
    ]

    world.api.refuses = None
    await world.turns(62)
    assert len(world.api.of("pods")) == 2


async def test_a_job_of_very_many_pods_leaves_the_first_steps_of_others_to_them():
    world = Running()
    await world.begin("off")
    await world.submit(job("large", replicas={"Worker": (2000, "")}))
    await world.submit(job("small"))
    await world.begin()
    await world.tick()

    made = [one.target.name for one in world.decisions(CreateReplica)]
    assert (len(made) <= MOST, made.count("small")) == (True, 2)


async def test_attempts_are_counted_for_the_slots_of_the_job_alone():
    world = await begun(job(replicas={"Worker": (1, "")}))
    pod = world.api.of("pods")["train-worker-0-1"]
    for index in ("7", "00", "x", "9" * 60):
        name = f"train-worker-{index}-3"
        labels = pod["metadata"]["labels"] | {INDEX: index}
        body = pod | {"metadata": pod["metadata"] | {"name": name, "labels": labels}}
        world.clock.after(1)
        world.api.put(f"{CORE}/pods/{name}", body)
        await world.watch()

    (tracked,) = world.runner.replica.states["jobs"].jobs.values()
    assert tracked.attempts == {"train-worker-0": 1}
