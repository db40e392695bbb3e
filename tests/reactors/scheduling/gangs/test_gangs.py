"""Pods of a gang get nodes together or not at all: in one pass, and whatever happens between pass and bind."""

from random import Random

import pytest

from bus.events.pods import NATIVE
from reactors.scheduling.diagnosis import summaries
from reactors.scheduling.gangs.state import MOST_NEEDED
from reactors.scheduling.reactor import reactor
from tests.reactors.engine.restoring import folded, known
from tests.reactors.scheduling.ganging import Ganging, happens
from tests.reactors.scheduling.scene import OTHERS, fresh, same


@pytest.fixture
async def cluster():
    found = Ganging()
    await found.begin()
    return found


async def test_a_gang_gets_nodes_in_one_decision(cluster):
    await cluster.say(cluster.group(least=6), *(cluster.of(f"p{n}") for n in range(6)))

    assert len(cluster.outstanding()) == 6
    assert len(cluster.passes()) == 1
    cluster.same()


async def test_a_gang_that_does_not_fit_as_a_whole_gets_nothing_and_takes_no_room(cluster):
    await cluster.say(*cluster.light(7), cluster.pod("alone", cpu="4"))

    assert set(cluster.outstanding()) == {"alone"}
    assert "not all of the 7 pods that gang ns/g needs find a node" in cluster.reason("g0")
    await cluster.say(cluster.node("n3"), cluster.node("n4"))
    await cluster.tick()
    assert len(cluster.outstanding()) == 8
    cluster.same()


async def test_pods_beyond_what_a_gang_needs_start_where_there_is_room(cluster):
    await cluster.say(*cluster.light(8, least=5))

    assert len(cluster.outstanding()) == 6


@pytest.mark.parametrize(
    ("said", "why"),
    [({"least": "9"}, "needs 9 pods, and fewer are there"),
     ({"least": "1000000000000"}, "does not say how many pods"),
     ({"least": "9999999999"}, f"at most {MOST_NEEDED} start together"),
     ({"least": "x"}, "does not say how many pods"),
     ({"least": "1", "groups": '["ns/g","other/h"]'}, "gang other/h is not there"),
     ({"least": "1", "groups": '["other/h"]'}, "is not in the group that it names")],
    ids=["incomplete", "10^12", "large", "illegal", "absent gang", "without itself"],
)  # fmt: skip
async def test_a_gang_that_cannot_start_is_not_tried_and_says_why(cluster, said, why):
    await cluster.say(*(cluster.of(f"p{n}", **said) for n in range(2)))
    for _ in range(3):
        await cluster.tick(400)

    assert cluster.passes() == [] and why in cluster.reason("p0")


async def test_a_label_without_a_pod_group_waits_for_it(cluster):
    await cluster.say(cluster.of("a"), cluster.of("b"))
    before = cluster.reason("a")
    await cluster.say(cluster.group(least=2, kind=NATIVE))

    assert "has no PodGroup" in before
    assert set(cluster.outstanding()) == {"a", "b"}
    cluster.same()


async def test_a_pod_group_that_needs_less_while_its_pods_wait_lets_them_start(cluster):
    await cluster.say(cluster.group(least=4, kind=NATIVE), cluster.of("a"), cluster.of("b"))
    before = cluster.outstanding()
    await cluster.say(cluster.group(least=2, kind=NATIVE))

    assert before == {} and set(cluster.outstanding()) == {"a", "b"}


async def test_gangs_of_a_group_start_together_across_namespaces(cluster):
    both = '["ns/g","other/h"]'
    await cluster.say(*cluster.light(3, groups=both))
    before = cluster.outstanding()
    await cluster.say(
        *(cluster.of(f"h{n}", "h", namespace="other", least="4", groups=both) for n in range(4))
    )
    too_many = cluster.outstanding()
    await cluster.say(cluster.node("n3"))
    await cluster.tick()

    assert (before, too_many) == ({}, {})
    assert len(cluster.outstanding()) == 7
    cluster.same()


