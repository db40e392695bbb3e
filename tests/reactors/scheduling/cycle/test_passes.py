"""A pass never over-commits, leaves no trace of what failed, and wakes who may be helped."""

from typing import ClassVar

import msgspec
import pytest

from bus.clock import SECOND_US
from bus.events.constraints import NodeSelector, NodeSelectorTerm, Requirement
from bus.events.decisions import Refusal
from bus.events.volumes import StorageClassObserved
from reactors.scheduling.cycle.passes import Scheduler
from reactors.scheduling.cycle.trial import attempts
from reactors.scheduling.framework.profiles import Enabled, Profile
from reactors.scheduling.framework.runner import ProfileError
from reactors.scheduling.plugins.catalogue import PLUGINS, default_profile
from reactors.scheduling.plugins.sorting.priority_sort import PrioritySort
from reactors.scheduling.shape import Mark
from tests.reactors.scheduling import oracle
from tests.reactors.scheduling.scene import refusal
from tests.reactors.scheduling.terms import constrained, constrained_world, placed
from tests.reactors.scheduling.worlds import World, asked, random_world

NAME = "default-scheduler"


class Passes:
    """A scheduler whose passes take effect at once."""

    def __init__(self, world, *more):
        profile = default_profile(NAME)
        plugins = (*profile.plugins, *(Enabled(one) for one in more))
        self.world = world
        self.scheduler = Scheduler([Profile(NAME, plugins)], world.state)
        self.scheduler.begin(0)
        world.listeners.append(lambda changes: self.follow(changes))
        self.at = 0

    @property
    def columns(self):
        return self.scheduler.columns

    @property
    def queue(self):
        return self.scheduler.queues[NAME]

    @property
    def assumed(self):
        return self.scheduler.assumed

    def follow(self, changes):
        self.scheduler.follow(changes, self.at, self.at * SECOND_US)

    def run(self, sequence, at_us, most):
        """What is decided, and in effect now."""
        free = self.columns.resources.free.copy()
        found = attempts(self.scheduler, sequence, at_us, most).get(NAME, [])
        assert (self.columns.resources.free == free).all()
        mark = Mark(sequence, f"pass{sequence}", sequence, at_us)
        for one in found:
            if one.node:
                self.scheduler.place(NAME, one.pod.uid, one.node, one.cards, mark)
            else:
                refusal, count = Refusal(one.refused, one.reason), len(self.columns.nodes)
                self.scheduler.refuse(NAME, one.pod.uid, refusal, count, at_us)
        return found

    def take_back(self, uid, reason, at_us):
        if uid in self.assumed:
            self.scheduler.assumed_pods.take_back(uid, self.assumed[uid].passed, reason, at_us)


def scheduler_of(world, *more):
    return Passes(world, *more)


def placed_at(attempts):
    return {one.pod.uid: one.node for one in attempts if one.node}


def follow(world, scheduler, does, at):
    """Something happens at a second."""
    scheduler.at = at
    does()


@pytest.mark.parametrize("seed", range(40))
def test_each_pod_gets_a_node_that_fits_and_none_only_where_none_does(seed):
    world, random = constrained_world(seed)
    for step in range(12):
        world.pod(f"waits{step}", **placed(random, None))
    done = scheduler_of(world).run(1, 0, 99)
    world.listeners.clear()
    for one in done:
        nodes = oracle.nodes(world.state)
        fitting = {n.name for n in nodes if not refusal(one.pod, n, nodes, world.state)}

        assert (one.node in fitting) if one.node else not fitting
        if one.node:
            world.pod(one.pod.uid, one.node, **_again(one.pod))


def _again(pod):
    """Fields with which a pod is seen on its node."""
    return {
        "namespace": pod.namespace, "labels": pod.labels,
        "resources": msgspec.Raw(msgspec.json.encode({"containers": [{"requests": _requests(pod)}]})),
        "constraints": msgspec.Raw(msgspec.json.encode(pod.constraints) if pod.constraints else b""),
    }  # fmt: skip


def _requests(pod):
    return {
        name: f"{amount}m" if name == "cpu" else str(amount)
        for name, amount in oracle.requests(pod).items()
    }


@pytest.mark.parametrize("seed", range(25))
def test_nothing_is_over_committed_whatever_is_taken_back(seed):
    world, random = random_world(seed)
    for step in range(20):
        world.pod(f"waits{step}", **asked(random))
    scheduler = scheduler_of(world)
    was_short = scheduler.columns.resources.free.min(axis=1) < 0
    for second in range(0, 60, 3):
        for one in scheduler.run(second, second * SECOND_US, 5):
            if one.node and random.random() < 0.4:
                scheduler.take_back(one.pod.uid, "refused", second * SECOND_US)

        assert not ((scheduler.columns.resources.free.min(axis=1) < 0) & ~was_short).any()


