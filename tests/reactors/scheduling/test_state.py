"""The scheduler as a fold: passes take effect where they stand, in every process alike, and are derived again."""

from random import Random

import msgspec
import pytest

from bus.clock import SECOND_US
from bus.crashpoints import install
from bus.events.volumes import StorageClassObserved
from bus.jetstream.wire import headers
from bus.streams import history
from bus.waiting import Moves
from reactors.scheduling.effects import PlacementSource
from reactors.scheduling.metrics import figures
from reactors.scheduling.reactor import reactor
from reactors.scheduling.settings import SchedulingPolicy
from reactors.scheduling.shape import CONFIRMED_US
from tests import factories as f
from tests.reactors.engine.restoring import folded, known
from tests.reactors.scheduling.scene import OTHERS, Cluster, Killed, fresh, same
from tests.scraping import scraped


@pytest.fixture
async def cluster():
    found = Cluster()
    await found.set_policy(SchedulingPolicy())
    return found


async def test_pods_that_come_together_are_one_pass_and_wait_for_their_confirmation(cluster):
    await cluster.say(cluster.node("a"), *(cluster.pod(f"p{n}") for n in range(3)))
    (passed,) = cluster.passes()
    found = cluster.outstanding()
    await cluster.say(cluster.pod("p0", "a"))

    assert (found, passed.count, passed.assumed) == (dict.fromkeys(("p0", "p1", "p2"), "a"), 1, 0)
    assert set(cluster.outstanding()) == {"p1", "p2"}
    assert len(cluster.passes()) == 1


async def test_a_pass_says_who_refused_which_nodes_and_which_nodes_were_best(cluster):
    nodes = [cluster.node(name) for name in "abc"]
    await cluster.say(
        *nodes, cluster.node("d", unschedulable=True), cluster.pod("p"), cluster.pod("q", cpu="9")
    )
    (passed,) = cluster.passes()
    placed, waits = passed.pods

    assert (placed.feasible, passed.refusals[placed.refused].nodes) == (
        3, {"NodeUnschedulable": {"node(s) were unschedulable": 1}},
    )  # fmt: skip
    assert placed.top[0] == placed.node
    assert sorted(passed.nodes[at] for at in placed.top[::2]) == ["a", "b", "c"]
    assert (waits.node, passed.refusals[waits.refused].nodes["NodeResourcesFit"]) == (
        -1, {"Insufficient cpu": 3},
    )  # fmt: skip


async def test_each_part_of_a_large_pass_fits_a_message_of_the_stream(cluster):
    roomy = {"cpu": "64", "memory": "900Gi", "pods": "110"}
    nodes = [cluster.node(f"n{number:02}", allocatable=roomy) for number in range(20)]
    pods = [cluster.pod(f"{number:036}", cpu=f"{number % 7 + 1}0m") for number in range(500)]
    await cluster.say(*nodes, *pods)
    passes = cluster.passes()

    assert len(passes) > 1 and len({one.after for one in passes}) == 1
    assert sum(len(one.pods) for one in passes) == 500
    for event in cluster.transport.events:
        headers(event, "", history().max_message_bytes)
    assert same(cluster) == len(passes)


async def test_an_idle_cluster_and_one_without_a_policy_make_no_event(cluster):
    silent = Cluster()
    await silent.say(silent.node("a"), silent.pod("p"))
    await cluster.say(cluster.node("a"), cluster.pod("other", constraints=OTHERS))
    for _ in range(5):
        await cluster.tick()

    assert (silent.passes(), cluster.passes(), silent.state.scheduler) == ([], [], None)


async def test_a_stuck_pod_is_told_once_and_then_by_its_number(cluster):
    await cluster.say(cluster.node("a"), cluster.pod("p", cpu="9"))
    for _ in range(6 * 60):
        await cluster.tick()

    first, *others = cluster.passes()
    assert [one.uid for one in first.pods] == ["p"]
    assert len(others) == 12
    assert all(one.pods == () and one.again == (1,) for one in others)


async def test_a_bind_that_failed_gives_its_room_back_and_is_tried_again_after_its_back_off(
    cluster,
):
    await cluster.say(cluster.node("a"), cluster.pod("p", cpu="3"))
    await cluster.say(cluster.settled("p"))
    nothing = cluster.outstanding()
    await cluster.tick()

    assert nothing == {}
    assert cluster.outstanding() == {"p": "a"}
    assert cluster.placed() == [("p", "a")] * 2


