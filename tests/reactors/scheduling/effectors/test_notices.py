"""What people are told of pods that wait or were bound: when it changes, once a minute, and never twice after a restart."""

import msgspec
import pytest

from bus.errors import (
    ClusterUnavailableError,
    ConflictError,
    NotFoundError,
    PermissionDeniedError,
)
from bus.events.constraints import PodConstraints
from bus.kube import MANAGER
from bus.waiting import Moves
from reactors.scheduling.effectors.notices import ALL, MOST_BOUND, NoticedPod, PodNotices
from reactors.scheduling.effects import PlacementSource
from reactors.scheduling.queueing.messages import IN_SYSTEM
from tests.reactors.scheduling.ganging import Ganging
from tests.scenario import Clock

FULL = "0/3 nodes are available: 3 Insufficient cpu."
CORDONED = "0/3 nodes are available: 3 node(s) were unschedulable."
EVENTS = "/apis/events.k8s.io/v1/namespaces/ns/events"


class Cluster:
    """An API server with pods that keep the conditions that they are given; errors come first."""

    def __init__(self):
        self.pods, self.written, self.errors = {}, [], []

    def add(self, name, **metadata):
        metadata = {
            "name": name,
            "namespace": "ns",
            "uid": name,
            "resourceVersion": "1",
            **metadata,
        }
        self.pods[name] = {"metadata": metadata, "spec": {}, "status": {}}
        return self.pods[name]

    async def get(self, path):
        name = path.rpartition("/")[2]
        if name not in self.pods:
            raise NotFoundError()
        return self.pods[name]

    async def apply(self, path, body):
        self._fail()
        pod = self.pods[path.split("/")[-2]]
        status, fields = dict(body["status"]), pod["metadata"].setdefault("managedFields", [])
        own = {"manager": MANAGER, "fieldsV1": {"f:status": {f"f:{name}": {} for name in status}}}
        if fields != [own] and "nominatedNodeName" in pod["status"]:
            # What the manager wrote before goes where it wants it no more; what others wrote stays.
            was = any("f:nominatedNodeName" in one["fieldsV1"]["f:status"] for one in fields)
            if not was:
                status.setdefault("nominatedNodeName", pod["status"]["nominatedNodeName"])
        pod["status"], fields[:] = status, [own]
        self.written.append((path, body))

    async def create(self, path, body):
        self._fail()
        if body["metadata"]["name"] in [one["metadata"]["name"] for _, one in self.written]:
            raise ConflictError()
        self.written.append((path, body))

    def _fail(self):
        if self.errors:
            raise self.errors.pop(0)

    def messages(self):
        return [
            body["status"]["conditions"][0]["message"]
            for path, body in self.written
            if path.endswith("/status")
        ]


class World:
    def __init__(self):
        self.cluster, self.clock = Cluster(), Clock()
        self.restart()

    def restart(self):
        self.notices = PodNotices(self.cluster, self.clock, instance="host-1")

    async def wait(self, *names, message=FULL, after=0, nominated=""):
        self.clock.after(after)
        self.notices.waits({name: (subject(name, nominated), message) for name in names})
        await self.notices.work()


def subject(name, nominated=""):
    return NoticedPod("ns", name, name, "bursar", nominated)


async def test_who_waits_has_a_condition_and_an_event_as_kube_scheduler_writes_them():
    world = World()
    world.cluster.add("p")
    await world.wait("p")

    (status, body), (events, event) = world.cluster.written
    assert (status, events) == ("/api/v1/namespaces/ns/pods/p/status", EVENTS)
    assert body["metadata"] == {"name": "p", "namespace": "ns", "uid": "p", "resourceVersion": "1"}
    assert body["status"]["conditions"] == [
        {
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": FULL,
            "lastTransitionTime": "2026-10-26T08:00:00Z",
        }
    ]  # fmt: skip
    del event["metadata"]["name"]
    assert event == {
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"namespace": "ns"},
        "eventTime": "2026-10-26T08:00:00.000000Z", "reportingController": "bursar",
        "reportingInstance": "host-1", "action": "Scheduling", "reason": "FailedScheduling",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "ns", "name": "p", "uid": "p"},
        "note": FULL, "type": "Warning",
    }  # fmt: skip


