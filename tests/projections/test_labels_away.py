"""Labels of a node that are away for a while: feature discovery deletes its labels when it restarts."""

from random import Random

import pytest

from projections.accounts import accounts
from tests import factories as given
from tests.projections.ledger import folded

H100, T4 = "NVIDIA-H100-80GB-HBM3", "Tesla-T4-SHARED"
PRODUCT, KARPENTER = "nvidia.com/gpu.product", "karpenter.k8s.aws/instance-gpu-name"
SHARED = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"}
UNSHARED = {"nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.sharing-strategy": "none"}
REGISTER = {"hami.io/node-nvidia-register": "GPU-a,10,40960,100,A100,0,true:"}
HALF = {"hami.io/vgpu-devices-allocated": "GPU-a,NVIDIA,20480,50:;"}


def node(version, at, model=None, labels=None, **fields):
    return given.node_observed("n", version, at, model=model, further_labels=labels or {}, **fields)


def pod(gpu=1, **fields):
    fields = {"gpu": gpu, "created": 0, **fields}
    return [
        given.pod_observed("p", **fields),
        given.pod_vanished("p", at=95, deletion=90, **fields),
    ]


def held(events, **more):
    """(from, to, model, milli-cards) of the pod's segments."""
    store = folded(given.numbered(events), **more)
    (account,) = accounts(store.select, as_of_s=given.START_S + 900)
    return [
        (one.start_s - given.START_S, one.end_s - given.START_S, one.model, one.gpu_milli)
        for one in account.holdings
    ]


def test_a_model_label_that_is_away_keeps_its_value():
    events = [node(1, 0, H100), *pod(), node(2, 20), node(3, 40, H100)]

    assert held(events) == [(0, 90, H100, 1000)]


def test_a_model_that_changes_cuts_as_ever():
    events = [node(1, 0, "A100"), *pod(), node(2, 20), node(3, 40, H100)]

    assert held(events) == [(0, 40, "A100", 1000), (40, 90, H100, 1000)]


def test_a_model_that_comes_first_later_holds_from_there():
    assert held([node(1, 0), *pod(), node(2, 40, H100)]) == [
        (0, 40, None, 1000), (40, 90, H100, 1000),
    ]  # fmt: skip


def test_a_node_of_another_uid_has_labels_of_its_own():
    """The bystander: the machine was replaced, and its namesake has no label yet."""
    events = [
        node(1, 0, T4, SHARED), *pod(), given.node_vanished("n", 2, 20), node(3, 40, uid="other"),
    ]  # fmt: skip

    assert held(events) == [(0, 40, T4, 250), (40, 90, None, 1000)]


def test_a_label_that_stands_behind_another_takes_no_place_of_it():
    """With two labels of the model one stayed, and the model flipped to its other name for a minute."""
    both = {PRODUCT: H100, KARPENTER: "h100"}
    events = [node(1, 0, H100, both), *pod(), node(2, 20, "h100", {KARPENTER: "h100"}), node(3, 40, H100, both)]  # fmt: skip

    assert held(events) == [(0, 90, H100, 1000)]
    again = [*events[:-1], node(3, 40, H100, {PRODUCT: H100}), node(4, 50, "h100", {KARPENTER: "h100"})]  # fmt: skip
    assert held(again) == [(0, 90, H100, 1000)]


def test_a_label_with_a_new_value_is_a_new_model_whichever_is_away():
    both = {PRODUCT: "A100", KARPENTER: "a100"}
    events = [node(1, 0, "A100", both), *pod(), node(2, 40, H100, {PRODUCT: H100, KARPENTER: "a100"})]  # fmt: skip

    assert held(events) == [(0, 40, "A100", 1000), (40, 90, H100, 1000)]


def test_labels_of_shared_cards_that_are_away_keep_their_values():
    events = [node(1, 0, T4, SHARED), *pod(), node(2, 20), node(3, 40, T4, SHARED)]

    assert held(events) == [(0, 90, T4, 250)]
    assert held(events[:-1]) == [(0, 90, T4, 250)]


def test_cards_that_are_shared_no_more_are_whole_from_there():
    events = [node(1, 0, T4, SHARED), *pod(), node(2, 20), node(3, 40, "Tesla-T4", UNSHARED)]

    assert held(events) == [(0, 40, T4, 250), (40, 90, "Tesla-T4", 1000)]


def test_one_label_that_is_away_is_not_the_end_of_the_others():
    some = {"nvidia.com/gpu.replicas": "2"}
    events = [node(1, 0, T4, SHARED), *pod(), node(2, 40, T4, some)]

    assert held(events) == [(0, 40, T4, 250), (40, 90, T4, 500)]


def test_partitions_that_are_away_keep_their_size_until_the_card_is_whole_again():
    profile, whole = (
        {PRODUCT: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"},
        {PRODUCT: "NVIDIA-A100-SXM4-40GB"},
    )
    events = [
        node(1, 0, profile[PRODUCT], profile),
        *pod(),
        node(2, 20),
        node(3, 40, whole[PRODUCT], whole),
    ]

    assert [(begin, milli) for begin, _, _, milli in held(events)] == [(0, 125), (40, 1000)]


def test_a_register_of_cards_that_is_away_keeps_its_value():
    events = [node(1, 0, card_texts=REGISTER), *pod(card_texts=HALF), node(2, 20), node(3, 40, card_texts=REGISTER)]  # fmt: skip

    assert held(events) == [(0, 90, None, 500)]


def test_memory_of_cards_that_is_away_keeps_its_value():
    there = {"koordinator.sh/gpu": "800", "koordinator.sh/gpu-memory": "640Gi"}
    asked = {"resources": given.requesting({"koordinator.sh/gpu-memory": "40Gi"})}
    gone = {"koordinator.sh/gpu-memory": "0"}
    events = [node(1, 0, allocatable=there), *pod(**asked), node(2, 20, allocatable=gone)]

    assert held(events) == [(0, 90, None, 500)]


@pytest.mark.parametrize("seed", range(8))
def test_labels_come_and_go_in_any_order_and_batch(seed):
    dice, events = Random(seed), pod()
    for number in range(12):
        model, labels = dice.choice([(None, {}), (T4, SHARED), ("Tesla-T4", UNSHARED), ("t4", {KARPENTER: "t4"}),
                                     (T4, {PRODUCT: T4, KARPENTER: "t4"})])  # fmt: skip
        uid = dice.choice(["a", "a", "a", "b"])
        events.append(node(number + 1, 8 * number, model, labels, uid=uid))
    mixed = [*events, *dice.sample(events, 5)]
    dice.shuffle(mixed)

    assert held(events) == held(mixed) == held(mixed, batch=1) == held(events, batch=3, restart_every=2)  # fmt: skip
