"""Preemption in passes: who goes, whose room is held for whom, and what ends it; on an API server in memory."""

import random as dice
from types import SimpleNamespace

import msgspec
import pytest

from bus.crashpoints import install
from bus.events.constraints import LabelSelector
from bus.events.decisions import Evict
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Record
from bus.sources import pods
from reactors.scheduling.columns.table import Columns, Placed
from reactors.scheduling.framework.context import PluginContext
from reactors.scheduling.framework.contract import Cycle
from reactors.scheduling.framework.runner import Framework
from reactors.scheduling.plugins.catalogue import default_profile
from reactors.scheduling.reactor import reactor
from reactors.scheduling.settings import SchedulingPolicy
from tests import factories as f
from tests.reactors.engine.restoring import folded, known
from tests.reactors.scheduling import oracle
from tests.reactors.scheduling.crowded import LABELS, PDB, Crowded
from tests.reactors.scheduling.scene import OURS, Killed, fresh, refusal, same
from tests.reactors.scheduling.terms import constrained_world, placed
from tests.scenario import FAST

NEVER = msgspec.Raw(b'{"schedulerName":"bursar","neverPreempts":true}')


@pytest.fixture
def cluster():
    return Crowded()


async def test_who_is_less_important_goes_and_the_pod_gets_the_room(cluster):
    await cluster.full(1)
    await cluster.say(cluster.pod("p", cpu="3", priority=5))
    await cluster.work()
    waiting = cluster.outstanding()
    await cluster.went()
    await cluster.later(10)

    assert (cluster.said(), cluster.evictions()) == ([("p", "a", ["a0"])], [("a0", "Pod ns/p")])
    assert (cluster.ends, waiting, cluster.outstanding()) == (["a0"], {}, {"p": "a"})
    assert cluster.nominations() == {}
    assert same(cluster) == len(cluster.passes()) + 1


@pytest.mark.parametrize(
    ("priority", "takes"), [(4, []), (5, []), (6, ["q"])], ids=["lower", "equal", "higher"]
)
async def test_the_room_is_held_against_pods_that_are_not_more_important(cluster, priority, takes):
    await cluster.full(1)
    await cluster.say(cluster.pod("p", cpu="3", priority=5))
    await cluster.work()
    await cluster.say(cluster.pod("q", cpu="2", priority=priority))
    decided = cluster.evictions()
    await cluster.went("a0")
    await cluster.later(10)

    assert decided[0] == ("a0", "Pod ns/p") and len({uid for uid, _ in decided}) == 1
    assert [uid for uid, _ in cluster.placed() if uid == "q"] == takes


async def test_what_is_left_beside_the_room_that_is_held_is_free_for_all(cluster):
    await cluster.full(1)
    await cluster.say(cluster.pod("p", cpu="3", priority=5))
    await cluster.went("a0")
    await cluster.say(cluster.pod("q", cpu="1", priority=0))
    await cluster.later(10)

    assert cluster.outstanding() == {"p": "a", "q": "a"}


@pytest.mark.parametrize("how", ["mode", "policy"])
async def test_a_shadow_records_who_would_go_and_holds_nothing(cluster, how):
    fields = {"mode": "shadow"} if how == "mode" else {"preemption": "shadow"}
    await cluster.full(1, **fields)
    await cluster.say(cluster.pod("p", cpu="3", priority=5))
    await cluster.later(600)
    await cluster.work()

    assert {one.is_shadow for one in cluster.decisions(Evict)} == {True}
    assert cluster.evictions() == [("a0", "Pod ns/p")]
    assert (cluster.ends, cluster.state.scheduler.columns.nominated) == ([], {})


@pytest.mark.parametrize("why", ["off", "never", "as important", "too small"])
async def test_nobody_goes_in_vain(cluster, why):
    await cluster.full(
        5 if why == "as important" else 1, preemption="off" if why == "off" else "on"
    )
    constraints = NEVER if why == "never" else OURS
    cpu = "9" if why == "too small" else "3"
    await cluster.say(cluster.pod("p", cpu=cpu, priority=5, constraints=constraints))
    await cluster.later(60)

    assert (cluster.said(), cluster.evictions()) == ([], [])


