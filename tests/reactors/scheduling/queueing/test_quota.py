"""Pods start by what their quotas admitted: who waits and why, what lets them start, and who makes room for whom."""

import random as dice

import pytest

from bus.events.admissions import AdmissionDecided, AdmissionReleased, entries
from bus.events.decisions import SchedulingPassed
from bus.events.pods import PodObserved, PodVanished
from bus.events.workloads import WorkloadObserved
from reactors.scheduling.queueing.queue import Place
from tests.reactors.admission import below
from tests.reactors.cluster import QUOTA, demand
from tests.reactors.scheduling.governed import KEY, LATER, Governed
from tests.thorough import tries

pytestmark = pytest.mark.simulated


@pytest.fixture
async def cluster():
    """``team`` may use 4 cores."""
    async with Governed() as running:
        await running.see_quota("team", {KEY: 4000})
        yield running
        running.same()


async def test_a_pod_of_an_admitted_workload_starts_and_is_charged_by_its_owner(cluster):
    await cluster.begin()
    await below.begin(cluster, "Job", "web", 3)
    # Its own label names nobody's quota: it is charged by its owner.
    await cluster.wait("p", 3, by=("Job", "web"), quota="nobody")
    await cluster.tick()

    assert cluster.placed() == {"p": "n0"}


async def test_without_the_plugin_every_pod_starts(cluster):
    await cluster.begin(is_asked=False)
    await cluster.wait("p", 9)
    await cluster.tick()

    assert cluster.placed() == {"p": "n0"}
    assert cluster.state.quotas is None


@pytest.mark.parametrize("mode", ["on", "shadow"])
async def test_what_was_charged_unchecked_waits_while_its_quota_holds_too_much(cluster, mode):
    await cluster.begin(mode)
    await cluster.run("old", 3)
    await cluster.wait("p", 2)
    await cluster.tick()
    waiting = cluster.why("p")
    await cluster.lose_pod("old")
    await cluster.tick()

    assert waiting == f"0/1 nodes are available: 1 quota team holds too much: {KEY} 5000 of 4000."
    assert cluster.placed() == {"p": "n0"}


async def test_it_is_tried_again_when_the_quota_grows(cluster):
    await cluster.begin()
    await cluster.run("old", 3)
    await cluster.wait("p", 2)
    await cluster.tick()
    tries_before = len(cluster.facts(SchedulingPassed))
    await cluster.see_quota("team", {KEY: 5000})
    await cluster.tick()

    assert cluster.placed() == {"p": "n0"}
    assert len(cluster.facts(SchedulingPassed)) == tries_before + 1


async def test_pods_of_a_workload_that_waits_in_a_queue_wait(cluster):
    await cluster.begin()
    held = {"held": True, "wanted": demand(1)}
    await cluster.see("later", 0, **held)
    await cluster.wait("p", 1, by=("Job", "later"))
    await cluster.tick()

    assert cluster.why("p") == "Job ns/later waits in the queue of quota team"
    assert cluster.placed() == {}


@pytest.mark.parametrize(
    ("quota", "why"),
    [("others", "the pod may not stand in quota others"), ("nobody", "quota nobody is not there")],
)
async def test_the_label_of_another_quota_starts_nothing(cluster, quota, why):
    await cluster.see_quota("others", {KEY: 9000}, namespaces=("elsewhere",))
    await cluster.begin()
    await cluster.wait("p", 1, quota=quota)
    await cluster.tick()

    assert cluster.why("p") == why
    assert cluster.placed() == {}


async def test_pods_that_name_an_admitted_owner_and_were_never_let_pass_wait_with_all_of_it(
    cluster,
):
    await cluster.begin()
    await below.begin(cluster, "Job", "web", 1)
    for number in range(5):
        await cluster.wait(f"forged{number}", 1, by=("Job", "web"))
    await cluster.tick()

    assert cluster.placed() == {}
    assert "quota team holds too much" in cluster.why("forged0")


