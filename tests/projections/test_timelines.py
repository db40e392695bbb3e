"""The order rule and what an attribute was when: tables of observations (version, second) → changes."""

import itertools

import pytest

from projections import timelines

ORDERS = {
    "a longer version is larger": (("9", 5), ("10", 1), True),
    "of equal lengths the text decides": (("12", 5), ("13", 1), True),
    "the same version does not precede itself": (("12", 1), ("12", 5), False),
    "a leading zero is no order: time decides": (("09", 1), ("8", 5), True),
    "no decimal is no order: time decides": (("x", 5), ("1", 1), False),
    "foreign digits are no order: time decides": (("١", 5), ("2", 1), False),
    "an empty version is no order: time decides": (("", 1), ("7", 5), True),
    "forty digits are compared as text, never as a number": (
        ("9" * 40, 5),
        ("1" + "0" * 40, 1),
        True,
    ),
}


@pytest.mark.parametrize(("one", "other", "expected"), ORDERS.values(), ids=list(ORDERS))
def test_one_observation_precedes_another(one, other, expected):
    assert expected == timelines.precedes(*one, *other)


def history(*observations):
    """A history of (version, seconds, value)."""
    known = ()
    for version, second, value in observations:
        known = timelines.added(known, str(version), round(second * 1_000_000), value)
    return known


CHANGES = {
    "nothing was seen": ([], []),
    "one value": ([(1, 5, "a")], [(5, "a")]),
    "a value seen again is no change": ([(1, 5, "a"), (2, 9, "a")], [(5, "a")]),
    "a new value holds from the floored time of its first observation": (
        [(1, 5, "a"), (2, 9.9, "b"), (3, 12, "b")],
        [(5, "a"), (9, "b")],
    ),
    "a value that returns cuts again": (
        [(1, 5, "a"), (2, 7, "b"), (3, 9, "a")],
        [(5, "a"), (7, "b"), (9, "a")],
    ),
    "of two changes in one second the later one counts": (
        [(1, 5, "a"), (2, 9.1, "b"), (3, 9.8, "c")],
        [(5, "a"), (9, "c")],
    ),
    "two changes in one second that come to nothing are none": (
        [(1, 5, "a"), (2, 9.1, "b"), (3, 9.8, "a")],
        [(5, "a")],
    ),
    "the first value is no change and stays, though it changed in its second": (
        [(1, 5.1, "a"), (2, 5.9, "b")],
        [(5, "a"), (5, "b")],
    ),
    "one version seen twice was seen when it was seen first": ([(1, 9, "a"), (1, 5, "a")], [(5, "a")]),
    "a delayed observation does not undo a newer one": (
        [(1, 5, "a"), (2, 20, "b"), (3, 8, "c")],
        [(5, "a"), (8, "c")],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("seen", "expected"), CHANGES.values(), ids=list(CHANGES))
def test_values_hold_from_when_they_were_first_seen_in_any_order_of_arrival(seen, expected):
    orders = list(itertools.permutations(seen))

    assert [expected] * len(orders) == [timelines.changes(history(*order)) for order in orders]


@pytest.mark.parametrize(
    ("second", "expected"), [(-1, "a"), (5, "a"), (6, "a"), (7, "b"), (100, "b")]
)
def test_the_first_value_holds_for_all_time_before(second, expected):
    assert expected == timelines.at([(5, "a"), (7, "b")], second)


def test_adding_what_is_known_gives_the_identical_history():
    known = history((1, 5, "a"), (2, 6, "b"))

    assert known is timelines.added(known, "2", 6_000_000, "b")
    assert known is timelines.added(known, "2", 9_000_000, "b")
    assert known == timelines.added(known, "1", 5_000_000, "a")


def test_a_long_history_keeps_its_newest_points_and_of_old_ones_only_the_changes():
    known = history(*((n, n, "a" if n < 3 else "b") for n in range(1, 2_000)))

    assert len(known) <= 2 * timelines.KEPT
    assert [(1, "a"), (3, "b")] == timelines.changes(known)


DIFFERENCES = {
    "equal": ([(1, "a")], [(1, "a")], None),
    "nothing before": ([], [(1, "a")], -(2**62)),
    "another first value": ([(1, "a")], [(1, "b")], -(2**62)),
    "the first value from another second is the same": ([(1, "a")], [(5, "a")], None),
    "a change more": ([(1, "a")], [(1, "a"), (9, "b")], 9),
    "a change earlier": ([(1, "a"), (9, "b")], [(1, "a"), (4, "b")], 4),
    "a change between two": ([(1, "a"), (9, "b")], [(1, "a"), (4, "c"), (9, "b")], 4),
}


@pytest.mark.parametrize(
    ("before", "after", "expected"), DIFFERENCES.values(), ids=list(DIFFERENCES)
)
def test_the_first_second_from_which_two_lists_of_changes_differ(before, after, expected):
    assert expected == timelines.first_difference(before, after)


GONE = {
    "no delete": (None, False),
    "a delete after the last observation": (("9", 1), True),
    "a namesake created after the delete": (("3", 99), False),
}


@pytest.mark.parametrize(("gone", "expected"), GONE.values(), ids=list(GONE))
def test_a_thing_is_gone_unless_it_was_seen_after_its_delete(gone, expected):
    assert expected == timelines.is_gone(history((5, 5, "a")), gone)
