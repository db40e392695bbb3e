"""Another policy of the scheduler on recorded history, beside the same pods under that policy live."""

import pytest

from reactors.lab.placements import outcome
from tests.reactors.lab.placement_worlds import PACKS, of, played, policy, seconds, world
from tests.thorough import tries


def two_policies(seed):
    return (policy(PACKS), policy()) if seed % 2 else (policy(), policy(PACKS))


def starts(found):
    return {one.life.uid: seconds(one.bound_us) for one in found.stays if one.bound_us}


def is_alike(found, live):
    """Whether the lab and the live run place the same pods, within 20 seconds."""
    tried = starts(found)
    return tried.keys() == live.starts.keys() and all(
        abs(at - live.starts[name]) <= 20 for name, at in tried.items()
    )


@pytest.mark.thorough
def test_the_hours_of_the_other_policy_lie_in_the_interval():
    worlds = tries(15, 200)
    waited = nodes = 0
    for seed in range(worlds):
        tried, recorded = two_policies(seed)
        live, record = world(seed, tried), world(seed, recorded)

        made = of(record.events, tried)
        less = made.total.cpu_milli_s
        waited += less.low <= record.waited - live.waited <= less.high
        less = made.node_less_s
        nodes += less.low <= record.node_seconds - live.node_seconds <= less.high

    assert waited >= 0.95 * worlds - 1
    assert nodes >= 0.95 * worlds - 1


@pytest.mark.thorough
def test_the_starts_are_those_of_the_live_run_where_pods_end_by_themselves():
    worlds, same = tries(12, 200), 0
    for seed in range(worlds):
        tried, recorded = two_policies(seed)
        live, record = world(seed, tried, ends=0), world(seed, recorded, ends=0)

        ((likely,),), _ = played(record.events, tried, rules=("likely",))
        same += is_alike(likely, live)

    assert same >= 0.85 * worlds - 1


@pytest.mark.thorough
def test_the_policy_on_record_gives_the_record_in_nearly_all_worlds():
    worlds, same = tries(12, 200), 0
    for seed in range(worlds):
        tried, _ = two_policies(seed)
        record = world(seed, tried)
        (found,), lives = played(record.events, tried)
        total = outcome(found, lives.of.values(), by="namespace").total
        same += total.kinds == {"same": total.pods}

    assert same >= 0.95 * worlds - 1
