"""PodGroups of jobs that Bursar runs: made before the pods, which wait for them, kept as the job asks for, and ended with it."""

import pytest

from bus.events.decisions import CreateReplica, EffectSettled, EndPodGroup, KeepPodGroup
from bus.events.pods import NATIVE, PLUGINS, VOLCANO
from reactors.jobs.settings import JobsPolicy
from reactors.jobs.shape import JOB
from tests.factories import objects_listed
from tests.reactors.jobs.running import CORE, GROUP, Running, job, killed

PATHS = {
    "volcano": "/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups",
    "plugins": "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/ns/podgroups",
    "kube-scheduler": "/apis/scheduling.k8s.io/v1alpha2/namespaces/ns/podgroups",
}
#: Release 1.36 serves them as v1alpha2 alone.
NEWER = "/apis/scheduling.k8s.io/v1beta1/"
BOTH = ["train-worker-0-1", "train-worker-1-1"]


class World(Running):
    """With a scheduler that starts pods together."""

    def __init__(self, scheduler, ends=None):
        super().__init__(ends)
        self.path, self.scheduler = f"{PATHS[scheduler]}/train", scheduler
        self.api.lacks = (NEWER,)

    async def start(self, body=None, turns=2):
        await self.begin(gang_scheduler=self.scheduler)
        await self.submit(body or job())
        await self.turns(turns)
        return self

    @property
    def group(self):
        return self.api.objects.get(self.path)

    async def says(self, **fields):
        """Somebody changes the PodGroup."""
        self.clock.after(1)
        self.api.put(
            self.path,
            self.group | {part: self.group.get(part, {}) | one for part, one in fields.items()},
        )
        await self.watch()

    async def drops(self):
        self.clock.after(1)
        self.api.drop(self.path)
        await self.watch()

    @property
    def pods(self):
        return sorted(self.api.of("pods"))

    def uid(self, name="train"):
        return self.api.objects[f"{GROUP}/tfjobs/{name}"]["metadata"]["uid"]

    def refusals(self):
        """What the API server said against the PodGroup."""
        kept = {one.id for one in self.decisions(KeepPodGroup)}
        told = [one for one in self.facts(EffectSettled) if one.decision in kept]
        return [one.message for one in told if one.result == "refused"]


async def test_pods_are_made_when_the_gang_may_start():
    """Volcano's says so: while its phase is Pending, or empty, there is no room for the gang."""
    world = await World("volcano").start(turns=4)
    assert (world.group["spec"], world.pods) == (
        {"minMember": 2, "minResources": {"cpu": "2"}, "queue": "default"}, [],
    )  # fmt: skip
    await world.says(status={"phase": "Pending"})
    await world.turns(3)
    assert (world.pods, world.api.of("services")) == ([], {})

    await world.says(status={"phase": "Inqueue"})
    await world.turns(1)
    assert world.pods == BOTH
    pod = world.api.of("pods")["train-worker-0-1"]
    assert pod["spec"]["schedulerName"] == "volcano"
    assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "train"
    assert pod["metadata"]["annotations"]["volcano.sh/task-spec"] == "worker"


@pytest.mark.parametrize("scheduler", ["plugins", "kube-scheduler"])
async def test_no_pod_is_made_before_its_podgroup_was_seen(scheduler):
    world = await World(scheduler).start(turns=0)
    await world.work()
    assert world.group is not None and world.pods == []

    await world.watch()
    await world.turns(1)
    assert world.pods == BOTH


async def test_each_scheduler_gets_the_podgroup_of_its_api_and_pods_that_name_it():
    plugins, native = await World("plugins").start(), await World("kube-scheduler").start()
    assert [one.api for one in plugins.decisions(KeepPodGroup)] == [PLUGINS]
    assert [one.api for one in native.decisions(KeepPodGroup)] == [NATIVE]
    assert plugins.group["spec"] == {"minMember": 2, "minResources": {"cpu": "2"}}
    assert native.group["spec"] == {"schedulingPolicy": {"gang": {"minCount": 2}}}
    for world in (plugins, native):
        assert world.group["metadata"]["ownerReferences"][0]["uid"] == world.uid()
        assert world.group["metadata"]["labels"][JOB] == "train"

    pod = plugins.api.of("pods")["train-worker-0-1"]
    assert pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == "train"
    assert pod["spec"]["schedulerName"] == "plugins"
    pod = native.api.of("pods")["train-worker-0-1"]
    assert pod["spec"]["schedulingGroup"] == {"podGroupName": "train"}
    assert "schedulerName" not in pod["spec"]


