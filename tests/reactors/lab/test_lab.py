"""Culling under another policy on recorded history, beside the same people under that policy live."""

import random

import pytest

from bus.events.decisions import Cull
from bus.events.notebooks import NotebookSampled
from reactors.culling.decide import decide
from reactors.culling.policy import NotebookSubject, limits_of
from reactors.culling.simulate import look_of
from reactors.lab.culling import trial
from reactors.lab.culling.due import DueNotebooks
from reactors.lab.culling.outcome import outcome, unsure_us
from tests.reactors.culling.looks import simulate
from tests.reactors.lab.worlds import LOOK, Person, World, people, played, policy, seconds
from tests.thorough import tries

HOUR = 3_600
END = 3 * HOUR


def of(history, tried, by="namespace"):
    return outcome(played(history, tried), by=by, within_us=1_800 * 10**6, unsure_us=unsure_us(tried))  # fmt: skip


def culls(found):
    return sorted(
        (one.decision.target.name, seconds(one.decision.at_us))
        for one in found.decided
        if isinstance(one.decision, Cull)
    )


def two_policies(rng):
    return [
        policy(
            idle_seconds=rng.choice([600, 1_200, 1_800, 3_600]),
            warning_seconds=rng.choice([0, 300, 900]),
        )
        for _ in range(2)
    ]


@pytest.mark.thorough
def test_the_hours_of_the_other_policy_lie_in_the_interval_and_its_stops_are_those_of_its_live_run():
    worlds = tries(20, 200)
    inside = same = compared = 0
    for seed in range(worlds):
        rng = random.Random(seed)
        tried, recorded = two_policies(rng)
        leaves = rng.choice([0, 0.3])
        users = people(seed, END, count=3, leaves=leaves)
        live, record = World(users, tried).run(END), World(users, recorded).run(END)

        made = of(record.events, tried).total
        amounts = (made.cpu_milli_s, made.gpu_milli_s)
        saved = [a - b for a, b in zip(record.hours, live.hours, strict=True)]
        inside += all(one.low <= s <= one.high for one, s in zip(amounts, saved, strict=True))
        if not leaves:
            compared += 1
            same += culls(played(record.events, tried, rules=("later",))[0]) == sorted(live.culls)

    assert inside >= 0.95 * worlds
    assert same >= 0.95 * compared - 1


@pytest.mark.thorough
def test_looks_alone_give_the_same_stops_in_most_worlds_where_nobody_was_stopped_on_record():
    worlds, same = tries(4, 100), 0
    for seed in range(worlds):
        rng = random.Random(seed)
        tried, _ = two_policies(rng)
        record = World(people(seed, END, count=3, leaves=0), tried, "shadow").run(END).events
        limits = limits_of(tried, NotebookSubject("ns"))
        looks = [
            look
            for event in record
            if event.type == NotebookSampled.wire_type
            and (look := look_of(NotebookSampled.read(event), event.time_us, limits))
        ]

        alone = simulate(looks, limits).culls
        found = [
            one
            for one in played(record, tried, rules=("later",))[0].decided
            if isinstance(one.decision, Cull)
        ]

        ours = sorted((one.uid, one.decision.at_us) for one in found)
        others = sorted((one.uid, one.at_us) for one in alone)
        # Looks are every two minutes, and a tick decides between them; the last look before a stop may keep it from being done.
        same += [uid for uid, _ in ours] == [uid for uid, _ in others] and all(
            abs(one - other) <= 2 * LOOK * 10**6
            for (_, one), (_, other) in zip(ours, others, strict=True)
        )

    assert same >= 0.85 * worlds


def test_the_policy_on_record_changes_nothing():
    rules = policy(idle_seconds=1_200)
    record = World(people(1, END), rules).run(END)

    made = of(record.events, rules)

    assert len(record.culls) > 2
    assert {"same"} == {one.kind for one in made.changes}
    assert (0, 0, 0) == tuple(getattr(made.total.gpu_milli_s, n) for n in ("low", "likely", "high"))


