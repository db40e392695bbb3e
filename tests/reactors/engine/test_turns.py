"""Turns at a journal that several processes append to."""

import pytest

from reactors.engine.turns import LONGEST_SECONDS, REMEMBERED_SECONDS, JournalTurns


def told(*sources, now=100.0):
    turns = JournalTurns()
    for place, source in enumerate(sources):
        turns.appended(source, now - 0.001 * (len(sources) - place))
    return turns


def test_who_appends_alone_never_waits():
    assert told().wait("a", 100.0) == 0
    assert told("a", "a").wait("a", 100.0) == 0


def test_the_next_by_name_goes_at_once_and_who_just_went_waits_longest():
    turns = told("c", "b", "a")
    waits = [turns.wait(name, 100.0) for name in "bca"]

    assert waits[0] == 0
    assert waits[1:] == pytest.approx([LONGEST_SECONDS - 0.001, 2 * LONGEST_SECONDS - 0.001])


def test_after_the_last_name_comes_the_first():
    assert told("a", "b", "c").wait("a", 100.0) == 0


def test_a_turn_lasts_about_as_long_as_an_append():
    turns = told("b", "a")
    for _ in range(50):
        turns.took(0.002)

    assert turns.wait("a", 100.0) == pytest.approx(0.002 - 0.001, abs=1e-4)


def test_a_slow_process_is_overtaken_after_the_longest_turn():
    turns = told("b", "a")
    turns.took(60.0)

    assert turns.wait("a", 100.0) < LONGEST_SECONDS
    assert turns.wait("a", 100.0 + LONGEST_SECONDS) == 0


def test_who_was_silent_for_a_while_is_not_waited_for():
    turns = told("b", "a")

    assert turns.wait("a", 100.0 + REMEMBERED_SECONDS) == 0


def test_a_process_that_has_not_appended_yet_has_its_place_in_the_ring():
    turns = told("a", "c")

    assert turns.wait("d", 100.0) == 0
    assert turns.wait("b", 100.0) > 0
