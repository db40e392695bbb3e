"""What a wrong clock may not do to what a pod is charged: the watcher's, a node's, or one of a single stamp.

Times are seconds after the start, as in `test_pod_runs`. Stamps come from the API server and the kubelets, the time of
an observation from whoever watched.
"""

import itertools

import pytest

from projections.accounts import accounts
from projections.pod_runs.fold import KUBELET
from tests import factories as f
from tests.projections.ledger import folded, tables

AS_OF = f.START_S + 100_000
NOW = 100_000
DAY = 86_400
YEAR = 365 * DAY
#: Seconds from the start back to 1970, and to June 2014.
EPOCH = -f.START_S
JUNE_2014 = 1_401_580_800 - f.START_S

seen, gone, listed = f.pod_observed, f.pod_vanished, f.pods_listed


def run(events):
    """(held intervals, waiting, unknown, open, flags) of the one pod."""
    (told,) = accounts(folded(f.numbered(events)).select, as_of_s=AS_OF)
    held = [(h.start_s - f.START_S, h.end_s - f.START_S) for h in told.holdings]
    return (held, told.waiting_s, told.unknown_s, told.is_open, list(told.flags))


RUNS = {
    # the watcher's clock
    "a clock one hour slow does not shorten a finished run of forty minutes": (
        [seen(at=2401 - 3600, phase="Succeeded", finished=(2400,))],
        ([(0, 2400)], 0, 0, False, ["clock"])),
    "a finish after an observation within the run is clamped to it": (
        [seen(at=50, phase="Failed", finished=(70,))], ([(0, 50)], 0, 0, False, ["clamped"])),
    "a clock at 1970 charges from the stamps": (
        [seen(version=1, at=EPOCH, scheduled=5), seen(version=2, at=20, scheduled=5)],
        ([(5, NOW)], 5, 0, True, [])),
    "a clock at 1970 charges from the creation where that is the only stamp": (
        [seen(version=1, at=EPOCH, created=4, scheduled=None), seen(version=2, at=20, created=4, scheduled=None)],
        ([(4, NOW)], 0, 0, True, [])),
    "a clock at 1970 that saw the end ends it at the stamps": (
        [seen(version=1, at=20), gone(version=2, at=EPOCH, deletion=60)],
        ([(0, 60)], 0, 0, False, [])),
    "a clock at 1970 that saw a finish without a stamp ends nothing in 1970": (
        [seen(version=1, at=20), seen(version=2, at=EPOCH, scheduled=3, phase="Failed")],
        ([(0, 3)], 0, 0, False, ["clock", "end_observed"])),
    "a clock at 1970 that saw a delete without a stamp ends nothing in 1970": (
        [seen(version=1, at=20), gone(version=2, at=EPOCH, scheduled=3)],
        ([(0, 3)], 0, 0, False, ["clock", "end_observed"])),
    # a time of observation is no stamp
    "a creation is never the minimum with the time of an observation": (
        [seen(version=1, at=5, created="soon", scheduled=None), seen(version=2, at=25, created=20, scheduled=20)],
        ([(20, NOW)], 0, 0, True, ["clamped"])),
    "a start is never the minimum with the time of an observation": (
        [seen(version=1, at=5, created=None, scheduled=None), seen(version=2, at=25, created=2, scheduled=20)],
        ([(20, NOW)], 18, 0, True, [])),
    # one stamp
    "a stamp before June 2014 is absent, flagged": (
        [seen(at=9, created=2, scheduled=JUNE_2014 - 1)], ([(2, NOW)], 0, 0, True, ["clamped"])),
    "June 2014 is plausible": (
        [seen(at=9, created=JUNE_2014, scheduled=5)],
        ([(5, NOW)], 5 - JUNE_2014, 0, True, [])),
    "a creation in 1970 is absent, flagged, and the pod holds from its other stamps": (
        [seen(at=9, created=EPOCH, scheduled=5)], ([(5, NOW)], 0, 0, True, ["clamped"])),
    "a stamp more than a year after all others is absent, flagged": (
        [seen(at=9, created=2, scheduled=9 + YEAR + 1)], ([(2, NOW)], 0, 0, True, ["clamped"])),
    "a stamp a year after the newest of the others is plausible": (
        [seen(at=9, deletion=9 + YEAR, grace_seconds=30)], ([(0, NOW)], 0, 0, True, [])),
    "a finish in the year 9999 is absent, and the next best stamp counts": (
        [seen(at=50, phase="Failed", finished=("9999-12-31T23:59:59Z",), disrupted=40, disruption=KUBELET)],
        ([(0, 40)], 0, 0, False, ["clamped"])),
    "of several finishes an absent one proves no end": (
        [seen(at=50, phase="Failed", finished=(30, EPOCH, "9999-12-31T23:59:59Z"))],
        ([(0, 50)], 0, 0, False, ["clamped", "end_observed"])),
    "a delete in the year one ends nothing at that time": (
        [seen(version=1, at=20), gone(version=2, at=60, deletion="0001-01-01T00:00:00Z")],
        ([(0, 60)], 0, 0, False, ["clamped", "end_observed"])),
}  # fmt: skip


@pytest.mark.parametrize(("history", "expected"), RUNS.values(), ids=list(RUNS))
def test_a_wrong_clock_charges_by_what_is_plausible(history, expected):
    assert expected == run(history)


@pytest.mark.parametrize(("history", "_"), RUNS.values(), ids=list(RUNS))
def test_order_and_repetition_do_not_matter_where_clocks_are_wrong(history, _):
    orders = itertools.islice(itertools.permutations([*history, history[0]]), 0, 12, 3)
    dumps = [tables(f.numbered(order), without=("sequence",)) for order in orders]

    assert dumps[:1] * len(dumps) == dumps


def test_a_watcher_at_1970_writes_no_half_million_hours():
    """A pod of ninety minutes, seen by a watcher whose clock stands at 1970 and by one that is right.

    On hours alone that wrote 498,707 rows. The same goes for a pod without a condition, and for the list.
    """
    for scheduled in (None, 3):
        stamps = {"created": 2, "scheduled": scheduled}
        history = [
            seen(version=1, at=EPOCH + 9, **stamps),
            *listed(["p"], version=2, at=EPOCH + 10),
            seen(version=3, at=30, cpu=2, **stamps),
            gone(version=4, at=5401, deletion=5400, **stamps),
        ]

        found = tables(f.numbered(history))

        assert [row["hour_s"] - f.START_S for row in found["usage_hours"]] == [0, 3600]