async def test_a_pod_that_was_admitted_beside_the_owner_that_it_names_is_charged_itself(cluster):
    await cluster.begin()
    await below.begin(cluster, "Job", "web", 1)
    # Its user wrote the reference, so it was asked about by itself.
    assert (await below.ask(cluster, "Pod", "p", 2, by=("Job", "web"))).reason == "fits"
    await cluster.wait("p", 2, by=("Job", "web"))
    await cluster.run("full", 3)
    await cluster.tick()

    assert cluster.placed() == {"p": "n0"}
    assert cluster.state.quotas.seen.coverage.named.has("p", "web")


async def test_the_owner_that_a_pod_named_is_remembered_from_before_the_policy(cluster):
    await below.begin(cluster, "Job", "web", 1)
    await below.ask(cluster, "Pod", "p", 2, by=("Job", "web"))
    await cluster.wait("p", 2, by=("Job", "web"))
    await cluster.begin()
    await cluster.tick()

    assert cluster.placed() == {"p": "n0"}
    assert cluster.state.quotas.seen.coverage.named.has("p", "web")


async def test_a_pod_whose_owner_was_not_seen_waits_until_it_is_or_counts_for_itself(cluster):
    await cluster.begin()
    await cluster.wait("p", 1, by=("Job", "late"))
    await cluster.tick(1)
    waiting = cluster.why("p")
    await cluster.tick(20)
    await cluster.tick(10)

    assert waiting == "it is not known yet which workload it belongs to"
    assert cluster.placed() == {"p": "n0"}


@pytest.mark.parametrize("by", [None, ("Job", "web")], ids=["by itself", "by its owner"])
async def test_a_pod_is_not_tried_before_its_charge_is_written_and_then_at_once(cluster, by):
    """A refused one would rest for a second and more, and a pass would be spent on it for each charge of another."""
    await cluster.begin()
    if by is not None:
        await cluster.see("web", 0, settles=False)
    await cluster.wait("p", 1, by=by, settles=False)
    await cluster.deciding.read()
    one = cluster.state.scheduler.queues["bursar"].get("p")
    assert (one.place, one.attempts, cluster.facts(SchedulingPassed)) == (Place.GATED, 0, [])
    assert one.reason.endswith("is not admitted by quota team")

    await cluster.settled()
    await cluster.deciding.read()
    assert cluster.placed() == {"p": "n0"}
    assert len(cluster.facts(SchedulingPassed)) == 1


async def test_a_pod_that_ends_beside_others_lets_them_in(cluster):
    """Nothing is written then: what is charged was enough for those that are left."""
    await cluster.begin()
    await below.begin(cluster, "Job", "web", 2)
    for name in ("a", "b", "beyond"):
        await cluster.wait(name, 1, by=("Job", "web"), settles=False)
    await cluster.deciding.read()
    waiting = {cluster.why(name) for name in ("a", "b", "beyond")}
    await cluster.lose_pod("beyond", below.owner("Job", "web"), settles=False)
    await cluster.deciding.tick(10)
    await cluster.deciding.read()

    assert all("Job ns/web has more than quota team admitted" in one for one in waiting)
    assert cluster.placed() == {"a": "n0", "b": "n0"}


async def test_a_charge_of_another_workload_wakes_nobody(cluster):
    await cluster.begin()
    await cluster.see("later", 0, held=True, wanted=demand(1))
    await cluster.wait("p", 1, by=("Job", "later"))
    regated = []
    queue = cluster.state.scheduler.queues["bursar"]
    usual, queue.regate = queue.regate, lambda uid, at_us: regated.append(uid) or usual(uid, at_us)
    await below.begin(cluster, "Job", "web", 1)
    await cluster.deciding.read()
    assert regated == []

    await cluster.see("later", 1)
    await cluster.deciding.read()
    assert set(regated) == {"p"}