async def test_a_pod_with_resource_claims_is_told_that_kube_scheduler_allocates_their_devices():
    world, cluster = World(), Ganging()
    world.cluster.add("p")
    await cluster.begin(nodes=1)
    terms = PodConstraints(scheduler_name="bursar", has_resource_claims=True)
    await cluster.say(cluster.pod("p", constraints=msgspec.Raw(msgspec.json.encode(terms))))
    await cluster.tick(10)
    world.notices.waits(PlacementSource(cluster.runner.replica, Moves()).waiting())
    await world.notices.work()

    why = "it has resource claims, whose devices kube-scheduler allocates"
    (_, status), (_, event) = world.cluster.written
    [condition] = status["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
    assert (why in condition["message"], why in event["note"]) == (True, True)
    assert (event["reason"], event["regarding"]["uid"]) == ("FailedScheduling", "p")
    assert (cluster.placed(), cluster.outstanding()) == ([], {})


async def test_a_pod_in_a_system_namespace_is_told_by_an_event_alone():
    """Policies of the cluster refuse its status to Bursar; its bystander in another namespace is bound."""
    world, cluster = World(), Ganging()
    world.cluster.add("p", namespace="kube-system")
    await cluster.begin(nodes=1)
    await cluster.say(cluster.pod("p", namespace="kube-system"), cluster.pod("q"))
    await cluster.tick(10)
    world.notices.waits(PlacementSource(cluster.runner.replica, Moves()).waiting())
    await world.notices.work()

    [(path, event)] = world.cluster.written
    assert path == "/apis/events.k8s.io/v1/namespaces/kube-system/events"
    assert (event["reason"], event["note"]) == ("FailedScheduling", IN_SYSTEM)
    assert (cluster.placed(), cluster.outstanding()) == ([("q", "n0")], {"q": "n0"})


async def test_a_bound_pod_has_an_event_that_names_its_node():
    world = World()
    world.notices.bound(subject("p"), "n1")
    await world.notices.work()

    ((_, event),) = world.cluster.written
    assert (event["reason"], event["action"], event["type"]) == ("Scheduled", "Binding", "Normal")
    assert event["note"] == "Successfully assigned ns/p to n1"


async def test_a_message_is_told_when_it_changes_and_once_a_minute_at_most():
    world = World()
    world.cluster.add("p")
    for after in (0, 1, 1):
        await world.wait("p", after=after)
    await world.wait("p", message=CORDONED, after=1)
    before = world.cluster.messages()
    await world.wait("p", message=CORDONED, after=57)

    assert (before, world.cluster.messages()) == ([FULL], [FULL, CORDONED])


async def test_the_time_of_the_transition_stays_while_a_pod_waits():
    world = World()
    world.cluster.add("p")
    await world.wait("p")
    await world.wait("p", message=CORDONED, after=60)

    since = world.cluster.pods["p"]["status"]["conditions"][0]["lastTransitionTime"]
    assert since == "2026-10-26T08:00:00Z"


async def test_nothing_is_told_again_after_a_restart():
    world = World()
    world.cluster.add("p")
    await world.wait("p")
    world.restart()
    await world.wait("p", after=3600)

    assert [FULL] == world.cluster.messages()
    assert world.notices.counts == {"known": 1}


@pytest.mark.parametrize(
    "pod",
    [{"uid": "other"}, {"deletionTimestamp": "now"}, None],
    ids=["namesake", "ending", "gone"],
)
async def test_a_pod_that_is_another_one_by_now_is_not_touched(pod):
    world = World()
    if pod is not None:
        world.cluster.add("p", **pod)
    await world.wait("p")

    assert [] == world.cluster.written


async def test_a_pod_that_was_bound_meanwhile_is_not_said_to_wait():
    world = World()
    world.cluster.add("p")["spec"]["nodeName"] = "n1"
    await world.wait("p")

    assert [] == world.cluster.written


async def test_a_conflict_is_tried_again_after_five_seconds():
    world = World()
    world.cluster.add("p")
    world.cluster.errors = [ConflictError()]
    await world.wait("p")
    await world.wait("p", after=4)
    before = world.cluster.messages()
    await world.wait("p", after=1)

    assert (before, world.cluster.messages()) == ([], [FULL])


async def test_a_missing_right_is_said_and_not_tried_until_the_message_changes():
    world = World()
    world.cluster.add("p")
    world.cluster.errors = [PermissionDeniedError(permission="patch pods/status")]
    await world.wait("p")
    await world.wait("p", after=3600)

    assert ([], {"denied": 1}) == (world.cluster.written, world.notices.counts)
    assert "patch pods/status" in world.notices.trouble
    await world.wait("p", message=CORDONED, after=60)
    assert ([CORDONED], "") == (world.cluster.messages(), world.notices.trouble)


async def test_an_api_server_that_is_away_is_asked_again_later():
    world = World()
    world.cluster.add("p")
    world.cluster.errors = [ClusterUnavailableError()]
    with pytest.raises(ClusterUnavailableError):
        await world.wait("p")
    await world.wait("p")

    assert [FULL] == world.cluster.messages()


async def test_all_together_are_bounded_and_none_that_waits_is_forgotten():
    world = World()
    names = [f"p{n}" for n in range(ALL.burst + 30)]
    for name in names:
        world.cluster.add(name)
    await world.wait(*names)
    before = len(world.cluster.messages())
    await world.wait(*names, after=2)

    assert (before, len(world.cluster.messages())) == (ALL.burst, ALL.burst + 30)


async def test_bound_pods_that_come_too_fast_are_left_out_and_counted():
    world = World()
    for n in range(MOST_BOUND + 7):
        world.notices.bound(subject(f"p{n}"), "n1")
    await world.notices.work()

    assert (ALL.burst, 7) == (len(world.cluster.written), world.notices.counts["crowded"])


async def test_the_nominated_node_is_written_at_once_when_others_went_and_taken_back():
    world = World()
    pod = world.cluster.add("p")
    await world.wait("p")
    told = [pod["status"].get("nominatedNodeName")]
    for nominated in ("a", "a", ""):
        await world.wait("p", nominated=nominated, after=1)
        told.append(pod["status"].get("nominatedNodeName"))

    assert told == [None, "a", "a", None]
    assert len([path for path, _ in world.cluster.written if path.endswith("/status")]) == 3


@pytest.mark.parametrize("what", ["conflict", "kill"])
async def test_a_nominated_node_does_not_stay_after_a_failed_write_or_a_kill(what):
    world = World()
    pod = world.cluster.add("p")
    await world.wait("p")
    await world.wait("p", nominated="a", after=1)
    told = pod["status"]["nominatedNodeName"]
    if what == "kill":
        world.restart()
    else:
        world.cluster.errors = [ConflictError()]
    await world.wait("p", after=1)
    await world.wait("p", after=5)

    assert (told, pod["status"].get("nominatedNodeName")) == ("a", None)


async def test_a_nominated_node_is_written_again_after_a_failed_write_but_not_at_once():
    world = World()
    pod = world.cluster.add("p")
    await world.wait("p")
    world.cluster.errors = [ConflictError()]
    told = []
    for after in (1, 1, 4):
        await world.wait("p", nominated="a", after=after)
        told.append(pod["status"].get("nominatedNodeName"))

    assert told == [None, None, "a"]


@pytest.mark.parametrize(
    ("fields", "is_ours"),
    [({"manager": MANAGER, "fieldsV1": {"f:status": {"f:nominatedNodeName": {}}}}, True),
     ({"manager": "kube-scheduler", "fieldsV1": {"f:status": {"f:nominatedNodeName": {}}}}, False),
     ({"manager": MANAGER, "fieldsV1": {"f:status": {"f:conditions": {}}}}, False),
     ({"manager": MANAGER, "fieldsV1": {"f:metadata": {"f:labels": {}}}}, False),
     ({"manager": MANAGER}, False)],
)  # fmt: skip
async def test_the_nominated_node_of_a_pod_is_ours_as_the_api_server_notes(fields, is_ours):
    world = World()
    pod = world.cluster.add("p", managedFields=[fields])
    pod["status"] = {
        "nominatedNodeName": "a",
        "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": FULL}
        ],
    }
    await world.wait("p")

    assert bool(world.cluster.messages()) == is_ours


async def test_a_nominated_node_that_somebody_else_wrote_is_left_alone():
    world = World()
    pod = world.cluster.add("p")
    await world.wait("p")
    pod["status"]["nominatedNodeName"] = "invented"
    world.restart()
    await world.wait("p", after=100)

    assert pod["status"]["nominatedNodeName"] == "invented"
    assert len(world.cluster.messages()) == 1
