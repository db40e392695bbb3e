"""Quotas with other limits on recorded journals, beside the same asks under those limits live."""

import random

import pytest

from bus.clock import SECOND_US
from bus.events import VOCABULARY
from bus.events.admissions import JOURNAL, entries
from bus.events.vocabulary import read
from reactors.lab.quotas import Entry, Proposed, outcomes, played
from tests.reactors.cluster import Cluster
from tests.simulation.loop import simulate
from tests.thorough import tries

TYPES = {fact.wire_type for fact in JOURNAL} | {"admission.grouped"}


def journals(history):
    found = {}
    for event in history:
        if event.type in TYPES:
            for one in entries(event):
                found.setdefault(event.key, []).append(Entry(one, read(one, VOCABULARY)))
    return found


async def lived(cores, jobs, end=4_000):
    """Jobs of (second, cores, seconds they run) in a quota of so many cores, each asked for once."""
    async with Cluster() as cluster:
        await cluster.see_quota("team", {"limits.cpu": cores * 1_000})
        begin_us = cluster.clock.us
        moments = [(at, "ask", n) for n, (at, _, _) in enumerate(jobs)]
        running = {}
        while moments:
            moments.sort()
            at, what, number = moments.pop(0)
            if at > end:
                break
            cluster.clock.us = begin_us + at * SECOND_US
            name, (_, cpu, seconds) = f"job-{number}", jobs[number]
            if what == "ask":
                answer = await cluster.ask(name, cpu)
                if answer.allowed:
                    await cluster.see(name, cpu)
                    running[number] = [at, end]
                    moments.append((at + seconds, "end", number))
            else:
                await cluster.lose(name)
                running[number][1] = at
        cluster.clock.us = begin_us + end * SECOND_US
        await cluster.ask("last", 10_000)
        held = sum((until - at) * jobs[n][1] * 1_000 for n, (at, until) in running.items())
        return cluster.transport.events, {f"job-{n}" for n in running}, held


def tried(history, cores, first=0):
    limits = {"team": Proposed(hard={"limits.cpu": cores * 1_000})}
    return played(journals(history), limits, first, until_us=history[-1].time_us)


def changes(found, rule="later"):
    return [(c.kind, c.workload[3], c.waited_us // SECOND_US) for one in found[rule] for c in one.changed]  # fmt: skip


def test_the_limits_on_record_change_nothing():
    history, _, _ = simulate(lived(8, [(10, 5, 500), (20, 4, 500), (30, 3, 100), (600, 6, 50)]))

    found = tried(history, 8)

    assert [] == changes(found)
    (team, total) = outcomes(found)
    assert ("team", 3, 3, 0, 0) == (
        team.name, team.recorded, team.tried, team.cpu_milli_s.low, team.cpu_milli_s.high,
    )  # fmt: skip
    assert total.recorded == 3


def test_what_was_refused_is_let_in_and_runs_as_long_as_the_median_or_never():
    history, _, _ = simulate(lived(8, [(10, 5, 500), (20, 4, 700), (600, 6, 300), (950, 1, 500)]))

    found = tried(history, 16)

    assert [("let_in", "job-1", 0)] == changes(found)
    team = outcomes(found)[0]
    assert (3, 4) == (team.recorded, team.tried)
    assert (-500 * 4_000, 0) == (team.cpu_milli_s.low, team.cpu_milli_s.high)


def test_what_no_longer_fits_waits_until_there_is_room_or_is_not_asked_for_again():
    history, _, _ = simulate(lived(8, [(10, 5, 500), (20, 3, 400), (600, 2, 100)]))

    found = tried(history, 5)

    assert [("waited", "job-1", 490)] == changes(found)
    assert [("refused", "job-1", 0)] == changes(found, "never")
    team = outcomes(found)[0]
    assert (0, 0, 400 * 3_000) == (
        team.cpu_milli_s.low, team.cpu_milli_s.likely, team.cpu_milli_s.high,
    )  # fmt: skip


def test_who_came_again_later_is_let_in_at_once_and_runs_as_long_as_it_did():
    async def story():
        async with Cluster() as cluster:
            await cluster.see_quota("team", {"limits.cpu": 4_000})
            await cluster.ask("first", 4)
            await cluster.see("first", 4)
            await cluster.ask("more", 3)
            cluster.clock.after(100)
            await cluster.lose("first")
            cluster.clock.after(50)
            await cluster.ask("more", 3)
            await cluster.see("more", 3)
            cluster.clock.after(30)
            await cluster.lose("more")
            return cluster.transport.events

    found = tried(simulate(story()), 8)

    assert [("let_in", "more", 0)] == changes(found)
    team = outcomes(found)[0]
    assert (2, 2, 0) == (team.recorded, team.tried, team.cpu_milli_s.likely)


def test_limits_hold_from_the_event_on_from_which_they_are_tried():
    history, _, _ = simulate(lived(8, [(10, 5, 900), (20, 3, 900), (950, 8, 100)]))
    second = next(e.sequence for e in history if e.type == "admission.released")

    assert ["job-1", "job-2"] == [name for _, name, _ in changes(tried(history, 5))]
    assert ["job-2"] == [name for _, name, _ in changes(tried(history, 5, second))]


@pytest.mark.thorough
def test_the_hours_under_the_other_limits_lie_in_the_interval():
    worlds = tries(6, 200)
    inside = 0
    for seed in range(worlds):
        rng = random.Random(seed)
        jobs = [(rng.randrange(10, 3_000), rng.randrange(1, 5), rng.choice([300, 600])) for _ in range(10)]  # fmt: skip
        recorded, other = rng.sample([4, 6, 8, 12], 2)
        history, _, held = simulate(lived(recorded, jobs))
        _, _, would = simulate(lived(other, jobs))
        amount = outcomes(tried(history, other))[-1].cpu_milli_s
        inside += amount.low <= held - would <= amount.high

    assert inside >= 0.95 * worlds