def test_what_fails_is_tried_again_and_leaves_no_trace():
    world = World().node("a")
    world.pod("p", cpu="3")
    scheduler = scheduler_of(world)
    empty = scheduler.columns.resources.free.copy()
    first = placed_at(scheduler.run(1, 0, 9))
    scheduler.take_back("p", "HTTP 409", 0)

    assert (first, (scheduler.columns.resources.free == empty).all()) == ({"p": "a"}, True)
    assert placed_at(scheduler.run(2, 0, 9)) == {}
    assert placed_at(scheduler.run(3, SECOND_US, 9)) == {"p": "a"}


class Slots(msgspec.Struct, frozen=True):
    """Reserves, and remembers the order of calls."""

    name: ClassVar[str] = "Slots"
    is_local: ClassVar[bool] = True
    calls: list[str]
    says: str = ""

    def reserve(self, cycle, row):
        self.calls.append(f"reserve {self.name}")
        return self.says

    def unreserve(self, cycle):
        self.calls.append(f"unreserve {self.name}")


class More(Slots, frozen=True):
    name: ClassVar[str] = "More"


class Last(Slots, frozen=True):
    name: ClassVar[str] = "Last"


def test_who_cannot_reserve_ends_it_and_all_take_back_the_last_one_first():
    calls, world = [], World().node("a")
    world.pod("p")
    scheduler = scheduler_of(world, Slots(calls), More(calls, "no slot"), Last(calls))
    (found,) = scheduler.run(1, 0, 9)

    assert (found.node, found.reason) == ("", "no slot")
    assert calls == [
        "reserve Slots", "reserve More", "unreserve Last", "unreserve More", "unreserve Slots"
    ]  # fmt: skip
    assert [one.reason for one in scheduler.queue] == ["0/1 nodes are available: no slot."]


def test_a_pod_that_ends_wakes_who_had_no_room():
    world = World().node("a", allocatable={"cpu": "2", "memory": "8Gi"})
    world.pod("held", "a", cpu="2")
    world.pod("p", cpu="2")
    scheduler = scheduler_of(world)
    first = scheduler.run(1, 0, 9)
    follow(world, scheduler, lambda: world.node("a", allocatable={"cpu": "2", "memory": "8Gi"}), 20)
    nothing = scheduler.run(2, 20 * SECOND_US, 9)
    follow(world, scheduler, lambda: world.gone("held"), 21)

    assert (placed_at(first), nothing) == ({}, [])
    assert placed_at(scheduler.run(3, 21 * SECOND_US, 9)) == {"p": "a"}


def test_a_pod_that_is_seen_on_its_node_is_confirmed():
    world = World().node("a")
    world.pod("p")
    scheduler = scheduler_of(world)
    scheduler.run(1, 0, 9)
    follow(world, scheduler, lambda: world.pod("p", None), 1)
    waiting = (set(scheduler.assumed), list(scheduler.queue))
    follow(world, scheduler, lambda: world.pod("p", "a"), 2)

    assert waiting == ({"p"}, [])
    assert (scheduler.assumed, list(scheduler.queue)) == ({}, [])


@pytest.mark.parametrize(
    "goes",
    [lambda w: w.pod("p", None, cpu="3", deletion=9), lambda w: w.gone("p")],
    ids=["its deletion is asked for", "it is gone"],
)
def test_a_pod_that_goes_before_it_is_bound_leaves_no_trace(goes):
    calls, world = [], World().node("a")
    world.pod("p", cpu="3")
    scheduler = scheduler_of(world, Slots(calls))
    empty = scheduler.columns.resources.free.copy()
    scheduler.run(1, 0, 9)
    follow(world, scheduler, lambda: goes(world), 1)
    scheduler.take_back("p", "HTTP 404", SECOND_US)

    assert (scheduler.columns.resources.free == empty).all()
    assert (calls, scheduler.assumed, list(scheduler.queue)) == (
        # Once on trial, once where the pass takes effect.
        ["reserve Slots", "unreserve Slots"] * 2,
        {},
        [],
    )


@pytest.mark.parametrize("goes", ["is deleted", "is not bound"])
def test_room_that_is_given_back_before_a_bind_wakes_who_had_none(goes):
    world = World().node("a", allocatable={"cpu": "2", "memory": "8Gi"})
    world.pod("p", cpu="2", priority=1)
    world.pod("q", cpu="2")
    scheduler = scheduler_of(world)
    first = placed_at(scheduler.run(1, 0, 9))
    if goes == "is deleted":
        follow(world, scheduler, lambda: world.gone("p"), 60)
    else:
        scheduler.take_back("p", "HTTP 409", 60 * SECOND_US)

    assert (first, placed_at(scheduler.run(2, 60 * SECOND_US, 1))) == ({"p": "a"}, {"q": "a"})