async def test_a_scheduling_policy_says_what_the_podgroup_does():
    said = {
        "minAvailable": 1,
        "queue": "night",
        "priorityClass": "high",
        "minResources": {"cpu": "500m"},
    }
    world = await World("volcano").start(job(schedulingPolicy=said))
    assert world.group["spec"] == {
        "minMember": 1, "minResources": {"cpu": "500m"}, "queue": "night", "priorityClassName": "high",
    }  # fmt: skip
    world = await World("plugins").start(job(schedulingPolicy={"scheduleTimeoutSeconds": 60}))
    assert world.group["spec"]["scheduleTimeoutSeconds"] == 60


@pytest.mark.parametrize(("said", "least"), [(9, 2), (0, 1)])
async def test_a_gang_of_more_pods_than_the_job_has_or_of_none_is_all_of_it_or_one(said, least):
    world = await World("plugins").start(job(schedulingPolicy={"minAvailable": said}))
    assert (world.group["spec"]["minMember"], world.pods) == (least, BOTH)


async def test_the_podgroup_ends_with_the_job():
    world = await World("plugins").start()
    world.is_over = True
    await world.turns(4)
    assert world.conditions() == ["Created", "Succeeded"]
    assert (world.group, len(world.decisions(EndPodGroup)), len(world.decisions(KeepPodGroup))) == (None, 1, 1)  # fmt: skip


async def test_a_suspended_job_has_no_podgroup_and_one_that_goes_on_waits_for_it_again():
    world = await World("volcano").start()
    await world.says(status={"phase": "Running"})
    await world.turns(2)
    body = world.api.objects[f"{GROUP}/tfjobs/train"]
    suspended = body["spec"] | {"runPolicy": body["spec"]["runPolicy"] | {"suspend": True}}
    await world.submit(body | {"spec": suspended})
    await world.turns(3)
    assert (world.group, world.pods) == (None, [])

    await world.submit(world.api.objects[f"{GROUP}/tfjobs/train"] | {"spec": body["spec"]})
    await world.turns(3)
    assert world.group is not None and world.pods == []
    await world.says(status={"phase": "Inqueue"})
    await world.turns(1)
    assert world.pods == ["train-worker-0-2", "train-worker-1-2"]


async def test_a_job_that_grows_says_so_and_kubernetes_own_podgroup_stays_as_it_is():
    for scheduler, least in (("plugins", 3), ("kube-scheduler", 2)):
        world = await World(scheduler).start()
        body = world.api.objects[f"{GROUP}/tfjobs/train"]
        workers = body["spec"]["tfReplicaSpecs"]["Worker"] | {"replicas": 3}
        await world.submit(body | {"spec": body["spec"] | {"tfReplicaSpecs": {"Worker": workers}}})
        await world.turns(2)
        spec = world.group["spec"]
        found = spec.get("minMember") or spec["schedulingPolicy"]["gang"]["minCount"]
        assert (found, world.pods) == (least, [*BOTH, "train-worker-2-1"])


async def test_who_deletes_a_podgroup_gets_it_again_and_no_pod_is_ended_for_it():
    world = await World("plugins").start()
    await world.drops()
    await world.turns(2)
    assert world.group["metadata"]["ownerReferences"][0]["uid"] == world.uid()
    assert world.pods == BOTH
    assert [one.reason for one in world.decisions(KeepPodGroup)] == ["group_missing"] * 2


async def test_a_failed_pod_is_made_again_only_while_its_gang_may_run():
    world = await World("volcano", {"worker-0-1": 137}).start()
    await world.says(status={"phase": "Running"})
    await world.turns(1)
    await world.says(status={"phase": "Pending"})
    await world.turns(4)
    assert world.pods == ["train-worker-1-1"]
    await world.says(status={"phase": "Inqueue"})
    await world.turns(1)
    assert world.pods == ["train-worker-0-2", "train-worker-1-1"]


