"""What pods hold of shared cards, where a tenant wrote the numbers."""

import pytest

from projections.devices.requested import CardFacts, requested
from projections.devices.shared_cards import (
    CARD_MEMORY,
    DEVICES,
    FRACTION,
    MEMORY,
    MOST_CARDS,
    MOST_MIB,
    shared,
)

HUGE = "999999999999999"
NODE = {CARD_MEMORY: "40960"}


@pytest.mark.parametrize(
    ("requests", "texts", "milli"),
    [
        ({}, {FRACTION: "0.5", DEVICES: HUGE}, 500 * MOST_CARDS),
        ({}, {FRACTION: "999999", DEVICES: "2"}, 2000),
        ({}, {MEMORY: HUGE, DEVICES: HUGE}, 1000 * MOST_CARDS),
        ({"nvidia.com/gpu.shared": 10**15}, {}, 0),
        ({"google.com/tpu": 10**15}, {}, 1000 * MOST_CARDS),
        ({"nvidia.com/gpu": 10**15, "nvidia.com/gpumem": 10**15}, {}, 1000 * MOST_CARDS),
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 10**15}, {}, 1000),
    ],
    ids=str,
)
def test_of_numbers_that_no_pod_can_have_a_bound_counts(requests, texts, milli):
    """One annotation had as many parts made as it said, and ended the ledger."""
    found = shared(requests, texts, NODE).parts

    assert (len(found), sum(part.gpu_milli for part in found)) == (1, milli)
    assert found[0].gpu_memory_mib <= MOST_CARDS * MOST_MIB


def test_of_extended_names_of_a_class_a_bound_counts_too():
    facts = CardFacts({}, {"deviceclass.resource.kubernetes.io/gpu.nvidia.com": 10**15})

    (part,) = requested(0, {}, facts, (), {}, "ns").parts
    assert part.gpu_milli == 1000 * MOST_CARDS