async def test_a_refused_workload_that_runs_all_the_same_is_told_so(cluster):
    await cluster.begin()
    assert (await below.ask(cluster, "Job", "big", 9)).reason == "over-quota"
    await cluster.see("big", 9, settles=False)
    await cluster.wait("p", 9, by=("Job", "big"), settles=False)
    await cluster.deciding.read()

    assert cluster.why("p") == "Job ns/big was refused by quota team"


async def test_what_another_process_lets_pass_between_a_pass_and_its_place_is_asked_again(cluster):
    await cluster.begin()
    await cluster.run("old", 2)
    await cluster.wait("p", 2, settles=False)
    await cluster.settled()
    # The runner decides on what it read; the quota shrinks before the pass stands in the history.
    replica = cluster.deciding.runner.replica
    for event in cluster.transport.events[replica.sequence :]:
        replica.apply(event)
    (batch,) = replica.concluded().values()
    await cluster.see_quota("team", {KEY: 1000})
    await cluster.transport.publish(batch)
    await cluster.deciding.read()

    assert cluster.placed() == {"p": "n0"}
    assert cluster.state.scheduler.assumed == {}
    assert "n0 took it no more: quota team holds too much" in cluster.why("p")


# preemption inside a quota


async def test_a_pod_that_its_quota_cannot_hold_takes_the_room_of_its_own_quota_alone(cluster):
    await cluster.see_quota("others", {KEY: 9000})
    await cluster.begin(preemption="on", nodes=2)
    await cluster.run("mine", 2, priority=1)
    await cluster.run("dear", 2, priority=9)
    await cluster.run("theirs", 1, quota="others", priority=-5, node="n1")
    await cluster.wait("p", 2, priority=5)
    await cluster.tick()
    first = cluster.nominated()
    await cluster.lose_pod("mine")
    await cluster.tick()

    assert first == [("p", ["mine"])]
    assert cluster.placed() == {"p": "n0"}


async def test_room_on_a_node_is_taken_from_nobody_of_another_quota(cluster):
    for name in ("team", "others"):
        await cluster.see_quota(name, {KEY: 9000})
    await cluster.begin(preemption="on", nodes=1, room={"cpu": "3", "memory": "8Gi", "pods": "9"})
    await cluster.run("theirs", 2, quota="others", priority=-5)
    await cluster.wait("p", 2, priority=5)
    await cluster.tick()
    alone = cluster.nominated()
    await cluster.lose_pod("theirs")
    await cluster.run("mine", 2, priority=1)
    await cluster.tick()

    assert (alone, cluster.nominated()) == ([], [("p", ["mine"])])


async def test_searches_that_the_quota_forbids_are_no_searches(cluster):
    """Room is being made in the quota, so nobody else goes there; a pod of another one finds its victim in the same pass."""
    await cluster.see_quota("others", {KEY: 2000})
    await cluster.begin(preemption="on")
    await cluster.run("mine", 3, priority=1, deletion=LATER)
    await cluster.run("theirs", 2, quota="others", priority=0)
    for number in range(6):
        await cluster.wait(f"p{number}", 2, priority=9 + number)
    await cluster.wait("other", 1, quota="others", priority=5)
    await cluster.tick()

    assert cluster.nominated() == [("other", ["theirs"])]
    assert len({one.after for one in cluster.facts(SchedulingPassed)}) == 1


@pytest.mark.parametrize("how", ["equal", "label", "covered"])
async def test_who_may_not_go_or_frees_nothing_stays(cluster, how):
    await cluster.begin(preemption="on")
    if how == "covered":
        await below.begin(cluster, "Job", "web", 3)
        await cluster.run("mine", 3, by=("Job", "web"), priority=1)
    else:
        labels = {QUOTA: "team"}
        if how == "label":
            labels["quota.scheduling.koordinator.sh/preemptible"] = "false"
        await cluster.run("mine", 3, priority=5 if how == "equal" else 1, labels=labels)
    await cluster.wait("p", 2, priority=5)
    await cluster.tick()

    assert cluster.nominated() == []
    assert "holds too much" in cluster.why("p")


