"""What is moved between the shares of a budget: nothing is lost or made, and nothing is taken that is needed."""

from hypothesis import given
from hypothesis import strategies as st

from projections.budgets.shares import BudgetShare, moves

HOUR = 3_600_000
AMOUNTS = st.integers(0, 10**6 * HOUR)


@st.composite
def budgets(draw):
    count = draw(st.integers(0, 6))
    return [
        BudgetShare(f"c{number}", draw(AMOUNTS), draw(AMOUNTS), draw(AMOUNTS) - draw(AMOUNTS), draw(st.booleans()))
        for number in range(count)
    ]  # fmt: skip


@given(budgets())
def test_credits_sum_to_nothing_take_nothing_that_work_may_still_spend_and_leave_the_unknown_alone(
    shares,
):
    found = moves(shares, HOUR)
    by_name = {share.cluster: share for share in shares}

    assert sum(found.values()) == 0
    for name, amount in found.items():
        share = by_name[name]
        assert share.is_known and amount % HOUR == 0 and amount
        assert amount > 0 or share.left + amount >= share.committed


@given(budgets())
def test_nobody_is_given_more_than_makes_all_last_equally_long(shares):
    found, known = moves(shares, HOUR), [share for share in shares if share.is_known]
    left, spent = sum(one.left for one in known), sum(one.spent for one in known)

    for share in known:
        after = share.left + found.get(share.cluster, 0)
        fair = left * share.spent / spent if spent else 0
        if found.get(share.cluster, 0) > 0:
            assert after <= fair + HOUR
        elif found.get(share.cluster, 0) < 0:
            assert after >= fair - HOUR


def test_what_running_work_may_still_spend_stays():
    idle = BudgetShare("idle", 0, 300 * HOUR, 1_000 * HOUR, True)
    busy = BudgetShare("busy", 500 * HOUR, 0, 10 * HOUR, True)

    assert moves([idle, busy], HOUR) == {"busy": 700 * HOUR, "idle": -700 * HOUR}


def test_nothing_is_moved_before_anything_was_spent_nor_after_all_was():
    new = [BudgetShare(name, 0, 0, 100 * HOUR, True) for name in "ab"]
    gone = [BudgetShare(name, 100 * HOUR, 0, -HOUR, True) for name in "ab"]

    assert moves(new, HOUR) == moves(gone, HOUR) == moves([], HOUR) == {}
