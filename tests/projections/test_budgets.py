"""Budgets as pure arithmetic: periods, keys, spending over time, what is left, and what follows from exhaustion."""

from datetime import datetime
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.events.quotas import Budget
from projections.budgets import (
    WARN_PERCENT,
    BudgetStatus,
    Every,
    Exhaustion,
    ExhaustionRule,
    OnExhaustion,
    Period,
    Phase,
    Schedule,
    Spend,
    SpendPiece,
    advance,
    committed,
    spend_of,
)
from projections.budgets.keys import account_of, is_paid_from
from projections.quota_trees import prefixes

HOUR, DAY = 3_600, 86_400
ALWAYS = Period(0, None)
CORE = 1_000


def second(text, zone="UTC"):
    return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp())


def told(period, zone="UTC"):
    return tuple(
        datetime.fromtimestamp(s, ZoneInfo(zone)).isoformat()
        for s in (period.start_s, period.end_s)
    )


# periods

PERIODS = {
    "a day in UTC": ("Day", "UTC", "2026-10-26T08:00", "2026-10-26T00:00:00+00:00", "2026-10-27T00:00:00+00:00"),
    "a day that is 25 hours long": (
        "Day", "Europe/Berlin", "2026-10-25T12:00", "2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00"),
    "a week starts on Monday": (
        "Week", "Asia/Kolkata", "2026-11-22T23:59", "2026-11-16T00:00:00+05:30", "2026-11-23T00:00:00+05:30"),
    "a Monday is in the week it starts": (
        "Week", "UTC", "2026-11-16T00:00", "2026-11-16T00:00:00+00:00", "2026-11-23T00:00:00+00:00"),
    "a month over the turn of the year": (
        "Month", "Asia/Shanghai", "2026-12-31T23:59", "2026-12-01T00:00:00+08:00", "2027-01-01T00:00:00+08:00"),
    "a February": ("Month", "UTC", "2028-02-29T12:00", "2028-02-01T00:00:00+00:00", "2028-03-01T00:00:00+00:00"),
    "a day without a midnight": (
        "Day", "America/Sao_Paulo", "2018-11-04T12:00", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"),
}  # fmt: skip


@pytest.mark.parametrize(("every", "zone", "at", "start", "end"), PERIODS.values(), ids=PERIODS)
def test_the_period_of_a_moment(every, zone, at, start, end):
    schedule = Schedule(Every(every), ZoneInfo(zone))

    assert (start, end) == told(schedule.period_at(second(at, zone)), zone)


def test_a_total_budget_never_begins_anew():
    assert Period(0, None) == Schedule(Every.TOTAL).period_at(second("2026-10-26T08:00"))


WINDOWS = ((100, 200), (200, 300), (500, 600))


@pytest.mark.parametrize(
    ("at", "period"),
    [
        (99, Period(0, 100, False)),
        (100, Period(100, 200)),
        (199, Period(100, 200)),
        (200, Period(200, 300)),
        (300, Period(300, 500, False)),
        (599, Period(500, 600)),
        (600, Period(600, None, False)),
    ],
)
def test_a_window_is_a_period_and_between_windows_nothing_is_granted(at, period):
    assert period == Schedule(windows=WINDOWS).period_at(at)


@given(
    st.sampled_from([Every.DAY, Every.WEEK, Every.MONTH]),
    st.sampled_from(
        ["UTC", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kathmandu", "Africa/Cairo"]
    ),
    st.integers(0, 2_000_000_000),
)
def test_periods_of_a_zone_leave_no_gap_and_do_not_overlap(every, zone, at):
    schedule = Schedule(every, ZoneInfo(zone))
    period = schedule.period_at(at)

    assert period.start_s <= at < period.end_s
    assert period == schedule.period_at(period.start_s) == schedule.period_at(period.end_s - 1)
    assert period.end_s == schedule.period_at(period.end_s).start_s


@pytest.mark.parametrize(
    ("budget", "schedule", "rule"),
    [
        (Budget(), Schedule(Every.TOTAL), ExhaustionRule(OnExhaustion.DENY_NEW)),
        (
            Budget("Week", "Asia/Shanghai", exhaustion="GraceThenEvict", grace_seconds=60),
            Schedule(Every.WEEK, ZoneInfo("Asia/Shanghai")),
            ExhaustionRule(OnExhaustion.GRACE_THEN_EVICT, 60),
        ),
        (
            Budget("Windows", windows=WINDOWS, exhaustion="Warn"),
            Schedule(windows=WINDOWS),
            ExhaustionRule(OnExhaustion.WARN),
        ),
    ],
)
def test_a_quotas_object_says_when_its_budget_begins_anew_and_what_follows_from_exhaustion(
    budget, schedule, rule
):
    assert (schedule, rule) == (Schedule.of(budget), ExhaustionRule.of(budget))


# keys


@pytest.mark.parametrize(
    ("key", "account"),
    [
        ("limits.cpu", "cpu"),
        ("requests.cpu", "cpu"),
        ("limits.cpu.A4", "cpu.A4"),
        ("limits.cpu.A4.80G", "cpu.A4.80G"),
        ("limits.memory", "memory"),
        ("requests.memory.big", "memory.big"),
        ("limits.nvidia.com/gpu", "gpu"),
        ("limits.nvidia.com/gpu.A30", "gpu.A30"),
        ("limits.gpu.A30", "gpu.A30"),
        ("limits.nvidia.com/gpu-core", None),
        ("limits.ephemeral-storage", None),
        ("limits.cpus", None),
        ("pods", None),
    ],
)
def test_a_key_is_paid_from_the_account_of_its_resource_and_type(key, account):
    assert account == account_of(key)


@pytest.mark.parametrize(
    ("key", "present", "expected"),
    [
        ("limits.cpu.A4", {"limits.cpu", "limits.cpu.A4", "limits.cpu.A3"}, ("limits.cpu.A4", "limits.cpu")),
        ("limits.cpu.A4", {"limits.cpu"}, ("limits.cpu",)),
        ("limits.cpu", {"limits.cpu", "limits.cpu.A4"}, ("limits.cpu",)),
        ("limits.cpu.A4", {"limits.memory"}, ()),
        ("limits.cpu.A40", {"limits.cpu.A4"}, ()),
        ("limits.cpu.A4.80G", {"limits.cpu.A4"}, ("limits.cpu.A4",)),
    ],
)  # fmt: skip
def test_a_typed_key_is_charged_to_itself_and_to_every_prefix_that_is_present(
    key, present, expected
):
    assert expected == tuple(name for name in prefixes(key) if name in present)


@given(st.lists(st.text("ab", min_size=1, max_size=2), min_size=1, max_size=4), st.integers(1, 4))
def test_an_account_is_paid_from_exactly_its_prefixes(parts, count):
    spent_on, budget = ".".join(parts), ".".join(parts[:count])

    assert is_paid_from(budget, spent_on)
    assert not is_paid_from(budget, f"{budget}x")


# spending


pieces = st.builds(
    lambda start, length, amount, deadline: SpendPiece(
        start, None if length is None else start + length, amount, deadline and start + deadline
    ),
    st.integers(0, 60),
    st.none() | st.integers(0, 60),
    st.integers(0, 5),
    st.none() | st.integers(1, 90),
)
periods = st.one_of(
    st.just(ALWAYS),
    st.builds(lambda a, n: Period(a, a + n), st.integers(0, 60), st.integers(1, 80)),
)


def total(found, period):
    spend = Spend()
    for piece in found:
        spend += spend_of(piece, period)
    return spend


def counted(found, period, until):
    """Second by second: what was held in the period before ``until``."""
    end = until if period.end_s is None else min(until, period.end_s)
    return sum(
        p.amount
        for s in range(period.start_s, end)
        for p in found
        if p.start_s <= s and (p.end_s is None or s < p.end_s)
    )


@given(st.lists(pieces, max_size=6), periods)
def test_spending_is_the_sum_over_every_second(found, period):
    # Not before what is known: all starts and ends lie before this second.
    at = 121

    assert counted(found, period, at) == BudgetStatus(period, 0, total(found, period)).spent(at)


@given(st.lists(pieces, max_size=6), st.integers(0, 2_000))
def test_a_budget_is_exhausted_at_the_first_second_at_which_it_is_spent(found, hard):
    standing = BudgetStatus(ALWAYS, hard, total(found, ALWAYS))
    exhausts = standing.exhausts_s(121)

    if exhausts is None:
        assert standing.left(10**6) > 0
        assert standing.spend.rate == 0
    else:
        assert standing.left(exhausts) <= 0
        assert exhausts == 121 or standing.left(exhausts - 1) > 0


@given(st.lists(pieces, max_size=6), st.lists(pieces, max_size=3), periods)
def test_what_is_taken_out_leaves_what_was_there(found, more, period):
    both = total([*found, *more], period)

    assert total(found, period) == both - total(more, period)


@given(st.lists(pieces, max_size=6), periods, st.integers(0, 150))
def test_open_pieces_commit_what_they_would_spend_until_their_deadlines(found, period, at):
    bounded = [p for p in found if p.end_s is None and p.deadline_s is not None]
    promised = [msgspec.structs.replace(p, end_s=p.deadline_s) for p in bounded]
    later = Period(at, period.end_s)

    expected = counted(promised, later, 1_000) if period.end_s is None or at < period.end_s else 0
    assert expected == committed(found, period, at)


@pytest.mark.parametrize(("cores", "hours"), [(1, 100), (2, 50), (100, 1)])
def test_100_core_hours_are_exhausted_at_exactly_the_second_that_the_article_says(cores, hours):
    hard = 100 * HOUR * CORE
    start = second("2026-10-26T08:00") + 7
    standing = BudgetStatus(ALWAYS, hard, spend_of(SpendPiece(start, None, cores * CORE), ALWAYS))
    exhausts = start + hours * HOUR

    assert exhausts == standing.exhausts_s(start)
    assert (cores * CORE, 0) == (standing.left(exhausts - 1), standing.left(exhausts))
    judged = advance(advance(None, standing, start), standing, exhausts + 3)
    assert exhausts == judged.exhausted_s


def test_a_budget_that_lasts_until_its_period_ends_has_no_forecast():
    standing = BudgetStatus(Period(0, 100), 100, Spend(0, 1, 0))

    assert standing.exhausts_s(10) is None
    assert 99 == msgspec.structs.replace(standing, hard=99).exhausts_s(10)


# exhaustion

RULE = ExhaustionRule(OnExhaustion.GRACE_THEN_EVICT, 30)
#: 1,000 unit·seconds at 10 a second: warned at 80, exhausted at 100, grace over at 130.
RUNNING = BudgetStatus(Period(0, 500), 1_000, Spend(0, 10, 0))


def judged(*moments):
    """The judgements at (second, standing), each after the one before."""
    state, found = None, []
    for at, standing in moments:
        state = advance(state, standing, at)
        found.append(state)
    return found


@pytest.mark.parametrize(
    ("at", "phase"),
    [
        (0, Phase.OK),
        (79, Phase.OK),
        (80, Phase.WARNED),
        (99, Phase.WARNED),
        (100, Phase.EXHAUSTED),
        (129, Phase.EXHAUSTED),
        (130, Phase.GRACE_OVER),
    ],
)
def test_a_budget_is_warned_then_exhausted_then_its_grace_is_over(at, phase):
    assert phase is judged((0, RUNNING), (at, RUNNING))[-1].phase(RULE)


@given(st.sets(st.integers(1, 400), max_size=20))
def test_phases_begin_at_the_same_second_whenever_they_are_looked_at(ticks):
    state = judged((0, RUNNING), *((t, RUNNING) for t in sorted(ticks)), (400, RUNNING))[-1]

    assert Exhaustion(Period(0, 500), 400, 80, 100) == state


def test_a_new_period_begins_as_ok():
    following = msgspec.structs.replace(RUNNING, period=Period(500, 900), spend=Spend(0, 10, 5_000))
    states = judged((0, RUNNING), (499, RUNNING), (501, following), (600, following))

    assert [Phase.OK, Phase.GRACE_OVER, Phase.OK, Phase.EXHAUSTED] == [
        state.phase(RULE) for state in states
    ]
    assert 600 == states[-1].exhausted_s


def test_a_credit_takes_exhaustion_back_and_the_grace_begins_anew():
    credited = msgspec.structs.replace(RUNNING, credits=500)
    states = judged((0, RUNNING), (120, RUNNING), (120, credited), (160, credited))

    assert [None, 100, None, 150] == [state.exhausted_s for state in states]
    assert 180 == states[-1].grace_over_s(RULE)


def test_c11_a_budget_of_0_is_none_exhausted_at_once():
    state = judged((0, msgspec.structs.replace(RUNNING, hard=0, spend=Spend())))[-1]

    assert 0 == state.exhausted_s


def test_c11_a_budget_smaller_than_what_is_spent_is_exhausted_at_once_and_its_grace_begins_then():
    lowered = msgspec.structs.replace(RUNNING, hard=100)
    states = judged((0, RUNNING), (60, RUNNING), (70, RUNNING), (70, lowered), (99, lowered))

    assert [None, None, None, 70, 70] == [state.exhausted_s for state in states]
    assert Phase.EXHAUSTED is states[-1].phase(RULE)


def test_a_budget_that_is_new_and_already_spent_is_exhausted_from_when_it_is_first_judged():
    assert 300 == judged((300, RUNNING))[-1].exhausted_s


def test_outside_of_its_windows_a_quota_has_nothing_to_spend():
    between = msgspec.structs.replace(RUNNING, period=Period(0, 500, is_granted=False), credits=7)

    assert (0, 200) == (between.limit, judged((200, between))[-1].exhausted_s)


@pytest.mark.parametrize(
    ("rule", "over"),
    [
        (ExhaustionRule(OnExhaustion.WARN), None),
        (ExhaustionRule(OnExhaustion.DENY_NEW, 30), None),
        (RULE, 130),
    ],
)
def test_running_work_may_be_ended_only_where_the_quotas_rule_says_so(rule, over):
    before, state = judged((0, RUNNING), (100, RUNNING))

    assert (over, None) == (state.grace_over_s(rule), before.grace_over_s(rule))


def test_a_budget_warns_at_80_percent():
    assert 80 == WARN_PERCENT