async def test_who_names_the_gang_of_another_namespace_holds_up_nobody_but_itself(cluster):
    await cluster.say(*cluster.light(2), *(
        cluster.of(f"evil{n}", "evil", namespace="theirs", least="1", groups='["theirs/evil","ns/g"]')
        for n in range(2)
    ))  # fmt: skip

    assert set(cluster.outstanding()) == {"g0", "g1"}
    assert "gang ns/g does not name the same group" in cluster.reason("evil0")


async def test_what_the_first_pod_said_counts_whatever_is_written_later(cluster):
    await cluster.say(*cluster.light(4, least=9))
    await cluster.say(*cluster.light(4, least=1))
    await cluster.tick(400)

    assert cluster.outstanding() == {}
    assert "needs 9 pods" in cluster.reason("g0")
    cluster.same()


async def test_pods_of_other_schedulers_do_not_make_a_gang_complete(cluster):
    other = [cluster.of(f"x{n}", scheduler="default-scheduler", least="4") for n in range(2)]
    await cluster.say(*cluster.light(2, least=4), *other)
    before = cluster.outstanding()
    bound = [
        cluster.of(f"x{n}", node="n0", scheduler="default-scheduler", least="4") for n in range(2)
    ]
    await cluster.say(*bound)

    assert before == {} and set(cluster.outstanding()) == {"g0", "g1"}


@pytest.mark.parametrize("named", ["light", "group"])
async def test_a_pod_that_is_made_again_when_all_others_have_ended_starts_by_itself(cluster, named):
    """As the last one of a Job that failed, or that of more completions than are done at once: its gang was complete."""
    terms = {"least": "3"} if named == "light" else {}
    if named == "group":
        await cluster.say(cluster.group(least=3, kind=NATIVE))
    await cluster.say(*(cluster.of(f"p{n}", **terms) for n in range(3)))
    nodes = dict(cluster.outstanding())
    assert len(nodes) == 3
    await cluster.say(*(cluster.of(uid, node=node, **terms) for uid, node in nodes.items()))
    await cluster.say(
        *(cluster.of(uid, node=node, phase="Succeeded", **terms) for uid, node in nodes.items())
    )
    await cluster.say(cluster.of("again", **terms))

    assert set(cluster.outstanding()) == {"again"}
    cluster.same()


async def test_once_its_pods_are_gone_a_gang_begins_anew(cluster):
    await cluster.say(
        *(cluster.of(f"p{n}", node="n0", phase="Failed", least="3") for n in range(3))
    )
    await cluster.say(*(cluster.gone(f"p{n}") for n in range(3)))
    await cluster.say(cluster.of("again", least="3"))

    assert cluster.outstanding() == {}
    assert "needs 3 pods, and fewer are there" in cluster.reason("again")


async def test_pods_that_ended_without_a_node_make_no_gang_complete(cluster):
    await cluster.say(*(cluster.of(f"p{n}", phase="Failed", least="3") for n in range(3)))
    await cluster.say(cluster.of("again", least="3"))

    assert cluster.outstanding() == {}


# not strict


async def test_pods_of_a_gang_that_is_not_strict_keep_their_room_until_enough_have_some(cluster):
    await cluster.say(*cluster.light(8, mode="NonStrict", wait="100s"))
    held = dict(cluster.state.scheduler.assumed)
    before = cluster.outstanding()
    await cluster.say(cluster.node("n3"))
    await cluster.tick()

    assert (len(held), before) == (6, {})
    assert len(cluster.outstanding()) == 8
    cluster.same()


async def test_a_pod_group_that_koordinator_made_of_annotations_says_nothing_of_the_gang(cluster):
    await cluster.say(cluster.group(least=8, is_copy=True))
    await cluster.say(*cluster.light(8, mode="NonStrict", wait="100s"))
    held = len(cluster.state.scheduler.assumed)
    await cluster.say(cluster.group(least=8))

    # A strict gang of eight has no room, so none of its pods has any.
    assert (held, cluster.state.scheduler.gangs.is_strict("ns/g")) == (6, True)
    cluster.same()