async def test_a_pause_and_the_limits_hold_evictions_that_a_pass_wants(cluster):
    """Of less than a hundred pods one goes in five minutes."""
    await cluster.full(1, 1)
    await cluster.say(cluster.pod("p", cpu="4", priority=5))
    await cluster.work()
    first = list(cluster.ends)
    await cluster.went()
    await cluster.later(200)
    await cluster.work()
    soon = list(cluster.ends)
    await cluster.later(110)
    await cluster.work()

    assert (len(first), soon, sorted(cluster.ends)) == (1, first, ["a0", "a1"])


async def test_who_is_refused_rests_and_another_node_is_taken(cluster):
    await cluster.full(1)
    await cluster.say(cluster.node("b"))
    await cluster.fill(2, node="b")
    cluster.refuses.add("a0")
    await cluster.say(cluster.pod("p", cpu="3", priority=5))
    await cluster.work()
    await cluster.later(10)
    nominated = cluster.nominations()
    await cluster.later(310)
    await cluster.work()

    assert cluster.outcomes()[0] == ("refused", PDB.message)
    assert (nominated, cluster.ends) == ({"p": "b"}, ["b0"])
    assert cluster.said() == [("p", "a", ["a0"]), ("p", "b", ["b0"])]


async def test_who_is_refused_is_tried_again_after_a_rest_and_then_later(cluster):
    await cluster.full(1)
    cluster.refuses.add("a0")
    await cluster.say(cluster.pod("p", cpu="3", priority=5))
    times = []
    for minute in range(60):
        before = len(cluster.evictions())
        await cluster.later(60)
        await cluster.work()
        times += [minute] * (len(cluster.evictions()) - before)

    assert len(cluster.outcomes()) == len(cluster.evictions())
    assert 3 <= len(cluster.evictions()) <= 5
    assert times == sorted(times) and cluster.ends == []


async def test_who_does_not_end_within_an_hour_is_not_chosen_again_until_it_is_gone(cluster):
    await cluster.full(1)
    await cluster.say(cluster.node("b"))
    await cluster.fill(2, node="b")
    await cluster.say(cluster.pod("p", cpu="3", priority=5))
    await cluster.work()
    await cluster.say(cluster.pod("a0", "a", cpu="4", priority=1, deletion=0))
    await cluster.later(3_620)
    await cluster.work()
    chosen = cluster.said()
    await cluster.say(cluster.pod("b0", "b", cpu="4", priority=2, deletion=0))
    await cluster.later(3_620 * 3)
    stuck = cluster.nominations()
    await cluster.went("a0")
    await cluster.later(300)

    assert chosen == [("p", "a", ["a0"]), ("p", "b", ["b0"])]
    assert (stuck, cluster.ends, cluster.outstanding()) == ({}, ["a0", "b0"], {"p": "a"})
    assert same(cluster) == len(cluster.passes()) + len(cluster.evictions())


async def test_where_one_refuses_to_go_the_others_need_not(cluster):
    """A tenant's budget that says late that it protects its pod does not cost its neighbours theirs."""
    await cluster.full(1, 1)
    selector = msgspec.convert({"matchLabels": {"app": "x"}}, LabelSelector)
    budget = f.disruption_budget_observed("b", 1, cluster.at(), selector=selector, allowed=1)
    await cluster.say(budget, cluster.pod("a1", "a", cpu="2", priority=1, labels={"app": "x"}))
    cluster.refuses.add("a1")
    await cluster.say(cluster.node("c"), *(cluster.pod(f"y{n}", "c", cpu="0", priority=9) for n in range(109)))  # fmt: skip
    await cluster.say(cluster.pod("p", cpu="4", priority=5, labels={"app": "z"}))
    await cluster.work()

    assert cluster.said() == [("p", "a", ["a0", "a1"])]
    assert (cluster.outcomes(), cluster.ends) == ([("refused", PDB.message)], [])
    await cluster.later(120)
    await cluster.work()
    assert (cluster.outcomes(), cluster.ends) == ([("refused", PDB.message)], [])


