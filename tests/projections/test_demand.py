"""The demand of a workload as its row keeps it: the newest word, in whatever order it came."""

import itertools

import msgspec
import pytest

from bus.events.workloads import UNREADABLE, WorkloadObserved
from bus.kube.kinds import QUOTA_LABELS, Ask
from projections import workloads
from tests import factories as f

LABELS = {QUOTA_LABELS[0]: "vision", "app": "web"}
SMALL = f.workload_observed(version=1, at=1, demand={"limits.cpu": 1}, pods=1, labels=LABELS)
LARGE = f.workload_observed(
    version=2, at=2, demand={"limits.cpu": 2}, pods=2, deadline_s=60, replicas=2,
    per_replica={"limits.cpu": 1},
)  # fmt: skip
AGAIN = f.workload_observed(version=2, at=3, demand={"limits.cpu": 2}, pods=2)
UNKNOWN = f.workload_observed(version=3, at=4, notes=(UNREADABLE,))
GONE = f.workload_vanished(version=4, at=5)
BODY = msgspec.json.encode(
    {"uid": "w", "kind": "Job", "namespace": "n", "name": "w", "resource_version": "9"}
)
OLD = msgspec.structs.replace(f.workload_observed(version=9, at=9), version=1, body=BODY)


def folded(events):
    row = None
    for event in events:
        fact = WorkloadObserved if event.type == "workload.observed" else workloads.WorkloadVanished
        row = workloads.fold(row, fact.read(event), event)
    return row


HISTORIES = {
    "the newest": ([SMALL, LARGE], Ask({"limits.cpu": 2}, 2, 60, per_replica={"limits.cpu": 1}, replicas=2)),
    "the first sight of a version": ([LARGE, AGAIN], folded([LARGE]).asked.ask),
    "only labels that name a quota": (
        [SMALL], Ask({"limits.cpu": 1}, 1, labels={QUOTA_LABELS[0]: "vision"})),
    "unreadable is unknown": ([SMALL, LARGE, UNKNOWN], None),
    "what says nothing changes nothing": ([SMALL, OLD], folded([SMALL]).asked.ask),
    "a delete changes nothing": ([SMALL, GONE], folded([SMALL]).asked.ask),
}  # fmt: skip


@pytest.mark.parametrize(("history", "ask"), HISTORIES.values(), ids=HISTORIES)
def test_the_newest_word_holds_in_any_order(history, ask):
    rows = [folded(order) for order in itertools.permutations(history)]

    assert [ask] * len(rows) == [row.asked.ask for row in rows]


def test_two_words_of_one_version_and_time_are_decided_without_the_order():
    one, other = (f.workload_observed(demand={"limits.cpu": n}) for n in (1, 2))

    assert folded([one, other]).asked == folded([other, one]).asked


def test_nothing_is_known_where_nothing_was_said():
    assert folded([OLD]).asked is None


def test_a_row_is_read_as_it_was_stored():
    row = folded([SMALL, LARGE, GONE])

    assert row == workloads.codec.row(workloads.codec.columns(row))
    assert folded([OLD]) == workloads.codec.row(workloads.codec.columns(folded([OLD])))
