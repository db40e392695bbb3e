"""Who goes for a gang, against every set of victims in small worlds."""

import random as dice

import pytest

from tests.reactors.scheduling.gang_crowds import GangCrowds


@pytest.mark.parametrize("seed", range(40))
async def test_victims_for_a_gang_against_every_set_of_victims(seed):
    """What a pass says is one of all sets that would do, has nobody too many, and none has less important pods alone."""
    cluster, random = GangCrowds(), dice.Random(seed)
    names = "abcd"[: random.randint(2, 4)]
    await cluster.begin_with(*names)
    placed, units = random_world(cluster, random, names)
    await cluster.say(*(event for event, _ in placed.values()))
    count, cpu = random.randint(1, 4), random.choice("1234")
    await cluster.say(*cluster.gang(count, cpu, priority=2))
    started = {one.uid for one in cluster.state.outstanding}
    said = {victim for _, _, victims in cluster.said() for victim in victims}
    pods = {uid: fields for uid, (_, fields) in placed.items()}
    possible = sets_that_do(pods, units, names, count, int(cpu))

    assert started in (set(), {f"g{n}" for n in range(count)})
    if started:
        assert said == set() and frozenset() in possible
        return
    assert bool(said) == bool(possible) and frozenset() not in possible
    if said:
        assert frozenset(said) in possible
        assert not any(other < said for other in possible)
        highest = max(pods[uid]["priority"] for uid in said)
        assert highest == min(max(pods[uid]["priority"] for uid in one) for one in possible)


def random_world(cluster, random, names):
    """Pods on nodes with what they hold, by uid; and the gangs among them, as (uids, how many stay together)."""
    placed, units = {}, []
    for node in names:
        left = 4
        while left and random.random() < 0.9:
            cpu = random.randint(1, left)
            left -= cpu
            uid = f"{node}{left}"
            fields = {"cpu": cpu, "priority": random.randrange(4), "node": node}
            placed[uid] = (
                cluster.pod(uid, node, cpu=str(cpu), priority=fields["priority"]),
                fields,
            )
    uids = random.sample(sorted(placed), len(placed))
    while len(uids) > 3 and random.random() < 0.6:
        some, uids = uids[:2], uids[2:]
        least = random.randint(1, 2)
        units.append((frozenset(some), least))
        for uid in some:
            own = placed[uid][1]
            terms = f"v{len(units)}", least, str(own["cpu"]), own["priority"]
            placed[uid] = (cluster.ganged(uid, own["node"], *terms), own)
    return placed, units


def sets_that_do(pods, gangs, names, count, cpu):
    """Every set of less important pods without which so many pods of ``cpu`` fit, and no gang keeps too few."""
    lower = sorted(uid for uid, one in pods.items() if one["priority"] < 2)
    found = set()
    for number in range(2 ** len(lower)):
        gone = frozenset(uid for at, uid in enumerate(lower) if number >> at & 1)
        if any(uids & gone and len(uids - gone) < least and uids - gone for uids, least in gangs):
            continue
        free = dict.fromkeys(names, 4)
        for uid, one in pods.items():
            free[one["node"]] -= one["cpu"] * (uid not in gone)
        if sum(room // cpu for room in free.values()) >= count:
            found.add(gone)
    return found