@pytest.mark.parametrize(
    "what", ["node gone", "cordoned", "room gone", "pod gone", "bound elsewhere"]
)
async def test_what_was_read_between_a_pass_and_its_ground_overtakes_it(cluster, what):
    """The pass is stored behind what its process had not read when it decided."""
    await cluster.say(cluster.node("a"))
    await cluster.publish(cluster.pod("p", cpu="3"))
    (event,) = cluster.transport.events[-1:]
    await cluster.runner.apply(event)
    late = {
        "node gone": lambda: cluster.node_gone("a"),
        "cordoned": lambda: cluster.node("a", unschedulable=True),
        "room gone": lambda: cluster.pod("q", "a", cpu="2", constraints=OTHERS),
        "pod gone": lambda: cluster.gone("p"),
        "bound elsewhere": lambda: cluster.pod("p", "b"),
    }[what]()
    await cluster.publish(late)
    await cluster.runner.conclude()
    await cluster.read()

    assert cluster.placed() == [("p", "a")]
    assert cluster.outstanding() == {}
    assert same(cluster) == len(cluster.passes())


async def test_a_bind_that_failed_is_not_tried_again_where_the_pod_may_not_be_placed_any_more(
    cluster,
):
    terms = msgspec.Raw(b'{"schedulerName":"bursar","unkeptLabels":["tier"]}')
    await cluster.say(cluster.node("a"), cluster.pod("p"), cluster.pod("q"))
    await cluster.say(cluster.pod("p", constraints=terms))
    await cluster.say(cluster.settled("p"), cluster.settled("q"))
    queue = cluster.state.scheduler.queues["bursar"]
    reason = queue.get("p").reason
    await cluster.tick(60)

    assert "tier" in reason and queue.get("p").reason == reason
    assert cluster.outstanding() == {"q": "a"}


async def test_a_policy_that_changed_keeps_the_room_of_binds_that_may_be_under_way(cluster):
    await cluster.say(cluster.node("a"), cluster.pod("p", cpu="3"))
    await cluster.set_policy(SchedulingPolicy(most_pods=7))
    await cluster.say(cluster.pod("q", cpu="3"))
    stale = cluster.state.policy_digest != cluster.passes()[0].policy
    await cluster.set_policy(SchedulingPolicy(most_pods=7), mode="off")
    kept = cluster.outstanding()
    await cluster.say(cluster.settled("p", "shadow"))
    await cluster.tick()

    assert (stale, kept, cluster.placed()) == (True, {"p": "a"}, [("p", "a")])
    assert (cluster.state.scheduler, cluster.outstanding()) == (None, {})