async def test_nobody_else_goes_while_room_is_being_made_in_the_quota(cluster):
    await cluster.begin(preemption="on", nodes=2)
    await cluster.run("m1", 2, priority=1)
    await cluster.run("m2", 2, priority=1, node="n1")
    await cluster.wait("p", 1, priority=5)
    await cluster.wait("q", 1, priority=5)
    await cluster.tick()
    victim = cluster.nominated()[0][1][0]
    node = "n0" if victim == "m1" else "n1"
    await cluster.run(victim, 2, priority=1, node=node, deletion=LATER, grace_seconds=30)
    await cluster.tick()
    await cluster.tick(400)
    await cluster.lose_pod(victim)
    await cluster.tick()

    assert [victims for _, victims in cluster.nominated()] == [[victim]]
    assert set(cluster.placed()) == {"p", "q"}


# against the rules written down plainly


def may_start(events, uid, hard):
    """What the rules give for a pod of its own or of a Job, from the facts alone; ``hard``: cores of each quota, in milli."""
    charges, adopted, own, seen = {}, set(), set(), {}
    for event in events:
        for one in entries(event):
            if one.type == AdmissionDecided.wire_type:
                fact = AdmissionDecided.read(one)
                if fact.verdict != "refused":
                    place = (fact.quota, fact.uid)
                    charges[place] = fact.charge
                    (adopted.add if fact.verdict == "adopted" else adopted.discard)(place)
                    if fact.owner:
                        own.add((fact.uid, fact.owner))
            elif one.type == AdmissionReleased.wire_type:
                for release in AdmissionReleased.read(one).releases:
                    charges.pop((release.quota, release.uid), None)
                    if release.charge:
                        charges[(release.quota, release.uid)] = release.charge
        if event.type == PodObserved.wire_type:
            seen[event.key] = PodObserved.read(event)
        elif event.type == WorkloadObserved.wire_type:
            seen[event.key] = WorkloadObserved.read(event)
        elif event.type == PodVanished.wire_type:
            seen.pop(event.key, None)
    pod = seen[uid]
    is_own = pod.owner is None or pod.owner.uid not in seen or (uid, pod.owner.uid) in own
    top = pod if is_own else seen[pod.owner.uid]
    quota = top.labels.get(QUOTA)
    if quota is None:
        return True
    if quota not in hard or (quota, top.uid) not in charges:
        return False
    used = sum(charge.get(KEY, 0) for (name, _), charge in charges.items() if name == quota)
    return (quota, top.uid) not in adopted or used <= hard[quota]


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(tries(4, 40)))
async def test_in_small_worlds_just_those_start_that_the_rules_let_start(seed):
    random, hard, waiting, jobs = dice.Random(seed), {"a": 4000, "b": 2000}, [], []
    async with Governed() as cluster:
        for name, cores in hard.items():
            await cluster.see_quota(name, {KEY: cores})
        began = random.randrange(6)
        for number in range(14):
            if number == began:
                await cluster.begin(nodes=2)
                # These start at once, whatever is charged later.
                early = {uid for uid in waiting if may_start(cluster.transport.events, uid, hard)}
            quota, cpu = random.choice(("a", "b", "nobody", "")), random.choice((1, 2))
            does = random.randrange(5)
            if does == 0:
                job = f"j{number}"
                if random.random() < 0.5:
                    await cluster.ask(job, cpu, quota=quota)
                await cluster.see(job, cpu, quota=quota)
                jobs.append(job)
            elif does == 1 and waiting:
                gone = waiting.pop(random.randrange(len(waiting)))
                await cluster.lose_pod(gone)
            else:
                pod, by = f"p{number}", None
                if jobs and random.random() < 0.5:
                    by = ("Job", random.choice(jobs))
                    if random.random() < 0.3:
                        await below.ask(cluster, "Pod", pod, cpu, by=by, quota=quota)
                elif random.random() < 0.5:
                    await below.ask(cluster, "Pod", pod, cpu, quota=quota)
                await cluster.wait(pod, cpu, by=by, quota=quota)
                waiting.append(pod)
        for _ in range(3):
            await cluster.tick(30)

        assert set(waiting) & cluster.placed().keys() == {
            uid for uid in waiting if uid in early or may_start(cluster.transport.events, uid, hard)
        }
        cluster.same()