async def test_room_is_held_for_no_longer_than_the_gang_says_and_then_left_as_long(cluster):
    await cluster.say(*cluster.light(8, mode="NonStrict", wait="100s"))
    await cluster.tick(60)
    held = len(cluster.state.scheduler.assumed)
    await cluster.tick(60)
    await cluster.say(cluster.pod("other", cpu="4"))
    given_up = set(cluster.state.scheduler.assumed)
    await cluster.tick(60)

    assert (held, given_up) == (6, {"other"})
    assert set(cluster.state.scheduler.assumed) == {"other"}
    await cluster.tick(100)
    assert len(cluster.state.scheduler.assumed) == 5
    cluster.same()


# between the pass and the bind


async def test_where_a_node_is_lost_before_any_pod_is_bound_none_is(cluster):
    await cluster.say(*cluster.light(5))
    found = {one.uid: one for one in cluster.state.outstanding}
    await cluster.say(cluster.node_gone("n0"))
    why = {uid: cluster.state.overtaken(one) for uid, one in found.items()}

    assert set(why.values()) == {"node_gone", "gang_broken"}


async def test_one_that_is_refused_takes_the_others_along_while_none_is_bound(cluster):
    await cluster.say(*cluster.light(4))
    await cluster.say(cluster.settled("g0"))
    found = [cluster.state.overtaken(one) for one in cluster.state.outstanding]

    assert found == ["gang_broken"] * 3
    cluster.same()


async def test_one_that_is_refused_after_the_gang_was_complete_starts_again_by_itself(cluster):
    await cluster.say(*cluster.light(4, least=3))
    await cluster.say(*(cluster.of(f"g{n}", "g", "n0" if n else "n1", least="3") for n in range(3)))
    await cluster.say(cluster.settled("g3"))
    for _ in range(3):
        await cluster.tick()

    assert set(cluster.outstanding()) == {"g3"}
    assert cluster.state.overtaken(next(iter(cluster.state.outstanding))) == ""
    cluster.same()


async def test_a_node_that_is_taken_between_event_and_pass_leaves_no_half_gang(cluster):
    """The pass is decided on what was read; a node that changed since is asked again where the pass stands."""
    await cluster.publish(*cluster.light(6))
    replica = cluster.runner.replica
    for event in cluster.transport.events[replica.sequence :]:
        replica.apply(event)
    (batch,) = replica.concluded().values()
    await cluster.publish(cluster.pod("late", "n1", cpu="4", constraints=OTHERS))
    await cluster.transport.publish(batch)
    await cluster.read()
    waits = dict(cluster.state.scheduler.assumed)
    await cluster.tick()

    assert 0 < len(waits) < 6 and cluster.outstanding() == {}
    assert cluster.state.scheduler.assumed == {}
    assert "n1 took it no more" in cluster.reason("g1") + cluster.reason("g0") + cluster.reason(
        "g2"
    )


async def test_diagnosis_tells_of_gangs_as_koordinator_does(cluster):
    await cluster.say(
        *cluster.light(8, mode="NonStrict", wait="100s"), cluster.of("h0", "h", least="x")
    )
    replica = cluster.runner.replica
    found = summaries.gangs(replica)

    assert list(found) == ["ns/g", "ns/h"] and summaries.gang(replica, "ns/none") is None
    assert found["ns/h"]["hasGangInit"] is False
    assert found["ns/g"] == summaries.gang(replica, "ns/g")
    assert found["ns/g"] | {"children": 8, "waitingForBindChildren": 6} == {
        "name": "ns/g", "hasGangInit": True, "gangFrom": "GangFromPodAnnotation", "mode": "NonStrict",
        "minRequiredNumber": 8, "totalChildrenNum": 8, "waitTime": 100 * 10**9, "gangGroup": ["ns/g"],
        "children": 8, "waitingForBindChildren": 6, "boundChildren": [], "onceResourceSatisfied": False,
    }  # fmt: skip
    assert len(found["ns/g"]["children"]) == 8 and len(found["ns/g"]["waitingForBindChildren"]) == 6