async def test_who_a_budget_protects_is_left_alone_and_so_are_its_neighbours(cluster):
    await cluster.full(1, 1)
    selector = msgspec.convert({"matchLabels": {"app": "x"}}, LabelSelector)
    await cluster.say(
        f.disruption_budget_observed("b", 1, cluster.at(), selector=selector, allowed=0),
        cluster.pod("a1", "a", cpu="2", priority=1, labels={"app": "x"}),
        cluster.pod("p", cpu="4", priority=5),
    )
    await cluster.say(cluster.pod("q", cpu="2", priority=5))

    assert cluster.said() == [("q", "a", ["a0"])]


@pytest.mark.parametrize("what", ["node gone", "pod gone", "nobody goes", "more important"])
async def test_a_nomination_ends(cluster, what):
    await cluster.full(1)
    await cluster.say(cluster.pod("p", cpu="3", priority=5))
    before = cluster.nominations()
    does = {
        "node gone": lambda: cluster.say(cluster.node_gone("a")),
        "pod gone": lambda: cluster.went("p"),
        "nobody goes": lambda: cluster.later(610),
        "more important": lambda: cluster.say(cluster.pod("q", cpu="3", priority=6)),
    }
    await does[what]()
    await cluster.runner.work()
    ended = cluster.nominations()

    assert before == {"p": "a"}
    assert "p" not in ended or len(cluster.said()) > 1
    if what != "nobody goes":
        assert ended == ({"q": "a"} if what == "more important" else {})


def test_what_a_pod_says_of_its_own_nomination_is_not_known():
    """A tenant may write it into the status of a pod: it holds no room."""
    metadata = {"name": "p", "namespace": "ns", "uid": "p", "resourceVersion": "1"}
    spec = {"schedulerName": "bursar", "containers": []}
    said = []
    for status in ({"phase": "Pending"}, {"phase": "Pending", "nominatedNodeName": "a"}):
        raw = msgspec.json.encode({"metadata": metadata, "spec": spec, "status": status})
        said.append(pods.translate(Record("ADDED", raw, 0, "c", "c"), LabelPolicy()).body)

    assert said[0] == said[1]


async def test_an_eviction_that_nobody_wants_any_more_is_not_done(cluster):
    await cluster.full(1)
    await cluster.say(cluster.pod("p", cpu="3", priority=5))
    await cluster.went("p")
    await cluster.work()

    assert (cluster.outcomes(), cluster.ends) == ([("stale", "not_wanted")], [])


async def test_a_policy_that_takes_preemption_back_ends_it(cluster):
    await cluster.full(1)
    await cluster.say(cluster.pod("p", cpu="3", priority=5))
    await cluster.set_policy(SchedulingPolicy(pace=FAST))
    await cluster.work()

    assert (cluster.nominations(), cluster.ends) == ({}, [])


@pytest.mark.parametrize("label", LABELS)
async def test_a_kill_loses_nothing_and_evicts_nobody_twice(cluster, label):
    await cluster.full(1)
    kills = [label] * (2 if label.startswith("decision") else 1)

    def kill(reached):
        if reached in kills:
            kills.remove(reached)
            raise Killed

    await cluster.publish(cluster.pod("p", cpu="3", priority=5))
    install(kill)
    try:
        for _ in range(12):
            try:
                await cluster.tick()
                await cluster.work()
            except Killed:
                cluster.runner = cluster.new_runner(reactor)
    finally:
        install(None)
    await cluster.went("a0")
    await cluster.later(10)

    assert kills == []
    assert (cluster.ends, cluster.outstanding()) == (["a0"], {"p": "a"})


async def test_a_pass_ends_after_a_few_searches_and_the_next_goes_on(cluster):
    await cluster.full(1, 1)
    await cluster.publish(*(cluster.pod(f"p{n}", cpu=f"{9 + n}", priority=5) for n in range(10)))
    await cluster.read()

    assert [len(one.pods) for one in cluster.passes()] == [4, 4, 2]