class Full:
    """Two nodes and two quotas with pods, written down plainly."""

    def __init__(self, random):
        self.hard = {"a": 4000, "b": 4000}
        self.cpu = random.choice((4, 8))
        self.pods = {
            f"r{number}": {
                "quota": random.choice("ab"), "cpu": random.choice((1, 2)),
                "node": random.choice(("n0", "n1")), "priority": random.randrange(4),
            }
            for number in range(random.randint(4, 7))
        }  # fmt: skip

    def cores(self, uids=None, **which):
        """Of these pods, those that are in this quota or on this node."""
        found = (self.pods[uid] for uid in (self.pods if uids is None else uids))
        return sum(one["cpu"] for one in found if which.items() <= one.items())

    def fits(self, quota, cpu, node, gone=()):
        """Whether the node and the quota have room when these are gone."""
        left = self.cores(node=node) - self.cores(gone, node=node)
        held = self.cores(quota=quota) - self.cores(gone, quota=quota)
        return left + cpu <= self.cpu and (held + cpu) * 1000 <= self.hard[quota]

    def may_go(self, quota, node):
        which = {"quota": quota, "node": node}
        return {
            u
            for u, one in self.pods.items()
            if one["priority"] < 2 and which.items() <= one.items()
        }


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(tries(4, 40)))
async def test_in_small_worlds_victims_are_of_the_same_quota_less_important_and_all_needed(seed):
    random = dice.Random(seed)
    full, quota, cpu = Full(random), random.choice("ab"), random.choice((1, 2))
    async with Governed() as cluster:
        for name, cores in full.hard.items():
            await cluster.see_quota(name, {KEY: cores})
        room = {"cpu": str(full.cpu), "memory": "64Gi", "pods": "110"}
        await cluster.begin(random.choice(("on", "shadow")), "on", nodes=2, room=room)
        for uid, one in full.pods.items():
            await cluster.run(uid, **one)
        await cluster.wait("p", cpu, quota=quota, priority=2)
        await cluster.tick()
        found, nodes = cluster.nominated(), ("n0", "n1")

        if any(full.fits(quota, cpu, node) for node in nodes):
            assert (set(cluster.placed()), found) == ({"p"}, [])
        elif not any(full.fits(quota, cpu, node, full.may_go(quota, node)) for node in nodes):
            assert (cluster.placed(), found) == ({}, [])
        else:
            ((uid, victims),) = found
            node = full.pods[victims[0]]["node"]
            assert uid == "p" and set(victims) <= full.may_go(quota, node)
            assert full.fits(quota, cpu, node, victims)
            assert not any(full.fits(quota, cpu, node, {*victims} - {one}) for one in victims)
        cluster.same()


async def test_an_elastic_quota_is_asked_for_what_it_may_use_now(cluster):
    await cluster.begin()
    for name, most in (("share", 2000), ("rest", 64000)):
        await cluster.see_quota(
            name, {}, kind="ElasticQuota", namespace="quotas", min={"cpu": 1000}, max={"cpu": most}
        )
    for uid in ("mine", "p", "q"):
        does = cluster.run if uid == "mine" else cluster.wait
        await does(uid, 1, labels={"quota.scheduling.koordinator.sh/name": "share"})
    await cluster.tick()
    before, waits = cluster.placed(), cluster.why("p")
    await cluster.lose_pod("q")
    await cluster.tick()

    assert (before, cluster.placed()) == ({}, {"p": "n0"})
    assert "quota share holds too much: requests.cpu 3000 of 2000." in waits
