"""Lists of CPUs."""

import time

import pytest

from bus.cpusets import HIGHEST_CPU, parsed, readable, written


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", set()), ("0-3,8", {0, 1, 2, 3, 8}), ("5", {5}), ("3-1", None), ("1,", None), ("-1", None), ("+1", None),
        ("1-2-3", None), ("٣", None), ("8192", None), (str(HIGHEST_CPU), {HIGHEST_CPU}), ("0 ", None), ("1" * 70_000, None),
    ],
)  # fmt: skip
def test_a_list_is_read_or_is_none(text, expected):
    assert parsed(text) == (None if expected is None else frozenset(expected))


@pytest.mark.parametrize("cpus", [(), (0,), (0, 1, 2), (0, 2, 4, 5), (7, 3, 8)])
def test_what_is_written_is_read_as_the_same(cpus):
    assert parsed(written(cpus)) == frozenset(cpus)


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [(" 0-3 ,x,9", 99, "0-3,9"), ("0-8191", 4, "0-3"), ("all", 4, ""), ("", 4, ""), ("7,5,1-0", 1, "5")],
)  # fmt: skip
def test_what_can_be_read_of_a_list_counts(text, most, expected):
    assert readable(text, most) == expected


def test_a_list_that_names_everything_very_often_costs_little():
    begun = time.process_time()

    assert readable("0-8191," * 9_000, 3) == "0-2"
    assert time.process_time() - begun < 1
