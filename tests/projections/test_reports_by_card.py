"""Reports by card and by device class: the cards of a pod's claims, and together always what the pods held."""

import pytest

from bus.events.devices import DeviceAsk, DeviceRequest
from projections import reports
from projections.reports import Question
from tests import factories as given
from tests.projections.devices.claimed import card, claim_observed, slice_observed
from tests.projections.devices.claimed_worlds import World
from tests.projections.ledger import folded

H100, A100 = "gpu.nvidia.com/n/gpu-0", "gpu.nvidia.com/n/gpu-1"
HISTORY = [
    slice_observed(card("gpu-0", "H100"), card("gpu-1", "A100")),
    claim_observed("g", "gpu-0", "gpu-1", stamp=0, requests=(DeviceRequest("gpu", (DeviceAsk("fast"),)),)),
    given.pod_observed("claims", claims=("g",), cpu="2"),
    given.pod_vanished("claims", version=2, claims=("g",), cpu="2", at=60, deletion=60),
    given.pod_observed("counts", gpu=1, cpu="1"),
    given.pod_vanished("counts", version=2, gpu=1, cpu="1", at=10, deletion=10),
]  # fmt: skip


def asked(events, *by, how=reports.report, **more):
    """(milli-card-seconds, milli-core-seconds, seconds held, pods that held) by group."""
    store = folded(given.numbered(events))
    question = Question(by=by, as_of_s=given.START_S + 1_000, **more)
    with store.engine.connect() as connection:
        rows = how(connection, question)
    return {
        row.key: (s.gpu_milli_s, s.cpu_milli_s, s.held_s, s.held_pods)
        for row in rows
        for s in [row.sums]
    }


def test_a_card_has_what_pods_held_of_it_and_cpu_counts_with_the_first():
    assert asked(HISTORY, "device") == {
        (H100,): (60_000, 0, 0, 1),
        (A100,): (60_000, 120_000, 60, 1),
        (None,): (10_000, 10_000, 10, 1),
    }


def test_a_class_has_what_was_given_for_requests_of_it():
    assert asked(HISTORY, "class") == {("fast",): (120_000, 120_000, 60, 1), (None,): (10_000, 10_000, 10, 1)}  # fmt: skip


def test_a_prioritized_list_of_several_classes_has_none():
    asks = (DeviceAsk("fast"), DeviceAsk("slow"))
    claim = claim_observed("g", "gpu-0", stamp=0, requests=(DeviceRequest("gpu", asks),))
    events = [HISTORY[0], claim, *HISTORY[2:4]]

    assert asked(events, "class") == {(None,): (60_000, 120_000, 60, 1)}


def test_a_model_keeps_its_cards():
    found = asked(HISTORY, "model", "device", where={"model": "H100"})

    assert found == {("H100", H100): (60_000, 0, 0, 1)}


def test_cards_are_cut_at_the_period():
    start = given.START_S
    found = asked(HISTORY, "device", from_s=start + 50, to_s=start + 55)

    assert {key: sums[0] for key, sums in found.items()} == {(H100,): 5_000, (A100,): 5_000}


@pytest.mark.parametrize("by", [("device",), ("class", "team"), ("device", "model", "hour")])
@pytest.mark.parametrize("seed", range(4))
def test_the_sum_over_cards_is_the_sum_of_the_segments(seed, by):
    events = World(seed).events
    (whole,) = asked(events).values()

    for how in (reports.report, reports.sums):
        found = asked(events, *by, how=how).values()
        assert [sum(one[n] for one in found) for n in range(3)] == list(whole[:3])
