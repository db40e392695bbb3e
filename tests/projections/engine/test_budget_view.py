"""Budgets at the ledger's moment: their rows, and the view, which says on both databases what the forecast says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.events.quotas import Budget
from projections.budgets import Schedule
from projections.budgets.current import budgets
from projections.budgets.queries import forecast, standings
from projections.engine.tables import parked
from tests import factories as f
from tests.projections.engine.archives import fill, sequenced
from tests.projections.entries import entry
from tests.projections.ledger import folded, rows, tables
from tests.projections.worlds import events_of, worlds

HOUR, DAY = 3_600, 86_400
BIZ = "biz.group.resource.quota"
DAYS = Budget("Day", "Asia/Kolkata")
CASH = {"limits.cpu": 10**9, "limits.cpu.A4": 10**6, "limits.memory": 5, "pods": 7}


def quota(name="q", version=1, at=0, *, cash=CASH, budget=DAYS, **fields):
    return f.quota_observed(name, version, at, cash=cash, budget=budget, **fields)


def current(events, **options):
    """(quota, key, account, hard, start, end, granted) of every row; times after the start, in hours."""
    return [
        (
            r["quota"], r["key"], r["account"], r["hard"], (r["start_s"] - f.START_S) / HOUR,
            r["end_s"] and (r["end_s"] - f.START_S) / HOUR, r["is_granted"],
        )
        for r in rows(folded(f.numbered(events), **options), budgets)
    ]  # fmt: skip


CPU = {"limits.cpu": 7}
WINDOWS = tuple((f.START_S + a, f.START_S + b) for a, b in ((0, DAY), (DAY, 2 * DAY)))
#: The history begins at 08:00 UTC, in Kolkata at 13:30.
ROWS = {
    "the period holds the newest moment": (
        [quota(cash=CPU), f.node_observed(at=2 * DAY)], [("q", "limits.cpu", "cpu", 7, 34.5, 58.5, 1)]),
    "an older moment turns nothing back": (
        [f.node_observed(at=2 * DAY), quota(cash=CPU), f.node_observed("m", at=5)],
        [("q", "limits.cpu", "cpu", 7, 34.5, 58.5, 1)]),
    "a period ends with its last second": (
        [quota(cash=CPU), f.node_observed(at=10.5 * HOUR - 0.1)],
        [("q", "limits.cpu", "cpu", 7, -13.5, 10.5, 1)]),
    "the next one begins with its first": (
        [quota(cash=CPU), f.node_observed(at=10.5 * HOUR)],
        [("q", "limits.cpu", "cpu", 7, 10.5, 34.5, 1)]),
    "windows": (
        [quota(cash=CPU, budget=Budget("Windows", windows=WINDOWS)), f.node_observed(at=DAY)],
        [("q", "limits.cpu", "cpu", 7, 24, 48, 1)]),
    "after the last window nothing is granted": (
        [quota(cash=CPU, budget=Budget("Windows", windows=WINDOWS)), f.node_observed(at=2 * DAY)],
        [("q", "limits.cpu", "cpu", 7, 48, None, 0)]),
    "the newest word counts": (
        [quota(version=2, cash={"limits.cpu": 8, "pods": 1}), quota(version=1)],
        [("q", "limits.cpu", "cpu", 8, -13.5, 10.5, 1), ("q", "pods", None, 1, -13.5, 10.5, 1)]),
    "a quota that has no cash any more has no budget": ([quota(), quota(version=2, cash={})], []),
}  # fmt: skip


@pytest.mark.parametrize(("history", "expected"), ROWS.values(), ids=list(ROWS))
def test_the_budgets_of_the_ledgers_moment(history, expected):
    assert expected == current(history)
    assert expected == current(history, batch=1, restart_every=1)


QUOTAS = [
    quota("q", 1, 3), quota("q", 2, 400, budget=Budget("Week", "Europe/Berlin"), cash=CPU),
    quota("k", budget=Budget("Windows", windows=WINDOWS)), quota("none", cash={}),
    f.quota_vanished("q", 3, 900),
]  # fmt: skip


@given(
    worlds(strange=True), st.lists(st.sampled_from(QUOTAS), unique=True),
    st.randoms(use_true_random=False), st.sampled_from(((1, 1), (7, 0), (7, 2))),
)  # fmt: skip
def test_budgets_do_not_depend_on_the_order_of_facts_or_on_batches(world, quotas, random, split):
    events = [*events_of(world), *quotas]
    mixed = events + random.sample(events, len(events) // 2)
    random.shuffle(mixed)
    one = tables(f.numbered(events), without=("sequence",))
    other = tables(f.numbered(mixed), without=("sequence",))
    batch, restart_every = split

    assert one == other
    assert tables(f.numbered(mixed)) == tables(
        f.numbered(mixed), batch=batch, restart_every=restart_every
    )


def test_a_quota_whose_periods_cannot_be_reckoned_is_parked_and_changes_no_row():
    history = [quota(cash=CPU), quota(version=2, budget=Budget("Day", "Nowhere/Land"))]
    store = folded(f.numbered(history))

    assert 1 == len(rows(store, parked))
    assert [7] == [row["hard"] for row in rows(store, budgets)]


# the view


def history(labels):
    """Pods around the boundaries of hours and of a day in Kolkata (10.5 h, 34.5 h after the start)."""
    typed = {**labels, f"{BIZ}/cpu-type": "A4"}
    ends = [(0, 5), (10 * HOUR, 10 * HOUR + 1_900), (10 * HOUR, 12 * HOUR), (9_000, 2 * DAY)]
    for number, (start, end) in enumerate(ends):
        fields = {"created": start, "labels": typed if number % 2 else labels, "cpu": number + 1}
        yield f.pod_vanished(f"ended{number}", at=end, deletion=end, **fields)
    for number, start in enumerate((7, 10 * HOUR + 100, 10 * HOUR + 1_900, 40 * HOUR + 5)):
        fields = {"created": start, "labels": labels if number % 2 else typed}
        deadline = (None, 10**6, 40 * HOUR, 5)[number]
        yield f.pod_observed(f"open{number}", at=start, deadline_s=deadline, **fields)
    yield f.pod_observed("elsewhere", labels={BIZ: "other"}, deadline_s=9 * DAY)


EVERY = {
    "in days of a zone that is half an hour off": DAYS,
    "in days": Budget("Day"),
    "in weeks": Budget("Week", "Europe/Berlin"),
    "for ever": Budget("Total"),
    "in windows": Budget("Windows", windows=((f.START_S + 77, f.START_S + 9 * DAY),)),
    "outside of windows": Budget("Windows", windows=((f.START_S + 77, f.START_S + 78),)),
    "in a window of this hour": Budget(
        "Windows", windows=((f.START_S + 46 * HOUR + 7, f.START_S + 46 * HOUR + 3_000),)
    ),
}
MOMENTS = (11 * HOUR, 46 * HOUR + 1_000, 3 * DAY)


@pytest.mark.parametrize("at", MOMENTS, ids=["11 h", "46 h", "3 d"])
@pytest.mark.parametrize("budget", EVERY.values(), ids=list(EVERY))
def test_the_view_says_what_the_forecast_says(store, budget, at):
    said = [
        *history({BIZ: "q"}), entry(at=at, amount=1_000_000), entry("r2", at=0, amount=-400),
        entry("r3", key="pods", at=at, amount=3), quota(budget=budget), quota("gone"),
        f.quota_vanished("gone"),
    ]  # fmt: skip
    known = [event for event in said if event.time_us <= f.us(at)]
    fill(store, sequenced([*known, f.node_observed(at=at)]))
    moment = f.START_S + at

    period = Schedule.of(budget).period_at(moment)
    expected = {
        ("q", key): told_of(
            forecast(store.select, f.CLUSTER, "q", key, period=period, hard=hard, as_of_s=moment),
            moment,
        )
        for key, hard in CASH.items()
    }
    standing = standings(store.select, f.CLUSTER)
    assert expected == shown(store)
    assert expected == {name: told_of(one, moment) for name, one in standing.items()}
    assert {} == standings(store.select, "another cluster")


def told_of(standing, moment):
    period, spent = standing.period, standing.spent(moment)
    return (
        period.start_s, period.end_s, int(period.is_granted), standing.hard, standing.credits, spent,
        standing.spend.rate, standing.committed, standing.left(moment), standing.exhausts_s(moment),
    )  # fmt: skip


def shown(store):
    with store.engine.connect() as connection:
        found = connection.exec_driver_sql(
            "SELECT cluster, quota, key, start_s, end_s, is_granted, hard, credits, spent, rate, committed,"
            " remaining, exhausts_s FROM v1_budget"
        )
        return {(row[1], row[2]): tuple(row[3:]) for row in found}


def test_hours_of_the_view_are_core_hours_and_gib_hours(store):
    pod = f.pod_vanished(at=2 * HOUR, deletion=2 * HOUR, cpu=3, memory="2Gi", labels={BIZ: "q"})
    cash = {"limits.cpu": 10 * HOUR * 1_000, "limits.memory": 10 * HOUR * 1_024}
    fill(store, sequenced([quota(cash=cash, budget=Budget("Total")), pod]))
    with store.engine.connect() as connection:
        found = connection.exec_driver_sql(
            "SELECT hard_hours, spent_hours, remaining_hours, exhausts_at FROM v1_budget ORDER BY key"
        )
        told = [tuple(row) for row in found]

    assert [(10.0, 6.0, 4.0, None), (10.0, 4.0, 6.0, None)] == told