async def test_a_shadow_decides_for_all_binds_none_and_ends():
    cluster = Cluster()
    await cluster.set_policy(SchedulingPolicy(), mode="shadow")
    anyone = {"constraints": OTHERS}
    await cluster.say(cluster.node("a"), *(cluster.pod(uid, **anyone) for uid in ("p", "q", "r")))
    await cluster.say(
        cluster.pod("p", "a", **anyone), cluster.node("b"), cluster.pod("q", "b", **anyone)
    )
    cluster.clock.after(CONFIRMED_US // SECOND_US)
    await cluster.say(cluster.ticked())

    assert all(one.is_shadow for one in cluster.passes())
    assert (cluster.outstanding(), cluster.state.scheduler.assumed) == ({}, {})


async def test_what_was_done_is_counted_over_the_whole_history(cluster):
    await cluster.say(cluster.node("a"), *(cluster.pod(f"p{n}") for n in range(3)))
    await cluster.say(cluster.pod("stuck", cpu="9"))
    await cluster.say(cluster.settled("p2", "gone"), cluster.pod("p0", "a"), cluster.pod("p1", "b"))
    found = scraped(figures(cluster.runner.replica))
    name = "bursar_scheduling_"

    assert found[name + 'decisions_total{result="placed"}'] == 3
    assert found[name + 'decisions_total{result="unschedulable"}'] == 1
    assert {key: value for key, value in found.items() if "_binds_" in key} == {
        name + f'binds_total{{result="{result}"}}': 1 for result in ("bound", "elsewhere", "gone")
    }
    assert found[name + 'pods_waiting{profile="bursar",state="backoff"}'] == 2
    assert found[name + 'bind_seconds_bucket{le="+Inf"}'] == 1
    assert found[name + "passes_total"] == len(cluster.passes()) == 2
    assert found[name + "last_pass_timestamp_seconds"] * SECOND_US <= cluster.state.at_us


async def test_nothing_is_measured_where_nothing_was_ever_scheduled():
    assert scraped(figures(Cluster().runner.replica)) == {}


async def test_a_bind_that_nobody_confirms_is_trouble(cluster):
    placements = PlacementSource(cluster.runner.replica, Moves())
    await cluster.say(cluster.node("a"), cluster.pod("p"))
    before = placements.late()
    cluster.clock.after(CONFIRMED_US // SECOND_US)
    await cluster.say(cluster.ticked())

    assert (before, placements.late()) == ([], ["ns/p"])


async def test_two_processes_decide_one_pass(cluster):
    second = cluster.new_runner(reactor)
    await cluster.read(second)
    await cluster.publish(cluster.node("a"), *(cluster.pod(f"p{n}", cpu="100m") for n in range(5)))
    for event in cluster.transport.events[second.replica.sequence :]:
        await second.apply(event)
        await cluster.runner.apply(event)
    await second.conclude()
    await cluster.publish(cluster.pod("q", cpu="100m"))
    await cluster.read()
    await cluster.runner.conclude()
    await cluster.read()
    await cluster.read(second)

    pods = [uid for uid, _ in cluster.placed()]
    assert sorted(pods) == sorted({*pods}) == sorted([*(f"p{n}" for n in range(5)), "q"])
    assert known(second.replica) == known(cluster.runner.replica)


@pytest.mark.parametrize("label", ["decision.before_publish", "decision.after_publish"])
async def test_a_process_that_is_killed_around_a_pass_decides_it_once(cluster, label):
    def kill(reached):
        if reached == label:
            install(None)
            raise Killed

    await cluster.publish(cluster.node("a"), cluster.pod("p"))
    install(kill)
    try:
        with pytest.raises(Killed):
            await cluster.read()
    finally:
        install(None)
    cluster.runner = cluster.new_runner(reactor)
    await cluster.read()

    assert cluster.placed() == [("p", "a")]
    assert cluster.outstanding() == {"p": "a"}


@pytest.mark.parametrize("seed", range(12))
async def test_a_random_history_never_over_commits_and_is_derived_again(seed):
    """With refusals, deletes, cordons, pods of others, and processes that start again anywhere."""
    cluster = Cluster()
    await cluster.set_policy(SchedulingPolicy(most_pods=5))
    random = Random(seed)
    await cluster.say(*(cluster.node(name) for name in "abc"))
    for step in range(60):
        cluster.clock.after(random.randrange(3))
        await cluster.publish(*happening(cluster, random, step))
        if random.random() < 0.1:
            cluster.runner = cluster.new_runner(reactor)
        await cluster.read()
        columns = cluster.state.scheduler.columns if cluster.state.scheduler else None
        if columns is not None:
            assert (columns.resources.free[: len(columns.names)] >= 0).all()
    events = cluster.transport.events
    cuts = random.sample(range(1, len(events)), 5)
    never = {"decides_on": lambda _: False}

    assert known(folded(fresh(cluster), events, [], **never)) == known(
        folded(fresh(cluster), events, [], cuts=cuts, **never)
    )
    assert len(cluster.placed()) > 10
    assert same(cluster) == len(cluster.passes())


def happening(cluster, random, step):
    """What happens next. Others bind only where there is room, as every scheduler does."""
    outstanding = cluster.outstanding()
    does = random.randrange(7)
    if does <= 2:
        return [
            cluster.pod(f"p{step}-{n}", cpu=random.choice("123"))
            for n in range(random.randint(1, 4))
        ]
    if does == 3 and outstanding:
        return [bound(cluster, uid) for uid in list(outstanding)[: random.randint(1, 3)]]
    if does == 4 and outstanding:
        return [
            cluster.settled(random.choice(list(outstanding)), random.choice(("refused", "lost")))
        ]
    if does == 5:
        name = random.choice("abc")
        if random.random() < 0.3:
            return [cluster.node_gone(name), cluster.node(name, uid=f"{name}{step}")]
        return [cluster.node(name, uid=cluster.uid(name), unschedulable=random.random() < 0.3)]
    pods = list(cluster.runner.replica.cluster_state.pods)
    return [cluster.gone(random.choice(pods))] if pods else [cluster.ticked()]


def bound(cluster, uid):
    """The API server's word that a pod is on its node."""
    cpu = cluster.runner.replica.cluster_state.pods[uid].demand["requests.cpu"] // 1000
    return cluster.pod(uid, cluster.outstanding()[uid], cpu=str(cpu))


async def test_a_pod_whose_volume_is_made_is_late_only_when_it_may_be_bound_for_long(cluster):
    """Its node is not to blame while it waits for its volume, nor is the watch."""
    made_by = StorageClassObserved(
        uid="s", name="waits", resource_version="1", provisioner="p", waits_for_consumer=True
    )
    home = {"storage_class": "waits"}
    await cluster.say(
        cluster.node("a"), f.said(made_by, key="s", id="class", at=cluster.at()),
        f.claim_observed("home", 1, cluster.at(), **home),
        cluster.pod("p", constraints=msgspec.Raw(b'{"schedulerName":"bursar","claims":["home"]}')),
    )  # fmt: skip
    placements = PlacementSource(cluster.runner.replica, Moves())
    found = []
    for step in ("made", "bound", "late"):
        if step == "bound":
            bound = home | {"volume": "v", "is_bound": True}
            at = cluster.at()
            await cluster.say(f.volume_observed("v", 2, at), f.claim_observed("home", 3, at, **bound))  # fmt: skip
        else:
            await cluster.tick(CONFIRMED_US // SECOND_US + 10)
        found.append(placements.late())

    assert cluster.outstanding() == {"p": "a"}
    assert found == [[], [], ["ns/p"]]
