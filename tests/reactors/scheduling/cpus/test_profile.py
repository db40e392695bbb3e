"""A profile with NodeNUMAResource: CPUs of their own are never shared, whatever fails, and every choice is derived again."""

from random import Random

import pytest

from bus.cpusets import parsed, written
from bus.events.constraints import HeldCpus
from bus.events.decisions import BindSettled, FailedBind, SchedulingPassed
from reactors.engine.verify import rederive
from reactors.scheduling.effects import PlacementSource
from reactors.scheduling.reactor import reactor
from reactors.scheduling.settings import SchedulingPolicy, SchedulingProfile
from tests import factories as f
from tests.reactors.engine.restoring import folded, known, restored
from tests.reactors.scheduling.binding_cpus import CPUS, OFFERED, POLICY, pod, scene, topology
from tests.reactors.scheduling.plugins.sharing import K, cards, device_object, gpu
from tests.thorough import tries


def state(at):
    return at.runner.replica.states[reactor.name]


def outstanding(at):
    return list(state(at).outstanding)


def test_a_profile_with_it_follows_how_cpus_lie():
    assert POLICY.follows == {"NodeResourceTopology"}


async def test_the_cpus_stand_in_the_decision_and_in_the_binding():
    at = await scene("a")
    await at.say(pod(at, "p", 2), pod(at, "q", 2), pod(at, "r", 5), pod(at, "s", 2, qos="LS"))
    await at.tick()
    passed = at.facts(SchedulingPassed)[0]
    bindings = PlacementSource(at.runner.replica, None)
    told = {name: bindings.placement(name).cpus for name in "pqs"}

    assert passed.cpus == {"p": HeldCpus("0-1"), "q": HeldCpus("2-3")}
    assert told == {"p": '{"cpuset":"0-1"}', "q": '{"cpuset":"2-3"}', "s": ""}
    assert [one.name for one in passed.pods if one.node < 0] == ["r"]


async def test_a_pod_is_not_bound_to_cpus_that_another_scheduler_gave_away():
    at = await scene("a")
    await at.say(pod(at, "p", 4))
    await at.tick()
    before = state(at).overtaken(outstanding(at)[0])
    await at.say(pod(at, "other", 2, node="a", holds=HeldCpus("1-2")))

    assert (before, state(at).overtaken(outstanding(at)[0])) == ("", "cpus_taken")


@pytest.mark.parametrize("qos", ["LSR", "LS"])
async def test_what_a_pod_says_unreadably_is_written_over_by_the_binding(qos):
    at = await scene("a")
    await at.say(pod(at, "p", 2, holds=HeldCpus(), qos=qos))
    await at.tick()
    told = PlacementSource(at.runner.replica, None).placement("p").cpus

    assert told == ('{"cpuset":"0-1"}' if qos == "LSR" else "{}")


async def test_a_pod_with_cpus_and_cards_says_which_of_them_were_taken():
    wanted = {"DeviceShare": 5, "NodeNUMAResource": 10}
    at = await scene("a")
    offered = OFFERED | cards(2, **{f"{K}gpu": "200", f"{K}gpu-memory-ratio": "200"})
    await at.say(f.node_observed("a", 2, at.at(), uid="a", allocatable=offered))
    await at.set_policy(SchedulingPolicy(profiles=(SchedulingProfile(weights=wanted),)))
    card = {f"{K}gpu-core": "100", f"{K}gpu-memory-ratio": "100"}
    await at.say(*(pod(at, name, 2, also=card) for name in "pq"))
    await at.tick()
    cards_of = {one.uid: one.cards for one in outstanding(at)}
    await at.say(device_object("a", gpu(0, is_healthy=False), gpu(1), at=at.at()))
    found = {cards_of[one.uid]: state(at).overtaken(one) for one in outstanding(at)}

    assert found == {(0,): "devices_taken", (1,): ""}
    await at.say(pod(at, "other", 4, node="a", holds=HeldCpus("0-3")))
    assert {state(at).overtaken(one) for one in outstanding(at) if one.cards == (1,)} == {"cpus_taken"}  # fmt: skip


