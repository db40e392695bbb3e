"""When a budget will be used up, by what was spent on it."""

from random import Random

import pytest

from projections.budgets.outlook import AHEAD_DAYS, DAY, LEAST_DAYS, looked_back, outlook


@pytest.mark.parametrize("left", [1, 99, 2_400, 24_000, 100_000])
def test_what_spends_the_same_each_day_is_used_up_when_that_says(left):
    found = outlook([100] * DAY * 10, left, None, "q")

    assert (found.earliest, found.likely, found.latest, found.chance) == (*[-(-left // 100)] * 3, 1_000)  # fmt: skip


def test_nothing_is_said_of_less_than_a_week():
    """Hours before the first that spent anything are none of its history."""
    week = LEAST_DAYS * DAY

    assert outlook([0] * 500 + [100] * (week - 1), 9, None, "q") is None
    assert outlook([0] * 500 + [100] * week, 9, None, "q").likely == 1
    assert outlook([], 9, None, "q") is None and looked_back([100] * 2 * week, "q") is None


def test_a_period_that_ends_before_says_how_likely_it_is_that_nothing_is_left_by_then():
    random = Random(1)
    hours = [random.randrange(200) for _ in range(DAY * 30)]
    free = outlook(hours, 10_000, None, "q")
    bounded = outlook(hours, 10_000, free.likely, "q")
    never = outlook(hours, 10_000, 24, "q")

    assert bounded.earliest == free.earliest and bounded.latest is None
    assert 500 <= bounded.chance < 1_000 and never.chance == 0 and never.earliest is None


def test_what_has_ended_is_used_up_by_nobody():
    found = outlook([100] * DAY * 8 + [0] * DAY * 30, 10_000, None, "q")

    assert (found.earliest, found.likely, found.chance) == (None, None, 0)
    assert outlook([0] * DAY * 40, 0, None, "q") is None


@pytest.mark.parametrize("seed", range(20))
def test_whatever_was_spent_the_moments_stand_in_order_and_come_out_again(seed):
    random = Random(seed)
    hours = [
        random.choice((0, 1, random.randrange(10**6), 2**50)) for _ in range(random.randrange(900))
    ]
    for left in (0, 1, random.randrange(10**8), 2**60, -5):
        found = outlook(hours, left, random.choice((None, 0, 5, 10**6)), "q")
        if found is None:
            continue
        never = AHEAD_DAYS * DAY + 1
        said = (found.earliest, found.likely, found.latest)
        moments = [never if one is None else one for one in said]
        assert moments == sorted(moments) and min(moments) >= 0 and 0 <= found.chance <= 1_000
    past = looked_back(hours, "q")

    assert past == looked_back(hours, "q")
    assert past is None or 0 <= past.held <= past.count


def test_growth_is_seen_where_a_straight_line_is_late():
    hours = [10 * (at // DAY) for at in range(DAY * 40)]
    past = looked_back(hours, "q")

    assert past.off < past.straight_off