async def test_who_changes_how_many_pods_start_together_is_put_right_once():
    world = await World("plugins").start()
    await world.says(spec={"minMember": 50})
    await world.turns(3)
    assert world.group["spec"]["minMember"] == 2
    assert [one.reason for one in world.decisions(KeepPodGroup)] == [
        "group_missing",
        "members_changed",
    ]


@pytest.mark.parametrize("owned", [False, True], ids=["nobody's", "another job's"])
async def test_a_podgroup_of_somebody_else_with_the_jobs_name_is_left_alone(owned):
    """Neither changed nor deleted, and the job waits and says why."""
    world = World("plugins")
    owner = [{"kind": "TFJob", "name": "other", "uid": "u", "controller": True}] if owned else []
    body = {
        "metadata": {"name": "train", "namespace": "ns", "ownerReferences": owner},
        "spec": {"minMember": 1},
    }
    world.api.put(world.path, body)
    await world.begin(gang_scheduler="plugins")
    await world.watch()
    await world.submit(job())
    await world.turns(3)
    assert world.pods == []
    assert world.refusals() == ["the PodGroup train belongs to another object"]
    before = world.group
    await world.submit(
        world.api.objects[f"{GROUP}/tfjobs/train"] | {"spec": job(suspend=True)["spec"]}
    )
    await world.turns(3)
    assert (world.group, world.decisions(EndPodGroup)) == (before, [])


async def test_a_podgroup_elsewhere_that_names_the_job_as_its_owner_is_none_of_it():
    """Whoever makes PodGroups writes any owner into them: nothing is decided anew for it."""
    world = World("plugins")
    world.api.lacks = ("/apis/scheduling.x-k8s.io/",)
    await world.start(turns=1)
    owner = [{"kind": "TFJob", "name": "train", "uid": world.uid(), "controller": True}]
    for namespace, name in (("other", "train"), ("ns", "mine")):
        body = {
            "metadata": {"name": name, "namespace": namespace, "ownerReferences": owner},
            "spec": {},
        }
        world.clock.after(1)
        world.api.put(
            f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/podgroups/{name}", body
        )
        await world.watch()
        await world.turns(1)
    assert (len(world.decisions(KeepPodGroup)), world.pods) == (1, [])


async def test_where_no_such_podgroups_are_served_no_pod_is_made_and_that_is_said():
    world = World("volcano")
    world.api.lacks = ("/apis/scheduling.volcano.sh/",)
    await world.start(turns=3)
    assert (world.pods, world.refusals()) == ([], [f"the API server serves no {VOLCANO}"])


async def test_a_podgroup_that_a_complete_list_does_not_show_is_made_again():
    world = await World("plugins").start(turns=0)
    await world.work()
    gone = world.api.objects.pop(world.path)
    world.api.changes = [one for one in world.api.changes if one[2] is not gone]
    await world.read()
    await world.tick()
    await world.say(*objects_listed(PLUGINS, [], next(world.api._versions), world.at()))
    await world.turns(3)
    assert world.group is not None and world.pods == BOTH


async def test_a_job_that_is_too_large_gets_no_podgroup():
    world = await World("plugins").start(job(replicas={"Worker": (10_001, "Never")}))
    assert (world.group, world.pods, world.decisions(CreateReplica)) == (None, [], [])


@pytest.mark.parametrize("label", ["job.before_group", "job.after_group", "job.before_create"])
@pytest.mark.parametrize("times", [1, 2])
async def test_a_death_makes_no_podgroup_twice_and_none_stays(label, times):
    world = World("plugins", {"worker-0-1": 137})
    await world.begin(gang_scheduler="plugins")
    await world.submit(job())
    assert await killed(world, label, times, turns=24)

    assert world.conditions() == ["Created", "Succeeded"]
    assert world.group is None and world.api.made["podgroups", "train"] == 1
    assert {name: count for (part, name), count in world.api.made.items() if part == "pods"} == {
        "train-worker-0-1": 1, "train-worker-0-2": 1, "train-worker-1-1": 1,
    }  # fmt: skip


def test_the_settings_take_it_in_every_mode():
    assert JobsPolicy(gang_scheduler="volcano").gang_scheduler == "volcano"
    assert CORE.endswith("/ns")
