"""Sums by hour and day: whole segments cut at boundaries, restated by late facts, never a group without pods."""

import pytest

from projections.timelines import DAY, HOUR
from projections.usage import pieces
from tests import factories as f
from tests.projections.ledger import tables

PIECES = {
    "nothing": ((5, 5), []),
    "within one hour": ((10, 20), [(0, 10)]),
    "up to the boundary": ((10, HOUR), [(0, HOUR - 10)]),
    "from the boundary": ((HOUR, HOUR + 1), [(HOUR, 1)]),
    "over three hours": ((HOUR - 1, 2 * HOUR + 2), [(0, 1), (HOUR, HOUR), (2 * HOUR, 2)]),
    "before 1970": ((-5, 5), [(-HOUR, 5), (0, 5)]),
}


@pytest.mark.parametrize(("interval", "expected"), PIECES.values(), ids=list(PIECES))
def test_an_interval_is_cut_at_hours(interval, expected):
    assert expected == list(pieces(*interval, HOUR))


def hours(events, **options):
    """(hour after the start, team, seconds, cpu, pods) of every row."""
    found = tables(f.numbered(events), **options)["usage_hours"]
    return [
        ((r["hour_s"] - f.START_S) // HOUR, r["team"], r["held_s"], r["cpu_milli_s"], r["pods"])
        for r in found
    ]


END = f.pod_vanished(version=9, at=HOUR + 61, deletion=HOUR + 60)

SUMS = {
    "what is open is not summed": ([f.pod_observed()], []),
    "what has ended is cut at the hour": (
        [END], [(0, "unassigned", HOUR, HOUR * 1000, 1), (1, "unassigned", 60, 60_000, 1)]),
    "a closed segment of an open pod is summed": (
        [f.pod_observed(version=1), f.pod_observed(version=2, at=50, team="a")],
        [(0, "unassigned", 50, 50_000, 1)]),
    "a late namespace restates all hours and leaves no empty group": (
        [END, f.namespace_observed(at=9000, team="a")],
        [(0, "a", HOUR, HOUR * 1000, 1), (1, "a", 60, 60_000, 1)]),
    "a pod counts once in a group that it left and came back to": (
        [f.pod_observed(version=1, team="a"), f.pod_observed(version=2, at=10, team="b"),
         f.pod_observed(version=3, at=20, team="a"), f.pod_vanished(version=4, at=31, team="a", deletion=30)],
        [(0, "a", 20, 20_000, 1), (0, "b", 10, 10_000, 1)]),
    "an end that is earlier than was thought gives back what was charged": (
        [END, f.pod_vanished(version=8, at=11, deletion=10)], [(0, "unassigned", 10, 10_000, 1)]),
    "vanished time is charged until the last evidence only": (
        [f.pod_observed(at=5), f.pods_listed([], at=9000)], [(0, "unassigned", 5, 5_000, 1)]),
    "vanished taken back takes its charge back": (
        [f.pod_observed(version=1, at=5), f.pods_listed([], at=90), f.pod_observed(version=2, at=91)], []),
}  # fmt: skip


@pytest.mark.parametrize("batch", [1, 1000])
@pytest.mark.parametrize(("history", "expected"), SUMS.values(), ids=list(SUMS))
def test_hours_are_the_sums_of_ended_segments(history, expected, batch):
    assert expected == hours(history, batch=batch)
    assert expected == hours(history, batch=batch, restart_every=1, ended_kept=0)


def test_days_have_the_same_sums_as_hours():
    found = tables(f.numbered([f.pod_vanished(at=5 * DAY + 1, deletion=5 * DAY)]))
    sums = [sum(row["held_s"] for row in found[name]) for name in ("usage_hours", "usage_days")]

    assert [5 * DAY, 5 * DAY] == sums
    assert (5 * 24, 6) == (len(found["usage_hours"]), len(found["usage_days"]))


def test_a_row_says_which_event_touched_it_last():
    found = tables(f.numbered([END, f.namespace_observed(at=9000, team="a")]))["usage_hours"]

    assert {2} == {row["sequence"] for row in found}
