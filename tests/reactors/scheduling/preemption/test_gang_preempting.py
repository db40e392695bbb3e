"""Preemption for gangs, and of gangs: who goes for a whole gang, what is held for it, and what ends that."""

import random as dice

import msgspec
import pytest

from bus.crashpoints import install
from bus.events.constraints import LabelSelector
from bus.events.decisions import Evict
from bus.events.pods import NATIVE
from reactors.scheduling.cycle import trial
from reactors.scheduling.preemption import making_room
from reactors.scheduling.reactor import reactor
from reactors.scheduling.settings import SchedulingPolicy
from tests import factories as f
from tests.reactors.engine.restoring import folded, known
from tests.reactors.scheduling.crowded import LABELS, PDB
from tests.reactors.scheduling.gang_crowds import GangCrowds
from tests.reactors.scheduling.scene import Killed, fresh, same
from tests.scenario import FAST


@pytest.fixture
def cluster():
    return GangCrowds()


async def test_a_gang_gets_the_room_of_less_important_pods_of_many_nodes_at_once(cluster):
    await cluster.full_of({"a": [1, 1], "b": [1, 9], "c": [9, 9]})
    await cluster.say(*cluster.gang(3))
    await cluster.work()
    held = cluster.nominations()
    await cluster.later(600)
    await cluster.work()
    before = cluster.outstanding()
    await cluster.went()
    await cluster.later(10)

    assert cluster.victims() == ["a0", "a1", "b0"]
    assert sorted(held.values()) == ["a", "a", "b"] and before == {}
    assert sorted(cluster.outstanding().values()) == ["a", "a", "b"]
    assert cluster.nominations() == {}
    assert same(cluster) == len(cluster.passes()) + len(cluster.evictions())


async def test_where_the_whole_gang_does_not_fit_nobody_goes(cluster):
    await cluster.full_of({"a": [1, 1], "b": [1, 9]})
    await cluster.say(*cluster.gang(4))
    await cluster.later(400)

    assert (cluster.said(), cluster.ends) == ([], [])


@pytest.mark.parametrize("apart", [{"schedulingGates": ["later"]}, {"schedulerName": "another"}])
async def test_for_a_gang_of_which_too_few_are_to_be_placed_nobody_goes(cluster, apart):
    await cluster.full_of({"a": [1, 1], "b": [1, 1]})
    await cluster.say(
        *cluster.gang(2, least=4),
        *(cluster.ganged(uid, least=4, apart=apart) for uid in ("g2", "g3")),
    )
    await cluster.later(1_300)
    early = cluster.said(), cluster.ends
    await cluster.say(*cluster.gang(4))

    assert early == ([], []) and len(cluster.victims()) == 4


async def test_for_a_gang_that_lacks_too_many_pods_nobody_goes(cluster, monkeypatch):
    monkeypatch.setattr(trial, "MOST_SEATS", 2)
    await cluster.full_of({"a": [1, 1], "b": [1, 1]})
    await cluster.say(*cluster.gang(3))
    many = cluster.said()
    await cluster.say(*cluster.gang(2, gang="h"))

    assert many == [] and len(cluster.victims()) == 2


@pytest.mark.parametrize("most", [1, 5, 10, 15, 20])
async def test_a_search_that_takes_too_long_ends_and_nobody_goes(cluster, monkeypatch, most):
    monkeypatch.setattr(making_room, "MOST_STEPS", most)
    await cluster.full_of({"a": [1, 1], "b": [1, 1]})
    await cluster.say(*cluster.gang(4))
    await cluster.later(60)
    early, lifted = cluster.said(), set(cluster.state.scheduler.columns.lifted)
    monkeypatch.undo()
    await cluster.say(*cluster.gang(4, gang="h"))

    assert (early, lifted) == ([], set()) and len(cluster.victims()) == 4


@pytest.mark.parametrize(("steps", "counts"), [(1, [2, 2]), (1000, [4])])
async def test_a_pass_ends_after_a_long_search_for_a_gang_and_the_next_one_goes_on(
    cluster, monkeypatch, steps, counts
):
    monkeypatch.setattr(trial, "LONG_STEPS", steps)
    await cluster.full_of({"a": [1, 1], "b": [1, 1]})
    await cluster.say(*cluster.gang(2), *cluster.gang(2, gang="h"))
    await cluster.later(30)

    assert [len(one.nominated) for one in cluster.passes() if one.nominated] == counts


async def test_pods_that_a_gang_does_not_need_have_nobody_go(cluster):
    await cluster.full_of({"a": [1, 1], "b": [1, 1]})
    await cluster.say(*cluster.gang(4, least=2))
    await cluster.work()

    assert len(cluster.victims()) == 2