@pytest.mark.thorough
def test_only_ticks_at_which_something_may_be_due_are_decided_and_nothing_is_missed(monkeypatch):
    for seed in range(tries(2, 40)):
        rng = random.Random(seed)
        tried, recorded = two_policies(rng)
        more = rng.choice([{}, {"max_age_seconds": 4_000}, {"min_running_seconds": 2_000}])
        tried = tried.model_copy(update=more)
        record = World(people(seed, END, count=3), recorded).run(END).events

        quick = [one.decided for one in played(record, tried)]
        with monkeypatch.context() as patched:
            patched.setattr(DueNotebooks, "decide", lambda self, *given: decide(*given))
            slow = [one.decided for one in played(record, tried)]

        assert quick == slow and quick[0]


def one_user(*sessions, leaves=None):
    return [Person("ann", "ns", list(sessions), leaves, "2", 1)]


def test_a_notebook_that_was_stopped_runs_on_until_the_policy_stops_it_or_its_owner_is_back():
    strict, mild = policy(idle_seconds=600), policy(idle_seconds=1_800)
    record = World(one_user((100, 1_000), (5_000, 5_500)), strict).run(END)

    made = played(record.events, mild)

    assert record.culls == [("ann", 1_980), ("ann", 6_480)]
    assert culls(made[0]) == [("ann", 3_180), ("ann", 7_680)]
    later, _, never = (
        [(seconds(s.from_us), seconds(s.until_us), s.is_saved) for s in one.spans] for one in made
    )
    assert later == [(1_980, 3_180, False), (6_480, 7_680, False)]
    assert never == []


def test_somebody_who_was_stopped_is_back_at_the_next_activity_or_never():
    strict, mild = policy(idle_seconds=600), policy(idle_seconds=7_200)
    record = World(one_user((100, 1_000), (3_000, 3_500)), mild).run(END)

    later, _, never = played(record.events, strict)

    spans = [(seconds(s.from_us), seconds(s.until_us), bool(s.again_us)) for s in later.spans]
    assert spans[0] == (1_980, 3_000, True)
    assert [seconds(s.until_us) for s in never.spans] == [END]
    stop = next(one for one in of(record.events, strict).changes if one.is_stop)
    assert ("added", 1_980, 3_000) == (stop.kind, seconds(stop.tried_us), seconds(stop.again_us))


def test_a_pod_that_an_owner_deletes_ends_what_a_stop_saves():
    strict, mild = policy(idle_seconds=600), policy(idle_seconds=7_200)
    record = World(one_user((100, 1_000), leaves=4_000), mild).run(END)

    for one in played(record.events, strict):
        assert [(seconds(s.from_us), seconds(s.until_us)) for s in one.spans] == [(1_980, 4_020)]


def test_shadow_mode_on_record_stopped_nobody_and_off_under_trial_stops_nobody():
    rules = policy(idle_seconds=600)
    users = one_user((100, 1_000))
    shadow, on = World(users, rules, "shadow").run(END), World(users, rules).run(END)

    assert of(shadow.events, rules).total.gpu_milli_s.likely == (END - 1_980) * 1_000
    lab = trial.Lab("c", [(rules, "off")], earlier=lambda uid: None)
    lab.play(on.events)
    likely = lab.end()[0][0]
    assert [(s.is_saved, seconds(s.from_us), seconds(s.until_us)) for s in likely.spans] == [
        (False, 1_980, END)
    ]


def test_groups_are_by_namespace_and_false_culls_by_when_somebody_was_back():
    strict, mild = policy(idle_seconds=600), policy(idle_seconds=20_000)
    users = [Person("ann", "one", [(100, 1_000), (3_000, 3_500)]), Person("bob", "two", [(100, 1_000)])]  # fmt: skip
    record = World(users, mild).run(END)

    made = of(record.events, strict)

    assert [("one", 2, 1), ("two", 1, 0)] == [(g.name, g.added, g.false_culls) for g in made.groups]
    assert made.total.added == 3