def test_pods_of_other_schedulers_and_ended_ones_do_not_wait():
    world = World().node("a")
    for uid, fields in {
        "ended": {"phase": "Failed"},
        "ends": {"deletion": 9},
        "held": {"node": "a"},
    }.items():
        world.pod(uid, **fields)
    world.pod("other", constraints=msgspec.Raw(b'{"schedulerName":"volcano"}'))

    assert scheduler_of(world).run(1, 0, 9) == []


def test_a_profile_sorts_its_queue_in_exactly_one_way():
    world = World().node("a")
    for plugins in ((), (PrioritySort(), PrioritySort())):
        with pytest.raises(ProfileError):
            Scheduler([Profile("x", tuple(map(Enabled, plugins)))], world.state)


def test_no_two_plugins_have_one_name():
    names = [one.name for one, _ in PLUGINS]

    assert len(set(names)) == len(names)


def claiming(*names):
    return constrained({"claims": names})


def test_a_claim_wakes_the_pods_that_have_it_and_no_other():
    passes = Passes(World().node("n"))
    for uid in ("a", "b"):
        passes.world.pod(uid, **claiming(f"home-{uid}"))
    passes.run(1, 0, 9)
    passes.at = 5
    passes.world.volume("v")
    passes.run(2, 5 * SECOND_US, 9)
    passes.at = 30
    passes.world.claim("home-a", volume="v", is_bound=True)
    passes.world.claim("home-a", namespace="other", volume="v", is_bound=True)

    assert [one.pod.uid for one in passes.queue.due(30 * SECOND_US, 9)] == ["a"]
    passes.run(3, 30 * SECOND_US, 9)
    assert [(one.uid, one.node) for one in passes.assumed.values()] == [("a", "n")]
    assert (
        passes.queue.get("b").reason
        == '0/1 nodes are available: persistentvolumeclaim "home-b" not found.'
    )


def test_of_two_pods_with_a_claim_for_one_pod_one_is_placed():
    passes = Passes(World().node("n").node("m"))
    passes.world.volume("v")
    modes = ("ReadWriteOncePod",)
    passes.world.claim("home", volume="v", is_bound=True, access_modes=modes)
    for uid in ("a", "b"):
        passes.world.pod(uid, **claiming("home"))
    passes.run(1, 0, 9)

    assert len(passes.assumed) == 1 and len(list(passes.queue)) == 1


@pytest.mark.parametrize("what", ["another pod", "the claim"])
def test_what_happens_to_a_claim_before_the_pass_is_read_counts(what):
    """Somebody else bound a pod that uses it, on another node, or it is being deleted."""
    passes = Passes(World().node("n").node("m"))
    passes.world.volume("v")
    fields = {"volume": "v", "is_bound": True, "access_modes": ("ReadWriteOncePod",)}
    passes.world.claim("home", **fields)
    pod = passes.world.pod("a", **claiming("home"))
    passes.at = 2
    if what == "another pod":
        passes.world.pod("b", "m", **claiming("home"))
    else:
        passes.world.claim("home", is_terminating=True, **fields)
    passes.scheduler.place(NAME, pod.uid, "n", (), Mark(3, "pass3", 1, 0))

    assert not passes.assumed
    assert passes.queue.get("a").reason.startswith("n took it no more: ")


def test_a_pod_whose_volume_is_made_keeps_its_node_until_it_is_bound_or_for_ten_minutes():
    passes = Passes(World().node("n", labels={"zone": "a", "topology.kubernetes.io/zone": "a"}))
    passes.world.storage(StorageClassObserved, "waits", provisioner="p", waits_for_consumer=True)
    passes.world.claim("home", storage_class="waits")
    passes.world.pod("a", **claiming("home"))
    passes.run(1, 0, 9)
    [found] = passes.assumed.values()

    def said(seconds=1):
        claims = [one.name for one in passes.columns.volumes.unbound(passes.world.state.pods["a"])]
        return claims, passes.scheduler.assumed_pods.overtaken(found, seconds * SECOND_US)

    assert said() == (["home"], "")
    assert said(601) == (["home"], "claims_not_bound")
    passes.world.claim("home", storage_class="waits", selected_node="n", volume="v")
    assert said() == (["home"], "")
    passes.world.claim("home", storage_class="waits", selected_node="n", volume="v", is_bound=True)
    assert said() == (["home"], "")
    away = NodeSelector((NodeSelectorTerm((Requirement("zone", "In", ("b",)),)),))
    passes.world.volume("v", node_affinity=away)
    assert said() == ([], "volume_not_reached")
    passes.world.volume("v", zones={"topology.kubernetes.io/zone": "b"})
    assert said() == ([], "volume_not_reached")
    passes.world.volume("v")
    assert said() == ([], "")
    passes.world.claim("home", volume="v", is_bound=True, is_terminating=True)
    assert said() == ([], "claim_gone")
