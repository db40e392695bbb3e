"""Gangs as somebody writes them who means harm: numbers, texts and crowds that nobody needs."""

import msgspec
import pytest

from bus.sources.catalogue import POD_GROUPS, PODS
from reactors.scheduling.gangs import state as gangs
from reactors.scheduling.queueing.queue import Queued
from reactors.scheduling.settings import SchedulingPolicy
from reactors.scheduling.shape import LONGEST_WAIT_US
from tests import factories as f
from tests.bus.sources.records import POLICY, record
from tests.reactors.scheduling.ganging import Ganging

KOORDINATOR = "gang.scheduling.koordinator.sh/"
METADATA = {"name": "evil", "namespace": "ns", "resourceVersion": "77"}
TEXTS = {
    "long wait": "999999999h" * 6,
    "many digits": "9" * 200,
    "ten digits": "9999999999",
    "negative": "-1",
    "no text": "\x00\ud7ff",
    "nested": "[" * 4000,
    "numbers": "[1e999, 10]",
    "many names": "[" + ",".join(f'"a/{n}"' for n in range(500)) + "]",
}


@pytest.fixture
async def cluster():
    found = Ganging()
    await found.begin()
    return found


FIELDS = ("name", "min-available", "total-number", "mode", "waiting-time", "groups")


def told(cluster, source, thing):
    """What a source makes of an object, as an event of this cluster."""
    event = source.translate(record(thing), POLICY)
    return msgspec.structs.replace(event, cluster=cluster.cluster, time_us=f.us(cluster.at()))


def hostile_pod(cluster, uid, noted):
    noted = {f"{KOORDINATOR}{key}": text for key, text in noted.items()}
    metadata = METADATA | {"uid": uid, "annotations": noted}
    spec = {"schedulerName": "bursar", "containers": [{"name": "c"}]}
    return told(cluster, PODS, {"metadata": metadata, "spec": spec})


@pytest.mark.parametrize("text", TEXTS.values(), ids=list(TEXTS))
async def test_whatever_an_annotation_says_a_snapshot_holds_it(cluster, text):
    usual = {"min-available": "1", "mode": "NonStrict"}
    for key in FIELDS:
        noted = usual | {"name": f"of-{key}"} | {key: text}
        await cluster.say(hostile_pod(cluster, key, noted))
    await cluster.tick()
    light = cluster.state.saved().gangs.light

    cluster.same()
    assert len(light) >= 4
    for one in light.values():
        assert one.wait_us <= LONGEST_WAIT_US and len(one.groups) <= gangs.MOST_GANGS + 1


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), -1, 0])
async def test_whatever_a_pod_group_says_a_snapshot_holds_it(cluster, number):
    for field in ("minMember", "scheduleTimeoutSeconds"):
        spec = {"minMember": 1, "scheduleTimeoutSeconds": 1} | {field: number}
        group = {"metadata": METADATA | {"uid": field, "name": field}, "spec": spec}
        await cluster.say(told(cluster, POD_GROUPS[2], group), cluster.of(f"of-{field}", field))
    await cluster.tick()

    cluster.same()
    assert set(cluster.outstanding()) <= {"of-minMember", "of-scheduleTimeoutSeconds"}
    assert "of-scheduleTimeoutSeconds" in cluster.outstanding()


# crowds


async def test_a_strict_gang_of_too_many_waiting_pods_is_not_tried(cluster, monkeypatch):
    monkeypatch.setattr(gangs, "MOST_NEEDED", 5)
    await cluster.say(*cluster.light(6, least=2))
    before, why = cluster.outstanding(), cluster.reason("g0")
    await cluster.say(cluster.gone("g5"))

    assert before == {} and "too many pods that wait; at most 5 start together" in why
    assert len(cluster.outstanding()) == 5
    cluster.same()


async def test_pods_of_a_gang_that_is_not_strict_may_be_as_many_as_they_like(cluster, monkeypatch):
    monkeypatch.setattr(gangs, "MOST_NEEDED", 5)
    await cluster.say(*cluster.light(6, least=2, mode="NonStrict"))

    assert len(cluster.outstanding()) == 6


async def test_each_pod_of_a_gang_is_asked_a_few_times_in_a_pass_whether_it_rests(
    cluster, monkeypatch
):
    asked, real = [], Queued.backoff_ends_us.fget

    def counted(one):
        asked.append(one)
        return real(one)

    monkeypatch.setattr(Queued, "backoff_ends_us", property(counted))
    await cluster.say(*cluster.light(50))

    assert "not all of the 50 pods" in cluster.reason("g0")
    assert len(asked) <= 4 * 50


async def test_a_pod_of_a_complete_gang_starts_though_another_of_its_group_was_made_anew(cluster):
    both = '["ns/g","ns/h"]'
    terms = {"least": "2", "groups": both}
    await cluster.say(
        *(cluster.of(f"{g}{n}", g, "n0" if g == "g" else "n1", **terms) for g in "gh" for n in range(2))
    )  # fmt: skip
    await cluster.say(cluster.gone("h0"), cluster.gone("h1"))
    await cluster.say(cluster.of("h2", "h", **terms), cluster.of("g2", "g", **terms))

    assert set(cluster.outstanding()) == {"g2"}
    assert "fewer are there" in cluster.reason("h2")
    cluster.same()