async def test_the_room_is_held_for_all_of_the_gang_until_it_is_placed(cluster):
    await cluster.full_of({"a": [1, 1], "b": [1, 1]})
    await cluster.say(*cluster.gang(4))
    await cluster.work()
    await cluster.went("a0")
    await cluster.say(cluster.pod("q", cpu="2", priority=5))
    await cluster.later(20)
    early = cluster.outstanding()
    for _ in range(3):
        await cluster.later(300)
        await cluster.work()
        await cluster.went(*(uid for uid in cluster.ends if uid in cluster.runner.replica.cluster_state.pods))  # fmt: skip
    await cluster.later(20)

    assert early == {} and "q" not in cluster.outstanding()
    assert sorted(cluster.outstanding()) == ["g0", "g1", "g2", "g3"]


async def test_one_refusal_gives_the_room_of_all_back(cluster):
    await cluster.full_of({"a": [1, 1], "b": [1, 1]})
    cluster.refuses.add("a0")
    await cluster.say(*cluster.gang(4))
    await cluster.work()

    assert cluster.outcomes() and ("refused", PDB.message) in cluster.outcomes()
    assert cluster.nominations() == {}


@pytest.mark.parametrize("what", ["node gone", "pod gone", "more important"])
async def test_the_nominations_of_a_gang_end_together(cluster, what):
    await cluster.full_of({"a": [1, 1], "b": [1, 1]})
    await cluster.say(*cluster.gang(4))
    held = len(cluster.nominations())
    if what == "node gone":
        await cluster.say(cluster.node_gone("a"))
    elif what == "pod gone":
        await cluster.say(cluster.gone("g0"))
    else:
        await cluster.say(cluster.pod("q", cpu="4", priority=6))

    assert held == 4
    assert [uid for uid in cluster.nominations() if uid.startswith("g")] == []


async def test_a_budget_protects_its_pods_from_gangs(cluster):
    await cluster.full_of({"a": [1, 1], "b": [1, 1]})
    selector = msgspec.convert({"matchLabels": {"app": "x"}}, LabelSelector)
    labelled = [cluster.pod(f"{n}0", n, cpu="2", priority=1, labels={"app": "x"}) for n in "ab"]
    await cluster.say(
        f.disruption_budget_observed("b", 1, cluster.at(), selector=selector, allowed=1), *labelled
    )
    await cluster.say(*cluster.gang(4, gang="g"))
    whole = cluster.said()
    await cluster.say(*cluster.gang(3, gang="h"))

    assert whole == []
    assert len(cluster.victims()) == 3 and {"a1", "b1"} < {*cluster.victims()}


async def test_a_gang_that_must_be_in_one_domain_has_pods_of_that_one_go(cluster):
    await cluster.full_of({"a": [1, 1], "b": [1, 9], "c": [2, 2], "d": [2, 2]})
    for name, rack in (("a", "1"), ("b", "1"), ("c", "2"), ("d", "2")):
        await cluster.say(cluster.node(name, labels={"rack": rack}))
    await cluster.say(cluster.group("g", 4, kind=NATIVE, topology="rack"))
    raw = msgspec.Raw(b'{"schedulerName":"bursar","gang":{"name":"g"}}')
    await cluster.say(
        *(cluster.pod(f"g{n}", cpu="2", priority=5, constraints=raw) for n in range(4))
    )

    assert cluster.victims() == ["c0", "c1", "d0", "d1"]


# gangs that go


async def test_a_gang_loses_what_it_can_spare_or_goes_as_a_whole(cluster):
    await cluster.begin_with("a", "b")
    await cluster.say(*cluster.gang(4, priority=1, gang="v", least=3, nodes=["a", "a", "b", "b"]))
    await cluster.say(cluster.pod("p", cpu="2", priority=5))
    one = cluster.victims()
    await cluster.say(cluster.pod("q", cpu="4", priority=6))

    assert len(one) == 1
    assert cluster.victims() == ["v0", "v1", "v2", "v3"]


async def test_a_gang_of_which_one_may_not_go_stays_whole(cluster):
    await cluster.begin_with("a", "b")
    both = cluster.gang(2, priority=1, gang="v", least=3, nodes=["a", "a"])
    await cluster.say(*both, cluster.ganged("v2", "b", "v", 3, "4", priority=7))
    await cluster.say(cluster.pod("p", cpu="2", priority=5))

    assert cluster.said() == []


async def test_a_cheaper_node_is_taken_than_one_with_a_pod_of_a_gang(cluster):
    await cluster.begin_with("a", "b")
    await cluster.say(*cluster.gang(2, priority=1, gang="v", cpu="2", nodes=["a", "a"]))
    await cluster.fill(1, 1, node="b")
    await cluster.say(cluster.pod("p", cpu="2", priority=5))

    assert cluster.said()[0][1] == "b" and len(cluster.victims()) == 1


