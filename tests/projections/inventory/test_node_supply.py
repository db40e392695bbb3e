"""No node gives more cards than it has."""

import pytest

from bus.events.devices import ResourceSliceObserved
from projections.inventory.node_supply import excesses, oversubscribed
from tests import factories as given
from tests.projections.devices.claimed import DRIVER, card, claim_observed, slice_observed
from tests.projections.ledger import folded

KEY = (given.CLUSTER, "n")


def node(version=1, at=0, *, gpu="2", name="n", **fields):
    return given.node_observed(name, version, at, allocatable={"nvidia.com/gpu": gpu}, **fields)


def pod(uid, start, end=None, gpu=1, **fields):
    fields = {"gpu": gpu, "created": start, "scheduled": start, **fields}
    events = [given.pod_observed(uid, 1, start, **fields)]
    if end is not None:
        events.append(given.pod_vanished(uid, 9, end, deletion=end, **fields))
    return events


def excess(*events, name="n"):
    """(from, to, charged, supply) of a node."""
    store = folded(given.numbered(events))
    found = excesses(store.select, {(given.CLUSTER, name)}, given.START_S, given.START_S + 900)
    return [
        (one.from_s - given.START_S, one.to_s - given.START_S, one.charged_milli, one.supply_milli)
        for one in found.get((given.CLUSTER, name), ())
    ]


def now(*events):
    """(node, resources, charged, supply) of nodes that give more now."""
    return [tuple(one[1:]) for one in oversubscribed(folded(given.numbered(events)).select)]


def test_what_is_charged_beyond_the_supply_of_a_node_is_an_excess_second_by_second():
    pods = [*pod("a", 0, 100), *pod("b", 10, 50), *pod("c", 40, 60)]

    assert excess(node(), *pods) == [(40, 50, 3000, 2000)]


def test_pods_that_follow_each_other_on_a_full_node_are_none():
    """The bystander."""
    pods = [*pod("a", 0, 40, 2), *pod("b", 40, 50), *pod("c", 40)]

    assert excess(node(), *pods) == []
    assert now(node(), *pods) == []


def test_open_pods_beyond_the_supply_are_named_with_the_resource():
    pods = [*pod("a", 0), *pod("b", 0, gpu=2), *pod("c", 0, node="other"), *pod("d", 0, 20)]

    assert now(node(), node(name="other"), *pods) == [("n", ("nvidia.com/gpu",), 3000, 2000)]
    assert excess(node(), *pods) == [(0, 20, 4000, 2000), (20, 900, 3000, 2000)]


@pytest.mark.parametrize(
    "events",
    [
        [],
        [given.node_observed("n", allocatable={"cpu": "4"})],
        [given.node_observed("n", allocatable={"nvidia.com/gpu": "x"})],
    ],
    ids=["unseen", "none", "unreadable"],
)
def test_a_supply_that_is_unknown_is_passed_by_nothing(events):
    assert now(*events, *pod("a", 0)) == excess(*events, *pod("a", 0)) == []


def test_a_device_plugin_that_restarts_takes_no_card_away():
    events = [node(), *pod("a", 0, gpu=2), node(2, 20, gpu="0"), node(3, 30)]

    assert now(*events) == excess(*events) == now(*events[:-1]) == []


def test_a_node_of_another_uid_has_its_own_supply():
    events = [node(), *pod("a", 0, gpu=2), node(2, 40, gpu="1", uid="other")]

    assert excess(*events) == [(40, 900, 2000, 1000)]
    assert now(*events) == [("n", ("nvidia.com/gpu",), 2000, 1000)]


def test_partitions_of_cards_count_alike_on_both_sides():
    product = "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"
    labels = {"nvidia.com/gpu.product": product}
    pods = [event for number in range(7) for event in pod(f"p{number}", 0)]
    events = [node(gpu="7", further_labels=labels), *pods]

    assert now(*events) == []
    assert now(*events, *pod("q", 0, gpu=1)) == [("n", ("nvidia.com/gpu",), 1000, 875)]


def test_a_register_of_cards_is_the_supply():
    register = {"hami.io/node-nvidia-register": "GPU-a,10,40960,100,A100,0,true:"}
    events = [node(gpu="10", card_texts=register), *pod("a", 0, gpu=2)]

    assert now(*events) == [("n", ("nvidia.com/gpu",), 2000, 1000)]


def claimed(uid, device, **fields):
    return [
        claim_observed(f"g-{uid}", device, stamp=0),
        *pod(uid, 0, gpu=0, claims=(f"g-{uid}",), **fields),
    ]


def test_cards_of_slices_and_of_the_plugin_are_the_same_cards():
    cards = slice_observed(card("gpu-0", "H100"), card("gpu-1", "H100"))
    events = [cards, node(gpu="2"), *claimed("a", "gpu-0"), *pod("b", 0)]

    assert now(*events) == []
    assert now(*events, *pod("c", 0)) == [("n", ("nvidia.com/gpu",), 3000, 2000)]


def test_cards_of_no_node_are_held_from_any():
    body = ResourceSliceObserved(
        uid="s", name="s", resource_version="1", driver=DRIVER, pool="n", devices=(card("gpu-0", "H100"),)
    )  # fmt: skip
    fabric = given.said(body, key="s", id="slice/s", at=0)
    events = [fabric, node(gpu="1"), *claimed("a", "gpu-0"), *pod("b", 0)]

    assert now(*events) == []
    assert [one[2:] for one in now(*events, *pod("c", 0))] == [(3000, 2000)]