@pytest.mark.parametrize("seed", range(8))
async def test_a_random_history_never_over_commits_and_is_derived_again(seed):
    """Pods of several priorities come and go, evictions are refused, processes start again anywhere."""
    cluster, random = Crowded(), dice.Random(seed)
    await cluster.set_policy(SchedulingPolicy(preemption="on", pace=FAST, most_pods=5))
    await cluster.say(*(cluster.node(name) for name in "abc"))
    await cluster.say(*(cluster.pod(f"x{n}", "elsewhere", cpu="0") for n in range(60)))
    for step in range(50):
        cluster.clock.after(random.randrange(1, 20))
        await cluster.publish(*happening(cluster, random, step))
        if random.random() < 0.1:
            cluster.runner = cluster.new_runner(reactor)
        cluster.refuses = {
            uid for uid in cluster.runner.replica.cluster_state.pods if random.random() < 0.2
        }
        await cluster.read()
        await cluster.work()
        columns = cluster.state.scheduler.columns
        assert (columns.resources.free[: len(columns.names)] >= 0).all()
    events = cluster.transport.events
    cuts = random.sample(range(1, len(events)), 5)
    never = {"decides_on": lambda _: False}

    assert known(folded(fresh(cluster), events, [], **never)) == known(
        folded(fresh(cluster), events, [], cuts=cuts, **never)
    )
    assert known(folded(fresh(cluster), events, [], **never)) == known(cluster.runner.replica)
    assert cluster.said() and len(cluster.ends) == len({*cluster.ends})
    assert same(cluster) == len(cluster.passes()) + len(cluster.decisions(Evict))


def happening(cluster, random, step):
    """What happens next: mostly pods come, are seen on their nodes, and go as they were asked to."""
    outstanding, pods = cluster.outstanding(), cluster.runner.replica.cluster_state.pods
    does = random.randrange(6)
    ends = [uid for uid in cluster.ends if uid in pods]
    if does <= 1:
        return [
            cluster.pod(f"p{step}-{n}", cpu=random.choice("123"), priority=random.randrange(4))
            for n in range(random.randint(1, 3))
        ]
    if does == 2 and outstanding:
        return [again(cluster, uid, node) for uid, node in list(outstanding.items())[:3]]
    if does == 3 and ends:
        return [cluster.gone(uid) for uid in ends]
    if does == 4 and outstanding:
        return [cluster.settled(random.choice(list(outstanding)))]
    waiting = [uid for uid, pod in pods.items() if not pod.node]
    return [cluster.gone(random.choice(waiting))] if waiting and random.random() < 0.3 else [cluster.ticked()]  # fmt: skip


def again(cluster, uid, node):
    """A pod is seen on its node."""
    pod = cluster.runner.replica.cluster_state.pods[uid]
    cpu = str(pod.demand["requests.cpu"] // 1000)
    return cluster.pod(uid, node, cpu=cpu, priority=pod.priority)


@pytest.mark.parametrize("seed", range(30))
def test_a_node_takes_a_pod_only_beside_those_that_it_is_held_for(seed):
    """Against the oracle: with them on the node, and without."""
    world, random = constrained_world(seed)
    names = [one.name for one in world.state.current_nodes()]
    held = {}
    for number in range(6):
        pod = world.pod(f"nominated{number}", **placed(random, None), priority=random.randrange(4))
        held[pod.uid] = Placed(pod, random.choice(names))
    pod = world.pod("p", **placed(random, None), priority=2)
    columns = Columns(world.state)
    columns.nominated = held
    framework = Framework(default_profile("default-scheduler"), PluginContext(columns))
    free = columns.resources.free.copy()
    choice = framework.choose(Cycle(pod, framework.context), 1)
    fits = {columns.names[row] for row in choice.rows}

    assert (columns.resources.free == free).all()
    for name in names:
        there = [one.pod for one in held.values() if one.node == name and one.pod.priority >= 2]
        assert (name in fits) == (takes(pod, name, world.state, ()) and takes(pod, name, world.state, there))  # fmt: skip


def takes(pod, name, state, more):
    pods = state.pods | {one.uid: msgspec.structs.replace(one, node=name) for one in more}
    beside = SimpleNamespace(nodes=state.nodes, pods=pods, namespaces=state.namespaces)
    nodes = oracle.nodes(beside)
    return not refusal(pod, next(one for one in nodes if one.name == name), nodes, beside)
