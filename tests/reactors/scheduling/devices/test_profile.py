"""A profile with DeviceShare: what is bound names its devices, what others bound says them, and every choice is derived again."""

import json
from random import Random

import msgspec
import pytest

from bus.events.constraints import DeviceHint, DeviceTerms, LabelSelector, PodConstraints
from bus.events.decisions import SchedulingPassed
from bus.events.devices import ALLOCATED, FUNCTIONS
from bus.waiting import Moves
from reactors.engine.verify import rederive
from reactors.scheduling.effects import PlacementSource
from reactors.scheduling.reactor import reactor
from reactors.scheduling.settings import SchedulingPolicy, SchedulingProfile
from tests import factories as f
from tests.reactors.engine.restoring import folded, known
from tests.reactors.scheduling.plugins.sharing import K, asking, cards, device_object, gpu, nic
from tests.scenario import Scenario

POLICY = SchedulingPolicy(profiles=(SchedulingProfile(weights={"DeviceShare": 5}),))
#: RDMA devices at the switches of its cards, and a virtual function of each.
NEAR = DeviceTerms(
    {"rdma": DeviceHint(functions=LabelSelector())}, ("gpu", "rdma"), same_switch=True
)
OURS = msgspec.Raw(msgspec.json.encode({"schedulerName": "bursar"}))


def pod(at, name, node=None, version=1, texts=None, terms=None, **wanted):
    said = msgspec.json.encode(PodConstraints(scheduler_name="bursar", devices=terms))
    return f.pod_observed(
        name, version, at.at(), node=node, constraints=msgspec.Raw(said), card_texts=texts or {}, **asking(**wanted)
    )  # fmt: skip


def saying(*minors, kind="gpu"):
    return {ALLOCATED: json.dumps({kind: [{"minor": minor, "resources": {}} for minor in minors]})}


async def scene(nodes="a", count=2, mode="on"):
    at = Scenario(reactor, {})
    amounts = {f"{K}{name}": str(count * 100) for name in ("gpu", "gpu-memory-ratio", "rdma")}
    offered = cards(count, **amounts)
    await at.say(*(f.node_observed(name, 1, at.at(), uid=name, allocatable=offered) for name in nodes))  # fmt: skip
    await at.set_policy(POLICY, mode=mode)
    return at


def placed(at):
    """By pod: the newest node and cards that a pass gave it."""
    return {
        one.name: (passed.nodes[one.node], one.cards)
        for passed in at.facts(SchedulingPassed)
        for one in passed.pods
        if one.node >= 0
    }


def outstanding(at):
    placements = PlacementSource(at.runner.replica, Moves())
    return {
        uid: placements.annotations(placements.placement(uid)) for uid, _ in placements.decisions()
    }


async def test_a_pod_is_bound_with_koordinators_annotation():
    at = await scene()
    await at.say(device_object("a", gpu(0), gpu(1), nic(0), at=at.at()))
    await at.say(pod(at, "p", gpu=50, rdma=20), pod(at, "q", gpu_core=10, gpu_memory=3 * 2**29))
    found = {uid: texts[ALLOCATED] for uid, texts in outstanding(at).items()}

    assert found["p"] == (
        '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"50","koordinator.sh/gpu-memory":"8Gi",'
        '"koordinator.sh/gpu-memory-ratio":"50"},"id":"GPU-0"}],"rdma":[{"minor":0,"resources":{"koordinator.sh/rdma":"20"}}]}'
    )
    [part] = json.loads(found["q"])["gpu"]
    assert part["resources"] == {
        f"{K}gpu-core": "10",
        f"{K}gpu-memory": "1536Mi",
        f"{K}gpu-memory-ratio": "9",
    }
    assert placed(at).keys() == {"p", "q"}


async def test_a_pod_without_devices_has_no_annotation():
    at = await scene()
    await at.say(f.pod_observed("p", 1, at.at(), node=None, constraints=OURS))

    assert outstanding(at) == {"p": {}}