async def test_a_native_gang_that_goes_as_a_whole_spares_nobody(cluster):
    await cluster.begin_with("a", "b")
    await cluster.say(cluster.group("v", 1, kind=NATIVE, goes_whole=True))
    raw = msgspec.Raw(b'{"schedulerName":"bursar","gang":{"name":"v"}}')
    await cluster.say(
        *(cluster.pod(f"v{n}", n, cpu="4", priority=1, constraints=raw) for n in "ab")
    )
    await cluster.say(cluster.pod("p", cpu="2", priority=5))

    assert cluster.victims() == ["va", "vb"]


async def test_who_does_not_end_within_an_hour_is_not_chosen_again_for_a_gang(cluster):
    await cluster.full_of({"a": [1, 1], "b": [2, 2]})
    await cluster.say(*cluster.gang(2))
    await cluster.work()
    first = cluster.victims()
    await cluster.say(
        *(cluster.pod(f"a{n}", "a", cpu="2", priority=1, deletion=0) for n in range(2))
    )
    await cluster.later(3_620)
    await cluster.work()

    assert first == ["a0", "a1"]
    assert sorted(cluster.nominations().values()) == ["b", "b"]


@pytest.mark.parametrize("label", LABELS)
async def test_a_kill_evicts_nobody_twice_and_the_gang_starts_whole(cluster, label):
    await cluster.full_of({"a": [1, 1], "b": [1, 9]})
    kills = [label] * (2 if label.startswith("decision") else 1)

    def kill(reached):
        if reached in kills:
            kills.remove(reached)
            raise Killed

    await cluster.publish(*cluster.gang(3))
    install(kill)
    try:
        for _ in range(40):
            try:
                await cluster.tick()
                await cluster.work()
            except Killed:
                cluster.runner = cluster.new_runner(reactor)
    finally:
        install(None)
    await cluster.went()
    await cluster.later(20)

    assert kills == [] and sorted(cluster.ends) == ["a0", "a1", "b0"]
    assert sorted(cluster.outstanding()) == ["g0", "g1", "g2"]


@pytest.mark.parametrize("seed", range(12))
async def test_a_random_history_never_binds_half_a_gang_and_is_derived_again(seed):
    """Gangs of several priorities come, go, evict one another, and find budgets; processes start again anywhere."""
    cluster, random = GangCrowds(), dice.Random(seed)
    await cluster.begin_with(*"abc", most_pods=20)
    for step in range(40):
        cluster.clock.after(random.randrange(1, 20))
        await cluster.publish(*happening(cluster, random, step))
        if random.random() < 0.1:
            cluster.runner = cluster.new_runner(reactor)
        cluster.refuses = {
            uid for uid in cluster.runner.replica.cluster_state.pods if random.random() < 0.1
        }
        await cluster.read()
        await cluster.work()
        scheduler = cluster.state.scheduler
        assert (scheduler.columns.resources.free[: len(scheduler.columns.names)] >= 0).all()
        assert scheduler.columns.lifted == set()
        held = {}
        for one in scheduler.nominations:
            if one.group:
                held.setdefault(one.group, set()).add(one.uid)
        for key, uids in held.items():
            # Held for as many as the gang lacks, in one pass, or for none of them.
            assert len(uids) == scheduler.gangs.lacking(key) and not scheduler.gangs.all[key].is_complete  # fmt: skip
            assert len({one.passed for one in scheduler.nominations if one.group == key}) == 1
    events = cluster.transport.events
    cuts = random.sample(range(1, len(events)), 5)
    never = {"decides_on": lambda _: False}

    assert known(folded(fresh(cluster), events, [], **never)) == known(
        folded(fresh(cluster), events, [], cuts=cuts, **never)
    )
    assert known(folded(fresh(cluster), events, [], **never)) == known(cluster.runner.replica)
    assert len(cluster.ends) == len({*cluster.ends})
    assert same(cluster) == len(cluster.passes()) + len(cluster.decisions(Evict))


def happening(cluster, random, step):
    """Mostly gangs come, are seen on their nodes, and go as they were asked to."""
    outstanding, pods = cluster.outstanding(), cluster.runner.replica.cluster_state.pods
    does = random.randrange(7)
    ends = [uid for uid in cluster.ends if uid in pods]
    if does <= 1:
        count = random.randint(1, 4)
        return cluster.gang(
            count, random.choice("123"), random.randrange(4), f"s{step}-", random.randint(1, count)
        )
    if does <= 3 and outstanding:
        return [seen(cluster, uid, node) for uid, node in outstanding.items()]
    if does == 4 and ends:
        return [cluster.gone(uid) for uid in ends]
    if does == 5 and ends:
        return [seen(cluster, uid, pods[uid].node, deletion=0) for uid in ends[:1]]
    waiting = [uid for uid, pod in pods.items() if not pod.node]
    return [cluster.gone(random.choice(waiting))] if waiting and random.random() < 0.3 else [cluster.ticked()]  # fmt: skip