# room that is held


@pytest.fixture
async def held_in_turns():
    """A gang that is not strict whose pods found room in three passes, 40 s apart."""
    found = Ganging()
    await found.begin(nodes=1)
    await found.say(*found.light(8, mode="NonStrict", wait="100s"))
    for number in (1, 2):
        await found.tick(40)
        await found.say(found.node(f"n{number}"))
        await found.tick(1)
    return found


async def test_when_the_first_wait_ends_the_whole_gang_gives_its_room_back(held_in_turns):
    cluster = held_in_turns
    held = len(cluster.state.scheduler.assumed)
    await cluster.tick(30)
    given_up = dict(cluster.state.scheduler.assumed)
    await cluster.say(cluster.node("n4"))
    for _ in range(3):
        await cluster.tick(30)
        given_up |= cluster.state.scheduler.assumed
    await cluster.tick(40)

    assert (held, given_up) == (6, {})
    assert len(cluster.outstanding()) == 8
    cluster.same()


async def test_a_pod_that_is_changed_while_its_gang_rests_goes_on_resting(held_in_turns):
    cluster = held_in_turns
    await cluster.tick(30)
    await cluster.tick(30)
    await cluster.say(cluster.of("g0", least="8", mode="NonStrict", wait="1s"))
    await cluster.tick(20)

    assert cluster.state.scheduler.assumed == {}
    cluster.same()


# another policy


async def test_who_was_complete_stays_so_by_another_policy(cluster):
    await cluster.say(*(cluster.of(f"g{n}", node=f"n{n}", least="3") for n in range(3)))
    await cluster.say(cluster.gone("g0"), cluster.gone("g1"))
    await cluster.set_policy(SchedulingPolicy(most_pods=400), "on")
    await cluster.say(cluster.of("g3", least="3"))

    assert set(cluster.outstanding()) == {"g3"}
    cluster.same()


async def test_what_the_first_pod_said_counts_by_another_policy_too(cluster):
    await cluster.say(*cluster.light(3, least=9))
    await cluster.say(*cluster.light(3, least=1))
    await cluster.set_policy(SchedulingPolicy(most_pods=400), "on")
    await cluster.tick(400)

    assert cluster.outstanding() == {} and "needs 9 pods" in cluster.reason("g0")
    cluster.same()


async def test_a_gang_whose_node_was_lost_stays_broken_by_another_policy(cluster):
    await cluster.say(*cluster.light(5))
    await cluster.say(cluster.node_gone("n0"))
    await cluster.set_policy(SchedulingPolicy(most_pods=400), "on")
    why = [cluster.state.overtaken(one) for one in cluster.state.outstanding]

    assert len(why) == 5 and set(why) == {"node_gone", "gang_broken"}
    cluster.same()


# names


async def test_a_pod_of_a_gang_that_many_name_costs_no_more_than_one_that_nobody_names(
    cluster, monkeypatch
):
    asked, real = [], gangs.Gangs.needs

    def counted(self, key):
        asked.append(key)
        return real(self, key)

    await cluster.say(*cluster.light(2, least=9), *(
        cluster.of(f"evil{n}", f"evil{n}", least="1", groups=f'["ns/evil{n}","ns/g"]')
        for n in range(100)
    ))  # fmt: skip
    monkeypatch.setattr(gangs.Gangs, "needs", counted)
    await cluster.say(cluster.of("g2", least="9"))

    assert len(asked) < 10 and "does not name the same" in cluster.reason("evil99")


async def test_lists_of_gangs_are_read_once(cluster, monkeypatch):
    read, real = [], msgspec.json.decode

    def counted(text, **kwargs):
        read.append(text)
        return real(text, **kwargs)

    names = '["ns/g",' + ",".join(f'"ns/once-{n}"' for n in range(400)) + "]"
    await cluster.say(cluster.group(least=9, groups=names), cluster.of("a"))
    monkeypatch.setattr(gangs.msgspec.json, "decode", counted)
    await cluster.say(cluster.of("b"))

    assert names not in read and "names more than 16 gangs" in cluster.reason("b")


async def test_a_gang_that_comes_to_agree_or_to_need_less_is_told_to_those_that_name_it(cluster):
    both = '["ns/g","ns/h"]'
    await cluster.say(cluster.group("g", 1, groups=both), cluster.of("g0", "g"))
    absent = cluster.reason("g0")
    await cluster.say(cluster.group("h", 2), cluster.of("h0", "h"))
    apart = cluster.reason("g0")
    await cluster.say(cluster.group("h", 2, groups=both))
    few = cluster.reason("g0")
    await cluster.say(cluster.group("h", 1, groups=both))

    assert "ns/h is not there" in absent and "does not name the same" in apart
    assert "fewer are there" in few and set(cluster.outstanding()) == {"g0", "h0"}
    cluster.same()