@pytest.mark.parametrize(
    "text",
    [saying(0)[ALLOCATED], "", "{", '{"gpu":[{"Minor":0}]}', '{"gpu":[{"minor":"0"}]}', '{"gpu":[{"minor":0},{"minor":0}]} ',
     "[" * 16_000, '{"gpu":[{"minor":0}],"gpu":[]}', '{"gpu":[{"minor":0}],"x":1}', "\U0001f600"],
    ids=range(10),
)  # fmt: skip
@pytest.mark.parametrize("wanted", [{}, {"gpu": 150}, {"gpu_memory_ratio": 0}], ids=range(3))
async def test_devices_that_a_pod_names_itself_are_taken_from_it(text, wanted):
    """Koordinator's agent reads more spellings than can be read here."""
    at = await scene()
    await at.say(pod(at, "p", texts={ALLOCATED: text}, **wanted))

    assert outstanding(at) == ({} if wanted.get("gpu") else {"p": {ALLOCATED: "{}"}})


async def test_who_said_nothing_at_first_frees_no_card_by_later_words():
    at = await scene()
    await at.say(pod(at, "theirs", "a", gpu=100))
    await at.say(pod(at, "theirs", "a", 2, texts=saying(1), gpu=100))
    events, never = at.transport.events, {"decides_on": lambda _: False}
    replica = folded(at.new_runner(reactor).replica, events, [], cuts=[len(events) - 1], **never)
    known_of = replica.states["scheduling"].saved().dealt["theirs"]
    await at.say(pod(at, "p", gpu=100))

    assert known_of.cards == () and placed(at) == {"p": ("a", (1,))}


async def test_devices_that_another_scheduler_gave_are_known():
    at = await scene()
    await at.say(pod(at, "theirs", "a", texts=saying(1), gpu=100))
    await at.say(pod(at, "p", gpu=60))
    await at.say(pod(at, "q", gpu=60))

    assert placed(at) == {"p": ("a", (0,))}


@pytest.mark.parametrize(
    "texts",
    [saying(0), saying(7), saying(0, 1), saying(0, kind="rdma"), saying(-1), {ALLOCATED: "[" * 16_000}, {ALLOCATED: "{"},
     {ALLOCATED: '{"gpu":1}'}, {ALLOCATED: '{"gpu":[{"minor":1e300}]}'}, {ALLOCATED: '{"gpu":[{"minor":' + "9" * 400 + "}]}"}],
    ids=range(10),
)  # fmt: skip
async def test_what_a_tenant_claims_frees_no_card(texts):
    """A card is full; another pod says that it is on that card too, or on one that is not there."""
    at = await scene()
    await at.say(pod(at, "ours", gpu=100))
    await at.say(pod(at, "ours", "a", 2, gpu=100))
    # By its name it is before ours.
    await at.say(pod(at, "a", "a", texts=texts, gpu=100))
    # The sums of the node have room by these names.
    await at.say(pod(at, "p", gpu_core=10, gpu_memory=1))

    assert placed(at) == {"ours": ("a", (0,))}


async def test_what_a_pod_said_first_and_what_was_decided_count():
    at = await scene(count=3)
    await at.say(pod(at, "ours", gpu=100))
    await at.say(pod(at, "ours", "a", 2, texts=saying(2), gpu=100))
    await at.say(pod(at, "theirs", "a", texts=saying(1), gpu=100))
    await at.say(pod(at, "theirs", "a", 2, texts=saying(2), gpu=100))
    await at.say(pod(at, "p", gpu=100))

    assert placed(at) == {"ours": ("a", (0,)), "p": ("a", (2,))}


