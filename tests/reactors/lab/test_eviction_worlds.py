"""Another policy of evictions on recorded history, beside the same pods under that policy live."""

import random

import pytest

from reactors.evictions.settings import EvictionPolicy
from reactors.lab.evictions import outcome
from tests.reactors.evictions.scene import FAST
from tests.reactors.lab.eviction_worlds import cards, evictions, lived, played
from tests.thorough import tries


def shares(rng):
    return {"monitor_all_quotas": True, "delay_evict_seconds": rng.choice([20, 60, 200])}


@pytest.mark.thorough
@pytest.mark.simulated
def test_the_evictions_are_those_of_the_live_run_and_its_hours_lie_in_the_interval():
    worlds = tries(6, 200)
    inside = same = gone = 0
    for seed in range(worlds):
        rng = random.Random(seed)
        pods, tried = cards(rng), shares(rng)
        spent = ((rng.randrange(200, 600), "GraceOver"), (rng.randrange(700, 1_000), "Ok"))
        on_record = rng.choice([("off", {}), ("shadow", tried), ("on", shares(rng)), ("on", {})])
        live, record = lived(pods, "on", tried, spent), lived(pods, *on_record, spent)

        found = played(record.events, "shadow", EvictionPolicy(pace=FAST, **tried))
        freed = outcome(found, by="namespace").total.gpu_milli_s
        inside += freed.low <= record.held - live.held <= freed.high
        gone += len(live.gone)
        evicted, other = evictions(found.decided, record.begin_us), sorted(live.gone.items())
        same += len(evicted) == len(other) and all(
            name == twin and abs(at - second) <= 20
            for (name, at), (twin, second) in zip(evicted, other, strict=True)
        )

    assert gone >= worlds
    assert inside >= 0.95 * worlds - 1
    assert same >= 0.95 * worlds - 1
