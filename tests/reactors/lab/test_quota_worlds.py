"""Queues, budgets, places in the tree and shares that are tried on recorded journals, beside the same people under them live."""

import random

import pytest

from bus.clock import SECOND_US
from bus.events.admissions import JOURNAL
from reactors.lab.quotas import Proposed, outcomes, played
from reactors.lab.quotas.arrivals import RecordedJournals
from reactors.queue import releasing
from reactors.readers import Readers
from tests.reactors.lab.quota_worlds import asked, lived, random_asks
from tests.simulation.loop import simulate
from tests.thorough import tries


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(releasing, "TICK_SECONDS", 0.02)
    monkeypatch.setattr(releasing, "APART_SECONDS", 0.0)


def journals(history):
    found = RecordedJournals(Readers(None, None, cluster="c1", source="lab"))
    for event in history:
        found.apply(event)
    return found.of


def tried(history, first=0, **quotas):
    return played(journals(history), quotas, first, until_us=history[-1].time_us)


def starts(found, recorded):
    """When each would have started: as on record, but for those that started at another time."""
    moved = {c.workload[3]: c.waited_us for one in found["later"] for c in one.changed}
    return {
        name: at + round(moved.get(name, 0) / SECOND_US) for name, at in sorted(recorded.items())
    }


def queue(order, delay):
    return Proposed(queue={"order": order, "max_head_delay_seconds": delay})


def test_the_queue_on_record_changes_nothing():
    jobs = [(10, 3, 500, None), (20, 2, 300, None), (30, 1, 100, 200), (40, 4, 100, None)]
    record = lived(jobs, 4, "BackFill", 600)

    found = tried(record.events, team=queue("BackFill", 600))

    assert {"job-0": 10, "job-1": 510, "job-2": 30, "job-3": 810} == record.starts
    assert [] == [c for one in found["later"] for c in one.changed]
    assert (0, 0) == (outcomes(found)[-1].cpu_milli_s.low, outcomes(found)[-1].cpu_milli_s.high)
    assert (4, 4) == (outcomes(found)[-1].recorded, outcomes(found)[-1].tried)