# random worlds


@pytest.mark.parametrize("seed", range(8))
async def test_in_random_histories_all_is_a_fold_and_no_strict_gang_is_bound_in_part(seed):
    random = Random(seed)
    cluster = Ganging()
    await cluster.begin()
    for step in range(50):
        cluster.clock.after(random.randrange(12))
        await cluster.publish(*happens(cluster, random, step))
        if random.random() < 0.1:
            cluster.runner = cluster.new_runner(reactor)
        await (cluster.tick() if random.random() < 0.3 else cluster.read())
        gangs = cluster.state.scheduler.gangs
        for one in cluster.outstanding():
            gang, found = gangs.of(one), cluster.state.scheduler.assumed[one]
            if (
                gang is not None
                and gangs.is_strict(gang.key)
                and not cluster.state.overtaken(found)
            ):
                assert gangs.missing(gangs.group(gang.key)) == ""
        columns = cluster.state.scheduler.columns
        assert (columns.resources.free[: len(columns.names)] >= 0).all()
    events = cluster.transport.events
    cuts = random.sample(range(1, len(events)), 5)
    never = {"decides_on": lambda _: False}
    whole = known(folded(fresh(cluster), events, [], **never))

    assert whole == known(folded(fresh(cluster), events, [], cuts=cuts, **never))
    assert same(cluster) == len(cluster.passes())


def fits(rooms, wanted):
    """Whether pods of equal size fit: a brute-force oracle for one size is a sum."""
    return sum(room // 2 for room in rooms) >= wanted


async def go_on(cluster, random, step):
    """Something happens, and what is overtaken by it is settled."""
    out = cluster.outstanding()
    does = random.randrange(4)
    names = [one.name for one in cluster.runner.replica.cluster_state.current_nodes()]
    if does == 0 and out:
        await cluster.say(cluster.settled(random.choice(sorted(out))))
    elif does == 1 and len(names) > 1:
        await cluster.say(cluster.node_gone(random.choice(names)))
    elif does == 2:
        await cluster.say(cluster.node(f"new{step}"))
    else:
        await cluster.tick(random.choice((10, 30, 400)))
    for one in list(cluster.state.outstanding):
        why = cluster.state.overtaken(one)
        if why and one.uid in cluster.state.scheduler.assumed:
            await cluster.say(cluster.settled(one.uid, message=why))


@pytest.mark.parametrize("seed", range(12))
async def test_in_small_worlds_strict_gangs_are_whole_or_nothing_and_start_where_they_fit(seed):
    random = Random(seed)
    cluster = Ganging()
    await cluster.begin(nodes=random.randint(1, 4))
    gangs, facts = {}, []
    for number in range(random.randint(1, 4)):
        name, least = f"g{number}", random.randint(1, 6)
        have = least + random.randint(-1, 2)
        gangs[name] = (least, have)
        facts += cluster.light(have, least, name)
    random.shuffle(facts)
    await cluster.say(*facts)
    for step in range(8):
        out = cluster.outstanding()
        for name, (least, have) in gangs.items():
            held = [uid for uid in cluster.state.scheduler.assumed if uid.startswith(name)]
            bound = [
                uid
                for uid, pod in cluster.runner.replica.cluster_state.pods.items()
                if pod.node and uid.startswith(name)
            ]
            assert not held or bound or len(held) >= least, (step, name)
            assert not [uid for uid in out if uid.startswith(name)] or have >= least
        # Whoever is complete and is left out does not fit beside the others.
        rooms = [int(row[0]) // 1000 for row in cluster.state.scheduler.columns.resources.free]
        for name, (least, have) in gangs.items():
            waits = not any(uid.startswith(name) for uid in out) and step == 0
            if waits and have >= least:
                assert not fits(rooms, least), name
        await go_on(cluster, random, step)
    cluster.same()
