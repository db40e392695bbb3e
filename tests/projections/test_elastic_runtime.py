"""How one resource is divided among siblings: the article's example, what always holds, and two oracles."""

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.quota_trees.elastic import ChildShare, largest_remainder, runtimes, scaled_mins
from tests.elastic_plainly import half_up

NAMES = "abcdef"
AMOUNTS = st.one_of(st.integers(0, 60), st.integers(0, 2**44))


@st.composite
def claims(draw, amounts=AMOUNTS, most=6):
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=most, unique=True))
    weights = st.one_of(st.integers(0, 5), st.integers(0, 2**44))
    return [
        ChildShare(name, draw(amounts), draw(amounts), draw(weights), draw(st.booleans()))
        for name in names
    ]


def taken(claim):
    """What a claim gets whatever the others ask."""
    if claim.request > claim.floor or not claim.lends:
        return claim.floor
    return claim.request


@pytest.mark.parametrize("rounding", [largest_remainder, half_up])
@pytest.mark.parametrize(("asks_c", "c", "d"), [(40, 35, 40), (30, 30, 45)])
def test_the_articles_quotas_get_5_20_35_and_40_of_100(rounding, asks_c, c, d):
    found = runtimes(
        100,
        [
            ChildShare("A", 10, 5, 40),
            ChildShare("B", 15, 20, 60),
            ChildShare("C", 20, asks_c, 50),
            ChildShare("D", 15, 70, 80),
        ],
        rounding,
    )

    assert found == {"A": 5, "B": 20, "C": c, "D": d}


@given(AMOUNTS, claims())
def test_nobody_is_below_what_he_gets_whatever_others_ask(total, claimed):
    found = runtimes(total, claimed)

    assert [] == [one for one in claimed if found[one.name] < taken(one)]


@given(AMOUNTS, claims())
def test_nobody_gets_more_than_he_asks_or_keeps(total, claimed):
    found = runtimes(total, claimed)

    assert [] == [one for one in claimed if found[one.name] > max(one.request, taken(one))]


@given(AMOUNTS, claims())
def test_every_unit_is_handed_out_until_all_who_take_part_have_what_they_ask(total, claimed):
    found = runtimes(total, claimed)
    sure = sum(map(taken, claimed))
    wanted = sum(
        one.request - one.floor for one in claimed if one.weight and one.request > one.floor
    )

    assert sum(found.values()) == sure + min(wanted, max(total - sure, 0))


@given(AMOUNTS, claims(), st.randoms(use_true_random=False))
def test_the_order_of_the_claims_does_not_matter(total, claimed, random):
    mixed = random.sample(claimed, len(claimed))

    assert runtimes(total, claimed) == runtimes(total, mixed)


@given(AMOUNTS, claims())
def test_half_up_does_not_depend_on_the_order_either(total, claimed):
    assert runtimes(total, claimed, half_up) == runtimes(total, claimed[::-1], half_up)


def test_half_up_loses_three_units_among_ten_equal_borrowers():
    claimed = [ChildShare(f"q{n}", 0, 5, 1) for n in range(10)]

    assert sum(runtimes(3, claimed, half_up).values()) == 0
    assert sum(runtimes(3, claimed).values()) == 3


@given(st.integers(0, 60), claims(st.integers(0, 30)))
def test_shares_are_within_a_unit_a_round_of_the_exact_ones(total, claimed):
    found, exact = runtimes(total, claimed), exact_runtimes(total, claimed)

    assert [] == [
        one for one in claimed if abs(found[one.name] - exact[one.name]) >= max(len(claimed), 1)
    ]


def exact_runtimes(total, claimed):
    """In fractions: every borrower rises with his weight, all at one level, until he has what he asks."""
    result = {one.name: Fraction(taken(one)) for one in claimed}
    borrowers = [one for one in claimed if one.request > one.floor and one.weight]
    level, pool = Fraction(0), Fraction(total) - sum(result.values())
    for stop in sorted(Fraction(one.request - one.floor, one.weight) for one in borrowers):
        rising = sum(
            one.weight for one in borrowers if one.floor + level * one.weight < one.request
        )
        if pool <= 0 or not rising:
            break
        step = min(stop - level, pool / rising)
        level, pool = level + step, pool - step * rising
    return result | {
        one.name: min(Fraction(one.request), one.floor + level * one.weight) for one in borrowers
    }


@given(st.integers(1, 9), st.lists(st.integers(0, 4), min_size=1, max_size=4))
def test_largest_remainder_is_the_nearest_of_all_divisions_the_first_names_first(pool, weights):
    total = sum(weights)
    if not total:
        return
    ideal = [Fraction(pool * weight, total) for weight in weights]
    nearest = min(
        (one for one in product(range(pool + 1), repeat=len(weights)) if sum(one) == pool),
        key=lambda one: (
            sum((share - part) ** 2 for share, part in zip(one, ideal, strict=True)),
            [-share for share in one],
        ),
    )
    borrowers = [ChildShare(NAMES[n], 0, pool, weight) for n, weight in enumerate(weights)]

    assert list(nearest) == largest_remainder(pool, total, borrowers)


def test_products_beyond_64_bits_are_exact():
    big = 2**62
    claimed = [
        ChildShare("a", 0, big, big),
        ChildShare("b", 0, big, big - 1),
        ChildShare("c", 0, big, 1),
    ]
    found = runtimes(big, claimed)

    assert sum(found.values()) == big
    assert found["a"] == big // 2


def test_floors_that_exceed_the_total_are_all_honoured():
    assert runtimes(50, [ChildShare("a", 40, 99, 1), ChildShare("b", 40, 99, 1)]) == {
        "a": 40,
        "b": 40,
    }


@given(st.integers(-5, 200), st.dictionaries(st.sampled_from(NAMES), st.integers(0, 60)))
def test_scaled_mins_fit_into_the_total(total, mins):
    found = scaled_mins(total, mins)

    assert found.keys() == mins.keys()
    assert sum(found.values()) <= max(total, 0)
    assert [] == [name for name in mins if not 0 <= found[name] <= mins[name]]


@given(st.integers(0, 3), st.dictionaries(st.sampled_from(NAMES), st.integers(0, 60), min_size=1))
def test_mins_that_fit_are_not_scaled(spare, mins):
    assert scaled_mins(sum(mins.values()) + spare, mins) == mins


def test_fixed_children_keep_their_min_and_the_others_share_what_is_left():
    assert scaled_mins(100, {"a": 50, "b": 60, "c": 40}, {"a"}) == {"a": 50, "b": 30, "c": 20}
    assert scaled_mins(30, {"a": 50, "b": 60}, {"a"}) == {"a": 50, "b": 0}
    assert scaled_mins(45, {"a": 50, "b": 60}, {"a"}) == {"a": 50, "b": 0}