async def test_a_pod_that_waits_for_cpus_gets_them_when_a_node_tells_of_them():
    at = await scene("a")
    await at.say(topology(at, "a", 2, cpus=()), pod(at, "p", 4))
    await at.tick(15)
    before = len(outstanding(at))
    await at.say(topology(at, "a", 3))
    await at.tick(15)

    assert (before, [one.cpus for one in outstanding(at)]) == (0, [HeldCpus("0-3")])


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(tries(3, 30)))
async def test_cpus_are_never_shared_through_kills_refusals_and_deletes_of_nodes(seed):
    at, dice = await scene(), Random(seed)
    sizes: dict[str, int] = {}
    bound: dict[str, tuple[str, HeldCpus]] = {}
    decided: dict[str, HeldCpus] = {}
    for step in range(40):
        does = dice.randrange(9)
        if does < 3:
            sizes[f"p{step}"] = dice.randrange(1, 6)
            wants = {"exclusive": dice.choice(("", "PCPULevel"))}
            await at.say(pod(at, f"p{step}", sizes[f"p{step}"], **wants))
        elif does < 5 and (found := outstanding(at)):
            one = dice.choice(found)
            decided[one.uid] = one.cpus
            await binds(at, dice, one, sizes, bound)
        elif does == 5 and bound:
            gone = dice.choice(sorted(bound))
            await at.say(f.pod_vanished(gone, 9, at.at(), node=bound.pop(gone)[0]))
        elif does == 6:
            at.runner.replica = restored(at.runner.replica)
        elif does == 7 and dice.random() < 0.4:
            node = dice.choice("ab")
            await at.say(f.node_vanished(node, 10 + 2 * step, at.at(), uid=f"{node}"))
            bound = {uid: one for uid, one in bound.items() if one[0] != node}
            await at.say(f.node_observed(node, 11 + 2 * step, at.at(), uid=f"{node}{step}", allocatable=OFFERED))  # fmt: skip
        elif does == 8 and bound:
            # Its owner changes what it says that it has: what a decision gave it stays its own, and no more.
            uid, says = dice.choice(sorted(bound)), dice.choice((None, HeldCpus("0-3")))
            await at.say(pod(at, uid, sizes[uid], 3 + step, bound[uid][0], says))
            bound[uid] = (bound[uid][0], decided[uid])
        await at.tick(dice.choice((5, 60)))
        ahead = [(one.node, one.cpus) for one in outstanding(at)]
        for node in "ab":
            held = [cpu for name, one in (*ahead, *bound.values()) if name == node for cpu in parsed(one.cpuset)]  # fmt: skip
            assert len(held) == len(set(held))
    await derived_again(at, dice)


async def binds(at, dice, one, sizes, bound):
    """A bind succeeds, is refused, or is done by another scheduler, on other CPUs."""
    if dice.random() < 0.3:
        failed = FailedBind(one.uid, one.passed, "refused", "no", one.decision)
        fact = BindSettled(failed=(failed,))
        await at.say(f.said(fact, key="bursar", id=f"settled/{one.passed}/{one.uid}", at=at.at()))
        return
    cpus, all_held = one.cpus, one.cpus
    taken = [own for name, own in bound.values() if name == one.node]
    taken += [each.cpus for each in outstanding(at) if each.node == one.node]
    free = sorted(set(range(CPUS)).difference(*(parsed(own.cpuset) for own in taken)))
    if len(free) >= sizes[one.uid] and dice.random() < 0.4:
        cpus = HeldCpus(written(dice.sample(free, sizes[one.uid])))
        # What the decision gave it is its own, too.
        all_held = HeldCpus(written(parsed(cpus.cpuset) | parsed(one.cpus.cpuset)))
    await at.say(pod(at, one.uid, sizes[one.uid], 2, one.node, cpus))
    bound[one.uid] = (one.node, all_held)


async def derived_again(at, dice):
    events = at.transport.events
    cuts, never = dice.sample(range(1, len(events)), 6), {"decides_on": lambda _: False}
    replica = lambda: at.new_runner(reactor).replica  # noqa: E731
    found = rederive(lambda: iter(events), [reactor], at.cluster)

    assert known(folded(replica(), events, [], **never)) == known(
        folded(replica(), events, [], cuts=cuts, **never)
    )
    assert (found.mismatches, found.same) == ((), len(at.facts(SchedulingPassed)))
    assert any(one.cpus for one in at.facts(SchedulingPassed))