def test_who_passed_the_head_waits_behind_it_where_nobody_may_pass():
    jobs = [(10, 3, 500, None), (20, 2, 300, None), (30, 1, 100, 200)]
    record = lived(jobs, 4, "BackFill", 600)

    found = tried(record.events, team=queue("Strict", 0))

    assert lived(jobs, 4, "Strict", 0).starts == starts(found, record.starts)
    assert [("waited", "job-2", 480)] == [
        (c.kind, c.workload[3], c.waited_us // SECOND_US) for one in found["later"] for c in one.changed
    ]  # fmt: skip


def test_who_had_to_wait_again_on_record_does_so_where_its_first_start_came_before_the_trial():
    jobs = [(10, 3, 900, None), (20, 4, 300, None), (30, 1, 900, None)]
    record = lived(jobs, 4, "BackFill", 300)
    ended = next(e.sequence for e in record.events if e.type == "admission.released")

    found = tried(record.events, ended - 1, team=queue("BackFill", 300))

    assert {"job-0": 10, "job-2": 30, "job-1": 910} == record.starts
    assert [] == changes(found)
    amount = outcomes(found)[-1].cpu_milli_s
    assert (0, 0, 0) == (amount.low, amount.likely, amount.high)


def test_more_room_starts_what_waited_and_nobody_asks_whether_it_is_there():
    jobs = [(10, 3, 500, None), (20, 3, 300, None)]
    record = lived(jobs, 4, "Strict", 0)

    found = tried(record.events, team=Proposed(hard={"limits.cpu": 8_000}))

    assert {"job-0": 10, "job-1": 20} == starts(found, record.starts)
    assert ["sooner"] == [c.kind for one in found["later"] for c in one.changed]
    assert -490 == outcomes(found)[-1].waited_us // SECOND_US


def random_jobs(rng):
    return [
        (rng.randrange(10, 3_000), rng.randrange(1, 5), seconds, rng.choice([None, seconds + 60]))
        for seconds in [rng.choice([200, 300, 600, 900]) for _ in range(10)]
    ]


@pytest.mark.thorough
def test_every_start_under_another_queue_is_that_of_its_live_run():
    worlds, same, inside = tries(6, 200), 0, 0
    for seed in range(worlds):
        rng = random.Random(seed)
        jobs = random_jobs(rng)
        recorded, other = [
            (rng.choice([4, 5, 8]), *rng.choice([("Strict", 0), ("BackFill", 300), ("BackFill", 900)]))
            for _ in range(2)
        ]  # fmt: skip
        record, live = lived(jobs, *recorded), lived(jobs, *other)
        limits = {"limits.cpu": other[0] * 1_000}
        fields = {"order": other[1], "max_head_delay_seconds": other[2]}
        found = tried(record.events, team=Proposed(hard=limits, queue=fields))

        would = starts(found, record.starts)
        # A change of less than 20 s is none.
        same += all(abs(would[name] - at) <= 20 for name, at in live.starts.items())
        saved = held(record) - held(live)
        amount = outcomes(found)[-1].cpu_milli_s
        inside += amount.low <= saved <= amount.high

    assert same >= 0.95 * worlds, same
    assert inside >= 0.95 * worlds, inside


def held(run):
    """Milli-core-seconds that a quota held, by its own journal."""
    begun, total = {}, 0
    for entries in journals(run.events).values():
        for event, fact in [(e.event, e.fact) for e in entries if isinstance(e.fact, JOURNAL)]:
            if getattr(fact, "verdict", "") == "admitted" and getattr(fact, "charge", None):
                begun.setdefault(fact.uid, (event.time_us, fact.charge["limits.cpu"]))
            for one in getattr(fact, "releases", ()):
                if one.uid in begun and not one.charge:
                    since_us, milli = begun.pop(one.uid)
                    total += (event.time_us // SECOND_US - since_us // SECOND_US) * milli
    return total


def inside(history, saved, **quotas):
    amount = outcomes(tried(history, **quotas))[-1].cpu_milli_s
    return amount.low <= saved <= amount.high


def test_a_budget_on_record_changes_nothing_and_a_smaller_one_refuses_when_it_is_spent():
    quotas = {"team": {"hard": {"limits.cpu": 8_000}, "cash": {"limits.cpu": 3_000_000}}}
    jobs = [(10, "team", 2, 500), (600, "team", 4, 300), (2_100, "team", 3, 100)]
    history, _ = simulate(asked(quotas, jobs, period=2_000))

    assert [] == changes(tried(history, team=Proposed(cash={"limits.cpu": 3_000_000})))
    less = tried(history, team=Proposed(cash={"limits.cpu": 1_000_000}))

    assert [("waited", "job-1")] == changes(less)
    # It is asked for again when the next period begins.
    assert [1_400] == [
        c.waited_us // SECOND_US for one in less["later"] for c in one.changed
    ]  # fmt: skip


def changes(found):
    return [(c.kind, c.workload[3]) for one in found["later"] for c in one.changed]


@pytest.mark.thorough
def test_the_hours_under_another_budget_lie_in_the_interval():
    worlds, count = tries(6, 200), 0
    for seed in range(worlds):
        rng = random.Random(seed)
        jobs = random_asks(rng, "team")
        cash = rng.sample([1_200_000, 1_800_000, 2_400_000, 9_000_000], 2)
        (history, held), (_, would) = [
            simulate(asked({"team": {"hard": {"limits.cpu": 9_000}, "cash": {"limits.cpu": one}}}, jobs, period=1_500))
            for one in cash
        ]  # fmt: skip
        assert held and would
        count += inside(history, held - would, team=Proposed(cash={"limits.cpu": cash[1]}))

    assert count >= 0.95 * worlds, count


def business(team, labs):
    """``labs`` and ``team`` share what ``org`` has."""
    return {
        "org": {"hard": {"limits.cpu": 12_000}},
        "labs": {"hard": {"limits.cpu": 8_000}, "parent": "org"},
        "team": {"hard": {"limits.cpu": team}, "parent": labs},
    }


@pytest.mark.thorough
def test_the_hours_in_another_tree_lie_in_the_interval():
    worlds, count = tries(6, 200), 0
    for seed in range(worlds):
        rng = random.Random(seed)
        jobs = random_asks(rng, "org", "labs", "team")
        places = rng.sample([(2_000, "org"), (6_000, "org"), (4_000, "labs"), (6_000, "labs")], 2)
        (history, held), (_, would) = [simulate(asked(business(*one), jobs)) for one in places]
        team = Proposed(hard={"limits.cpu": places[1][0]}, parent=places[1][1])
        assert held and would
        count += inside(history, held - would, team=team)

    assert count >= 0.95 * worlds, count


def shares(first, second):
    """Two quotas that borrow from each other what the cluster has."""
    return {
        name: {"hard": {}, "kind": "ElasticQuota", "min": {"cpu": least}, "max": {"cpu": most}}
        for name, (least, most) in {"a": first, "b": second}.items()
    }


@pytest.mark.thorough
def test_the_hours_under_other_shares_lie_in_the_interval():
    worlds, count = tries(6, 200), 0
    for seed in range(worlds):
        rng = random.Random(seed)
        jobs = random_asks(rng, "a", "b")
        sizes = [(2_000, 8_000), (4_000, 8_000), (2_000, 4_000), (5_000, 10_000)]
        (one, other), two = rng.sample(sizes, 2), rng.choice(sizes)
        history, held = simulate(asked(shares(one, two), jobs, nodes=10))
        _, would = simulate(asked(shares(other, two), jobs, nodes=10))
        tries_ = Proposed(min={"cpu": other[0]}, max={"cpu": other[1]})
        assert [] == changes(tried(history, a=Proposed(min={"cpu": one[0]})))
        assert held and would
        count += inside(history, held - would, a=tries_)

    assert count >= 0.95 * worlds, count


def test_a_quota_that_states_no_weight_has_its_max_as_weight_whatever_is_tried():
    """Of ten cores ``a`` wants ten; ``b`` may have five where the weights are equal, and had four where ``a`` weighed ten."""
    jobs = [
        (10, "b", 1, 600), (20, "a", 2, 600), (30, "a", 4, 600), (300, "a", 4, 300), (400, "b", 4, 300),
    ]  # fmt: skip
    history, _ = simulate(asked(shares((5_000, 10_000), (2_000, 8_000)), jobs, nodes=10))

    found = tried(history, a=Proposed(min={"cpu": 2_000}, max={"cpu": 8_000}))

    assert [("let_in", "job-4")] == changes(found)


def test_a_budget_that_was_not_on_record_spends_all_that_its_quota_holds():
    jobs = [(10, "team", 2, 500), (600, "team", 4, 300), (2_100, "team", 3, 100)]
    history, _ = simulate(asked({"team": {"hard": {"limits.cpu": 8_000}}}, jobs))

    found = tried(history, team=Proposed(cash={"limits.cpu": 1_500_000}))

    # 1,000,000 by the first, and as much by the second before the third.
    assert [("refused", "job-2")] == changes(found)


def test_a_queue_that_was_not_on_record_makes_wait_what_was_refused():
    jobs = [(10, "team", 3, 500), (20, "team", 2, 300)]
    history, _ = simulate(asked({"team": {"hard": {"limits.cpu": 4_000}}}, jobs))

    found = tried(history, team=Proposed(queue={"hold": True}))

    (let_in,) = [c for one in found["later"] for c in one.changed]
    assert ("let_in", "job-1", 510) == (
        let_in.kind, let_in.workload[3], (let_in.at_us - history[0].time_us) // SECOND_US,
    )  # fmt: skip


def test_where_the_queue_is_taken_away_whoever_fits_starts():
    jobs = [(10, 3, 500, None), (20, 2, 300, None), (30, 1, 100, None)]
    record = lived(jobs, 4, "Strict", 0)

    found = tried(record.events, team=Proposed(queue={"hold": False}))

    assert {"job-0": 10, "job-1": 510, "job-2": 30} == starts(found, record.starts)
