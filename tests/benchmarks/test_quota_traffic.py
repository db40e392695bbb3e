"""The month of the lab's benchmark: as long as was asked for, in order, with journals of quotas that keep their limits."""

from itertools import pairwise

import pytest

from bus.events.admissions import AdmissionDecided
from reactors.lab.quotas import Proposed, outcomes, played
from reactors.lab.quotas.arrivals import RecordedJournals
from reactors.readers import Readers
from tests.benchmarks import lab, quota_traffic, synthetic

COUNT = 10_000


@pytest.fixture(scope="module")
def month():
    return list(lab.history(COUNT))


def tried(events, **quotas):
    journals = RecordedJournals(Readers(None, None, cluster=synthetic.CLUSTER, source="lab"))
    for event in events:
        journals.apply(event)
    return played(journals.of, quotas, 0, until_us=events[-1].time_us)


def test_the_month_has_its_length_its_order_and_all_that_it_mixes(month):
    assert [event.sequence for event in month] == list(range(1, COUNT + 1))
    assert all(one.time_us <= other.time_us for one, other in pairwise(month))
    assert {
        "clock.ticked", "notebook.sampled", "pod.observed", "quota.observed", "admission.declared", "admission.decided",
        "admission.released", "workload.observed", "workload.vanished", "scheduling.passed",
    } <= {event.type for event in month}  # fmt: skip
    assert len({event.id for event in month}) == COUNT


def test_limits_and_queues_on_record_change_nothing_and_less_room_does(month):
    hard = {quota_traffic.KEY: quota_traffic.HARD}
    same = tried(month, **{f"group-{n}": Proposed(hard=hard) for n in range(quota_traffic.QUOTAS)})
    less = tried(
        month, **{f"group-{n}": Proposed(hard={quota_traffic.KEY: 24_000}) for n in range(2)}
    )

    assert [] == [one for found in same["later"] for one in found.changed]
    total = outcomes(same)[-1]
    assert total.recorded == total.tried > 100
    changes = {(one.kind, one.workload[0]) for found in less["later"] for one in found.changed}
    assert {quota for _, quota in changes} == {"group-0", "group-1"}
    assert {("refused", "group-0"), ("waited", "group-1")} <= changes


def test_some_are_refused_and_some_wait(month):
    said = [AdmissionDecided.read(event) for event in month if event.type == "admission.decided"]

    assert {one.reason for one in said} == {"fits", "over-quota", "released", "fewer"}
