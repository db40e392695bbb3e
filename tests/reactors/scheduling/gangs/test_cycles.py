"""By the rules of Koordinator 1.0 each pod of a strict gang is tried once a cycle, and waits with its room for the others."""

from random import Random

import pytest

from reactors.scheduling.diagnosis import summaries
from reactors.scheduling.reactor import reactor
from reactors.scheduling.settings import SchedulingPolicy, SchedulingProfile
from tests.reactors.engine.restoring import folded, known
from tests.reactors.scheduling.gang_crowds import GangCrowds
from tests.reactors.scheduling.ganging import Ganging, happens
from tests.reactors.scheduling.scene import fresh, same


@pytest.fixture
async def cluster():
    found = Ganging()
    await found.begin(rules="v1.0")
    return found


def tries(cluster):
    """(pod, node or "", reason of the pod itself) in the order in which pods were tried."""
    return [
        (p.uid, one.nodes[p.node] if p.node >= 0 else "", one.refusals[p.refused].reason if p.refused >= 0 else "")
        for one in cluster.passes() for p in one.pods
    ]  # fmt: skip


async def test_a_cycle_that_failed_gives_the_room_back_and_the_next_one_tries_all_again(cluster):
    await cluster.say(*cluster.light(7))
    first = tries(cluster)
    held = dict(cluster.state.scheduler.assumed)
    await cluster.say(cluster.node("n3"))
    for _ in range(4):
        await cluster.tick(10)

    # Six find room; the last finds none, so nobody keeps it.
    assert [bool(node) for _, node, _ in first] == [True] * 6 + [False] and held == {}
    assert len(cluster.outstanding()) == 7
    cluster.same()


async def test_after_a_failure_no_other_pod_of_the_gang_is_tried_in_that_cycle(cluster):
    await cluster.say(cluster.of("big", least="3"), *cluster.light(2, least=3))
    await cluster.say(*(cluster.gone(uid) for uid in ("big", "g0", "g1")))
    await cluster.say(*(cluster.node_gone(f"n{n}") for n in range(3)))
    before = len(tries(cluster))
    await cluster.say(*cluster.light(3, gang="h"))
    found = [reason for _, _, reason in tries(cluster)[before:]]

    assert ["has failed" in reason for reason in found] == [False, True, True]
    gang = summaries.gang(cluster.runner.replica, "ns/h")
    assert (gang["scheduleCycle"], gang["scheduleCycleValid"]) == (1, False)
    assert gang["childrenScheduleRoundMap"] == {"ns/h0": 1, "ns/h1": 1, "ns/h2": 1}


async def test_more_pods_in_all_than_there_are_end_no_cycle(cluster):
    """As Koordinator 1.0 does: the gang names ten pods and has two, so the failed cycle never ends."""
    await cluster.say(*(cluster.node_gone(f"n{n}") for n in range(3)))
    await cluster.say(*cluster.light(2, total="10"))
    await cluster.say(cluster.node("later"))
    for _ in range(5):
        await cluster.tick(400)

    assert cluster.outstanding() == {}
    assert "cycle 1 of gang ns/g has failed" in cluster.reason("g0")
    cluster.same()


class Plainly:
    """The rule told naively: everything is counted again for each pod."""

    def __init__(self):
        self.number, self.is_valid, self.of = 1, True, {}

    def tried(self, uid, total):
        if sum(number == self.number for number in self.of.values()) == total:
            self.number, self.is_valid = self.number + 1, True
        before, self.of[uid] = self.of.get(uid, 0), self.number
        if not self.is_valid:
            return "has failed"
        return "was tried in cycle" if before >= self.number else ""