async def test_every_choice_of_devices_is_derived_again_also_from_snapshots():
    at, dice = await scene("abc", 4), Random(5)
    for step in range(2, 44):
        does, there = dice.randrange(6), sorted(at.runner.replica.cluster_state.pods)
        said_later = [name for name in there if name.startswith("o")]
        if step % 5 == 0 and said_later:
            node = at.runner.replica.cluster_state.pods[said_later[0]].node
            await at.say(pod(at, said_later[0], node, 100 + step, texts=saying(3), gpu=30))
        elif does == 0:
            devices = [gpu(n, is_healthy=dice.random() < 0.8, numa=n // 2, switch=f"s{n // 2}") for n in range(4)]  # fmt: skip
            devices += (nic(n, f"s{n}", functions=(f"0000:0{n}:00.1",)) for n in range(2))
            await at.say(device_object(dice.choice("abc"), *devices, version=step, at=at.at()))
        elif does == 1:
            said, size = saying(*dice.sample(range(5), dice.randrange(3))), dice.choice((30, 100))
            await at.say(pod(at, f"o{step}", dice.choice("abc"), texts=said, gpu=size))
        elif does == 2 and there:
            await at.say(f.pod_vanished(dice.choice(there), 900 + step, at.at()))
        else:
            terms, more = dice.choice(((None, {}), (NEAR, {"rdma": 30})))
            await at.say(
                pod(at, f"p{step}", terms=terms, gpu=dice.choice((20, 50, 100, 200)), **more)
            )
        await at.tick(5)
    events = at.transport.events
    cuts, never = dice.sample(range(1, len(events)), 6), {"decides_on": lambda _: False}
    replica = lambda: at.new_runner(reactor).replica  # noqa: E731
    again = rederive(lambda: iter(events), [reactor], at.cluster)

    assert known(folded(replica(), events, [], **never)) == known(
        folded(replica(), events, [], cuts=cuts, **never)
    )
    assert (again.mismatches, again.same) == ((), len(at.facts(SchedulingPassed)))
    assert len(placed(at)) > 8 and any(cards[-1] > FUNCTIONS for _, cards in placed(at).values())


async def test_what_was_given_is_known_after_scheduling_was_off_and_the_process_began_anew():
    at = await scene(count=3)
    await at.say(pod(at, "p", gpu=100), pod(at, "q", gpu=100), pod(at, "r", gpu=100))
    mine = placed(at)
    cards_of = {name: mine[name][1] for name in "pqr"}
    await at.say(*(pod(at, name, "a", 2, gpu=100) for name in "pqr"))
    await at.set_policy(POLICY, mode="off")
    await at.tick(5)
    [first] = [name for name in "pqr" if cards_of[name] == (0,)]
    await at.say(f.pod_vanished(first, 50, at.at()))
    events, never = at.transport.events, {"decides_on": lambda _: False}
    replica = folded(at.new_runner(reactor).replica, events, [], cuts=[len(events) - 1], **never)
    await at.set_policy(POLICY)
    await at.say(pod(at, "s", gpu=50), pod(at, "t", gpu=60))

    assert sorted(replica.states["scheduling"].saved().dealt) == sorted(set("pqr"))
    assert placed(at)["s"] == ("a", (0,)) and "t" not in placed(at)


@pytest.mark.parametrize("case", ["remade", "smaller", "ill"])
async def test_a_pod_is_not_bound_to_devices_that_are_not_there_any_more(case):
    at = await scene(count=2)
    await at.say(pod(at, "held", gpu=100), pod(at, "p", gpu=100))
    before, cards_of = sorted(outstanding(at)), placed(at)
    if case == "ill":
        await at.say(device_object("a", gpu(0, is_healthy=False), gpu(1), at=at.at()))
    else:
        count = 1 if case == "smaller" else 2
        offered = {
            **cards(count),
            f"{K}gpu": str(100 * count),
            f"{K}gpu-memory-ratio": str(100 * count),
        }
        await at.say(f.node_vanished("a", 90, at.at(), uid="a"))
        await at.say(f.node_observed("a", 91, at.at(), uid="another", allocatable=offered))
    placements = PlacementSource(at.runner.replica, Moves())
    said = {
        uid: placements.overtaken(placements.placement(uid)) for uid, _ in placements.decisions()
    }

    assert before == ["held", "p"]
    ill = {uid: "devices_taken" if cards == (0,) else "" for uid, (_, cards) in cards_of.items()}
    assert said == (ill if case == "ill" else dict.fromkeys(before, "node_gone"))
    assert sorted(ill.values()) == ["", "devices_taken"]