def seen(cluster, uid, node, **fields):
    """A pod is seen on its node."""
    pod = cluster.runner.replica.cluster_state.pods[uid]
    terms = pod.constraints.gang
    cpu = str(pod.demand["requests.cpu"] // 1000)
    named = {"name": terms.name, "isLight": True, "least": terms.least}
    raw = msgspec.Raw(msgspec.json.encode({"schedulerName": "bursar", "gang": named}))
    return cluster.pod(uid, node, cpu=cpu, priority=pod.priority, constraints=raw, **fields)


def waiting(cluster):
    """Where the pods are that wait at Permit."""
    return {one.uid: one.node for one in cluster.state.scheduler.assumed.values() if one.waits}


async def test_pods_that_wait_at_permit_are_rejected_for_a_more_important_pod(cluster):
    """A pod of priority 1,000 waited 600 s for a gang that could not start."""
    await cluster.begin_with("a", "b")
    await cluster.say(*cluster.gang(5, priority=0, mode="NonStrict", wait="600s"))
    before = waiting(cluster)
    await cluster.say(cluster.pod("p", cpu="3", priority=1_000))
    [(_, node, victims)] = cluster.said()
    reasons = {cluster.reason(uid) for uid in victims}
    await cluster.later(10)
    await cluster.work()

    assert (len(before), sorted(victims)) == (4, sorted(u for u in before if before[u] == node))
    assert cluster.outstanding() == {"p": node} and cluster.nominations() == {}
    assert waiting(cluster) == {uid: at for uid, at in before.items() if uid not in victims}
    assert reasons == {"preempted by pod p"}
    assert (cluster.evictions(), cluster.ends) == ([], [])
    assert same(cluster) == len(cluster.passes())


async def test_a_waiting_gang_of_the_same_priority_keeps_its_room(cluster):
    await cluster.begin_with("a")
    await cluster.say(*cluster.gang(3, priority=5, mode="NonStrict", wait="600s"))
    before = waiting(cluster)
    await cluster.say(cluster.pod("p", cpu="3", priority=5))
    await cluster.later(60)

    assert (len(before), waiting(cluster)) == (2, before)
    assert (cluster.said(), cluster.outstanding()) == ([], {})


async def test_no_disruption_budget_protects_a_pod_that_waits_at_permit(cluster):
    """It runs nowhere, and its rejection is no eviction; the bound pod beside it is protected."""
    await cluster.begin_with("a", "b")
    await cluster.say(
        cluster.pod("held", "b", cpu="4", priority=0),
        f.disruption_budget_observed("all", namespace="ns", selector=None, is_cut=True, allowed=0),
        *cluster.gang(3, priority=0, mode="NonStrict", wait="600s"),
    )
    await cluster.say(cluster.pod("p", cpu="3", priority=9))
    await cluster.later(10)

    assert cluster.victims() == ["g0", "g1"] and cluster.outstanding() == {"p": "a"}


async def test_bound_victims_are_evicted_and_waiting_ones_rejected(cluster):
    await cluster.begin_with("a")
    await cluster.say(
        cluster.pod("held", "a", cpu="2", priority=0),
        *cluster.gang(2, priority=0, mode="NonStrict", wait="600s"),
    )
    before = waiting(cluster)
    await cluster.say(cluster.pod("p", cpu="4", priority=9))
    await cluster.work()

    assert (len(before), waiting(cluster)) == (1, {})
    assert cluster.victims() == sorted(["held", *before]) and cluster.ends == ["held"]
    await cluster.went()
    await cluster.later(10)
    assert cluster.outstanding() == {"p": "a"}
    assert same(cluster) == len(cluster.passes()) + 1


@pytest.mark.parametrize("how", ["mode", "policy"])
async def test_a_shadow_rejects_no_pod_and_records_its_victims_once(cluster, how):
    await cluster.begin_with("a")
    if how == "policy":
        await cluster.set_policy(SchedulingPolicy(preemption="shadow", pace=FAST))
    else:
        await cluster.set_policy(SchedulingPolicy(preemption="on", pace=FAST), "shadow")
    await cluster.say(*cluster.gang(3, priority=0, mode="NonStrict", wait="600s"))
    before = waiting(cluster)
    await cluster.say(cluster.pod("p", cpu="3", priority=9))
    await cluster.later(90)

    assert (len(before), waiting(cluster)) == (2, before)
    assert cluster.said() == [("p", "a", ["g0", "g1"])] and cluster.evictions() == []