@pytest.mark.parametrize("seed", range(12))
async def test_in_random_worlds_pods_are_tried_as_the_rule_says_told_naively(cluster, seed):
    random, model, at = Random(seed), Plainly(), 0
    count = random.randint(2, 6)
    total = random.choice((count, count, count - 1, count + 1, 0))
    await cluster.say(*(cluster.node_gone(f"n{n}") for n in range(random.randint(0, 3))))
    await cluster.say(*cluster.light(count, least=count, total=str(total), wait="20s"))
    for step in range(25):
        for uid, node, reason in tries(cluster)[at:]:
            found = model.tried(uid, count if 0 < total < count else total)
            assert (found in reason) if found else "cycle" not in reason, (uid, reason)
            if not node:
                model.is_valid = False
        at = len(tries(cluster))
        if cluster.outstanding():
            break
        names = [one.name for one in cluster.runner.replica.cluster_state.current_nodes()]
        if names and random.random() < 0.3:
            await cluster.say(cluster.node_gone(random.choice(names)))
        elif random.random() < 0.5:
            await cluster.say(cluster.node(f"new{step}"))
        await cluster.tick(random.choice((1, 5, 10, 30, 400)))

    cluster.same()


@pytest.mark.parametrize("seed", range(6))
async def test_in_random_histories_all_is_a_fold(cluster, seed):
    random = Random(seed)
    for step in range(50):
        cluster.clock.after(random.randrange(12))
        await cluster.publish(*happens(cluster, random, step))
        if random.random() < 0.1:
            cluster.runner = cluster.new_runner(reactor)
        await (cluster.tick() if random.random() < 0.3 else cluster.read())
        columns = cluster.state.scheduler.columns
        assert (columns.resources.free[: len(columns.names)] >= 0).all()
    events = cluster.transport.events
    cuts = random.sample(range(1, len(events)), 5)
    never = {"decides_on": lambda _: False}
    whole = known(folded(fresh(cluster), events, [], **never))

    assert cluster.state.scheduler.gangs.cycles.all
    assert whole == known(folded(fresh(cluster), events, [], cuts=cuts, **never))
    assert same(cluster) == len(cluster.passes())


def test_all_profiles_go_by_the_same_rules():
    older = SchedulingProfile(name="a", fields={"Coscheduling": {"rules": "v1.0"}})
    without = SchedulingProfile(name="b", weights={"Coscheduling": 0})

    SchedulingPolicy(profiles=(older, without))
    with pytest.raises(ValueError, match="the same in all profiles"):
        SchedulingPolicy(profiles=(older, SchedulingProfile(name="b")))


@pytest.mark.parametrize("mode", ["", "NonStrict"])
async def test_nobody_is_evicted_for_a_strict_gang_that_is_counted_in_cycles(mode):
    cluster = GangCrowds()
    profile = SchedulingProfile(fields={"Coscheduling": {"rules": "v1.0"}})
    await cluster.full_of({"a": [1, 1], "b": [9, 9]}, profiles=(profile,))
    await cluster.say(*cluster.gang(4, mode=mode))
    await cluster.later(700)

    assert cluster.victims() == ([] if not mode else ["a0", "a1"])
    assert same(cluster) == len(cluster.passes()) + len(cluster.evictions())


async def test_the_rest_of_a_gang_that_is_bound_in_part_is_tried_again_when_there_is_room():
    cluster = Ganging()
    await cluster.begin(nodes=1, rules="v1.0")
    await cluster.say(cluster.node("n1"), *cluster.light(3, total="3"))
    nodes = cluster.outstanding()
    others = sorted(set(nodes) - {"g0"})
    spare = "n1" if nodes["g0"] == "n0" else "n0"
    await cluster.say(cluster.of("g0", node=nodes["g0"], least="3", total="3"))
    await cluster.say(*(cluster.settled(uid) for uid in others), cluster.node_gone(spare))
    for _ in range(5):
        await cluster.tick(60)
    before = cluster.outstanding()
    await cluster.say(cluster.node("later"))
    for _ in range(5):
        await cluster.tick(60)

    assert (len(nodes), before, sorted(cluster.outstanding())) == (3, {}, others)
    cluster.same()


@pytest.mark.parametrize(("rules", "nodes", "passes"), [("v1.0", 3, 60), ("v1.0", 0, 2), ("current", 3, 2)])  # fmt: skip
async def test_a_gang_of_which_some_pods_find_room_is_tried_every_ten_seconds(rules, nodes, passes):
    cluster = Ganging()
    await cluster.begin(nodes=nodes, rules=rules)
    await cluster.say(*cluster.light(7))
    before = len(cluster.passes())
    for _ in range(60):
        await cluster.tick(10)

    assert len(cluster.passes()) - before == passes
