"""Partitions of cards: one value wherever a ledger meets one."""

from fractions import Fraction

import pytest
import sqlalchemy as sa

from bus.amounts import ContainerResources, PodResources
from bus.events import VOCABULARY
from bus.events.devices import Device
from bus.events.pods import encoded_resources
from bus.events.vocabulary import read
from projections.accounts import accounts
from projections.cluster import ClusterState
from projections.devices.demand import ACCELERATORS, is_card
from projections.devices.partitions import amd_parts, mig_part
from projections.devices.plugins import offered
from projections.devices.shape import card_segments
from projections.inventory.node_supply import supply
from reactors.admission.deciding.capacity import capacity
from tests import factories as given
from tests.projections.devices.claimed import claim_observed, slice_observed
from tests.projections.ledger import folded

A100 = "NVIDIA-A100-SXM4-40GB"
SINGLE = {"nvidia.com/mig.strategy": "single", "nvidia.com/gpu.memory": "4864", "nvidia.com/gpu.replicas": "1"}  # fmt: skip
MIXED = {"nvidia.com/mig.strategy": "mixed", "nvidia.com/gpu.memory": "40960"}
GKE = "cloud.google.com/gke-"
PROFILE = "nvidia.com/mig-1g.5gb"


@pytest.mark.parametrize(
    ("profile", "product", "card_mib", "part"),
    [
        ("1g.5gb", A100, 0, Fraction(1, 8)),
        ("1g.5gb", f"{A100}-MIG-1g.5gb", 4_864, Fraction(1, 8)),
        ("2g.10gb", A100, 0, Fraction(2, 8)),
        ("3g.20gb", A100, 0, Fraction(4, 8)),
        ("7g.40gb", A100, 0, Fraction(1)),
        ("1g.10gb", A100, 0, Fraction(2, 8)),
        ("1g.5gb.me", A100, 0, Fraction(1, 8)),
        ("1g.5gb+me", A100, 0, Fraction(1, 8)),
        ("1g.10gb", "NVIDIA-H100-80GB-HBM3", 0, Fraction(1, 8)),
        ("3g.40gb", "NVIDIA H100 80GB HBM3", 0, Fraction(4, 8)),
        ("1g.18gb", "nvidia-h200-141gb", 0, Fraction(1, 8)),
        ("2g.35gb", "nvidia-h200-141gb", 0, Fraction(2, 8)),
        ("1g.12gb", "NVIDIA-H100-NVL", 95_830, Fraction(1, 8)),
        ("2g.24gb", "NVIDIA-GH200-480GB", 97_871, Fraction(2, 8)),
        ("7g.96gb", "NVIDIA-GH200-480GB", 0, Fraction(1)),
        ("1g.5gb", "nvidia-tesla-a100", 0, Fraction(1, 8)),
        ("1g.5gb", "NVIDIA-A100", 0, Fraction(1, 7)),
        ("3g.20gb", "", 0, Fraction(3, 7)),
        ("1g.6gb", "NVIDIA-A30", 0, Fraction(1, 4)),
        ("1g.6gb", "NVIDIA-A30", 24_576, Fraction(2, 8)),
        ("4g.24gb", "NVIDIA-A30", 0, Fraction(1)),
        ("1c.3g.20gb", A100, 0, Fraction(4, 24)),
        ("1g.0gb", A100, 0, Fraction(1, 8)),
        ("9g.999gb", "", 0, Fraction(1)),
        ("INVALID", A100, 0, None),
        ("", A100, 0, None),
        ("1g.5gbx", A100, 0, None),
    ],
)
def test_a_profile_is_so_many_eighths_of_the_cards_memory(profile, product, card_mib, part):
    assert mig_part(profile, product, card_mib) == part


@pytest.mark.parametrize(
    ("product", "card_mib", "profiles"),
    [
        ("NVIDIA-H200", 143_771, {"1g.18gb": 1, "1g.35gb": 2, "2g.35gb": 2, "3g.71gb": 4, "4g.71gb": 4, "7g.141gb": 8}),
        ("NVIDIA-H200-NVL", 143_771, {"1g.18gb": 1, "2g.35gb": 2, "3g.71gb": 4, "7g.141gb": 8}),
        ("NVIDIA H100 NVL", 95_830, {"1g.12gb": 1, "1g.24gb": 2, "3g.47gb": 4, "7g.94gb": 8}),
        ("NVIDIA-GH200-480GB", 97_871, {"1g.12gb": 1, "2g.24gb": 2, "3g.48gb": 4, "7g.96gb": 8}),
        ("NVIDIA-GH200-144G-HBM3e", 146_831, {"1g.18gb": 1, "2g.36gb": 2, "3g.72gb": 4}),
        ("NVIDIA-B200", 183_359, {"1g.23gb": 1, "2g.45gb": 2, "3g.90gb": 4, "7g.180gb": 8}),
        ("nvidia-gb200", 189_471, {"1g.23gb": 1, "2g.47gb": 2, "3g.93gb": 4, "7g.186gb": 8}),
        ("NVIDIA-B300-SXM6-AC", 275_040, {"1g.34gb": 1, "2g.67gb": 2, "3g.135gb": 4, "7g.269gb": 8}),
        ("NVIDIA-GB300", 284_208, {"1g.35gb": 1, "2g.70gb": 2, "3g.139gb": 4, "7g.278gb": 8}),
        ("NVIDIA-H20", 97_871, {"1g.12gb": 1, "2g.24gb": 2, "3g.48gb": 4}),
        ("NVIDIA-H20-3e", 143_771, {"1g.18gb": 1, "3g.71gb": 4}),
        ("NVIDIA-H800", 81_559, {"1g.10gb": 1, "3g.40gb": 4}),
        ("NVIDIA-A30", 24_576, {"1g.6gb": 2, "2g.12gb": 4, "4g.24gb": 8}),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 97_887, {"1g.24gb": 2, "2g.48gb": 4, "4g.96gb": 8}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_card_whose_name_has_no_memory_has_that_of_its_product(product, card_mib, profiles):
    """With the label of its memory and without it; the label of a node that is divided alike names the slice's memory."""
    for profile, eighths in profiles.items():
        for name in (product, f"{product}-MIG-{profile}"):
            assert {mig_part(profile, name, mib) for mib in (0, card_mib, card_mib // 8)} == {
                Fraction(eighths, 8)
            }


@pytest.mark.parametrize(
    ("mode", "parts"),
    [("CPX_NPS4", 8), ("cpx_nps1", 8), ("QPX", 4), ("TPX", 3), ("dpx_nps2", 2), ("SPX_NPS1", 1), ("?", 1), ("", 1)],
)  # fmt: skip
def test_a_compute_mode_divides_a_card_evenly(mode, parts):
    assert amd_parts(mode) == parts


def fixed(name, parent="GPU-0", profile="1g.5gb", **attributes):
    """A partition that was made before any claim."""
    known = {"type": "mig", "profile": profile, "parentUUID": parent, "productName": A100}
    return Device(name, attributes={**known, **attributes}, capacity={"memory": "4864Mi"})


def observed(labels, requests, model="", allocatable=None):
    """A pod for 60 s on a node with these labels."""
    fields = {"resources": given.requesting(requests), "created": 0}
    return [
        given.node_observed(
            model=model or labels.get("nvidia.com/gpu.product"),
            further_labels=labels,
            allocatable=allocatable or {},
        ),
        given.pod_observed("p", **fields),
        given.pod_vanished("p", at=90, deletion=60, **fields),
    ]


def charged(events):
    """(milli-cards, extended, flags) of the one segment of the one pod."""
    (account,) = accounts(folded(given.numbered(events)).select, as_of_s=given.START_S + 900)
    (holding,) = account.holdings
    return holding.gpu_milli, holding.extended, account.flags


@pytest.mark.parametrize(
    ("labels", "requests", "milli"),
    [
        ({**SINGLE, "nvidia.com/gpu.product": f"{A100}-MIG-1g.5gb"}, {"nvidia.com/gpu": "1"}, 125),
        ({**SINGLE, "nvidia.com/gpu.product": f"{A100}-MIG-1g.5gb"}, {"nvidia.com/gpu": "3"}, 375),
        ({**SINGLE, "nvidia.com/gpu.product": f"{A100}-MIG-1g.5gb-SHARED", "nvidia.com/gpu.replicas": "2",
          "nvidia.com/gpu.sharing-strategy": "mps"}, {"nvidia.com/gpu": "1"}, 62),
        ({**SINGLE, "nvidia.com/gpu.product": f"{A100}-MIG-INVALID"}, {"nvidia.com/gpu": "1"}, 1000),
        ({**SINGLE, "nvidia.com/gpu.product": A100}, {"nvidia.com/gpu": "1"}, 1000),
        ({**MIXED, "nvidia.com/gpu.product": A100}, {"nvidia.com/gpu": "1"}, 1000),
        ({f"{GKE}accelerator": "nvidia-h100-80gb", f"{GKE}gpu-partition-size": "1g.10gb"}, {"nvidia.com/gpu": "1"}, 125),
        ({f"{GKE}gpu-sharing-strategy": "time-sharing", f"{GKE}max-shared-clients-per-gpu": "4"}, {"nvidia.com/gpu": "1"}, 250),
        ({f"{GKE}accelerator": "nvidia-h100-80gb", f"{GKE}gpu-partition-size": "2g.20gb",
          f"{GKE}gpu-sharing-strategy": "time-sharing", f"{GKE}max-shared-clients-per-gpu": "3"}, {"nvidia.com/gpu": "2"}, 166),
        ({f"{GKE}max-shared-clients-per-gpu": "1"}, {"nvidia.com/gpu": "1"}, 1000),
        ({"amd.com/compute-memory-partition": "CPX_NPS4"}, {"amd.com/gpu": "1"}, 125),
        ({"amd.com/compute-partition": "tpx"}, {"amd.com/gpu": "2"}, 666),
        ({"amd.com/compute-memory-partition": "SPX_NPS1"}, {"amd.com/gpu": "1"}, 1000),
        ({"amd.com/compute-memory-partition": "CPX_NPS4"}, {"nvidia.com/gpu": "1"}, 1000),
        ({f"{GKE}max-shared-clients-per-gpu": "4"}, {"amd.com/gpu": "1"}, 1000),
        ({}, {"huawei.com/Ascend910B2": "8"}, 8000),
        ({"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"}, {"nvidia.com/gpu": "1"}, 250),
    ],
    ids=range(17),
)  # fmt: skip
def test_a_pod_is_charged_what_its_nodes_labels_make_of_a_card(labels, requests, milli):
    model = labels.get(f"{GKE}accelerator", "")
    assert charged(observed(labels, requests, model)) == (milli, "", ())


@pytest.mark.parametrize(
    ("labels", "name", "milli"),
    [
        ({**MIXED, "nvidia.com/gpu.product": A100}, PROFILE, 250),
        ({**MIXED, "nvidia.com/gpu.product": A100, f"{PROFILE}.replicas": "2"}, f"{PROFILE}.shared", 124),
        ({**MIXED, "nvidia.com/gpu.product": A100}, "nvidia.com/mig-7g.40gb", 2000),
        ({}, PROFILE, 284),
        ({}, "nvidia.com/mig-x", 0),
    ],
    ids=range(5),
)  # fmt: skip
def test_a_resource_with_the_name_of_a_profile_counts_its_part_and_stays_a_count(
    labels, name, milli
):
    found = charged(observed(labels, {name: "2"}, allocatable={name: "7"}))

    assert found == (milli, f'{{"{name}":2}}', ())


def test_one_slice_of_a_card_has_one_value_wherever_it_is_met():
    """It had four: a whole card by its label and by a fixed device, nothing by its name, and its counters."""
    single = observed({**SINGLE, "nvidia.com/gpu.product": f"{A100}-MIG-1g.5gb"}, {"nvidia.com/gpu": "1"})  # fmt: skip
    named = observed({**MIXED, "nvidia.com/gpu.product": A100}, {PROFILE: "1"}, allocatable={PROFILE: "7"})  # fmt: skip
    counters = Device(
        "p-0", attributes={"profile": "1g.5gb", "productName": A100}, consumes={"c": {"memory": "5Gi"}}
    )  # fmt: skip
    by_claim = [
        [slice_observed(fixed("p-0")), claim_observed("g", "p-0", stamp=0)],
        [
            slice_observed(counters, counters={"c": {"memory": "40Gi"}}),
            claim_observed("g", "p-0", stamp=0),
        ],
    ]
    pods = [
        given.pod_observed("p", claims=("g",), created=0),
        given.pod_vanished("p", at=90, deletion=60, claims=("g",), created=0),
    ]
    found = [charged(single), charged(named), *(charged([*one, *pods]) for one in by_claim)]

    assert [milli for milli, _, _ in found] == [125] * 4


@pytest.mark.parametrize("labels", [MIXED, {"nvidia.com/mig.strategy": "mixed"}], ids=["label", "no label"])  # fmt: skip
def test_a_slice_of_an_h200_is_an_eighth_whichever_labels_its_node_has(labels):
    """It was a seventh where the label of the card's memory was away."""
    named = observed(
        {**labels, "nvidia.com/gpu.product": "NVIDIA-H200"}, {"nvidia.com/mig-1g.18gb": "1"}
    )

    assert charged(named)[0] == 125


def cards_of(events):
    """(card, kind, milli-cards) of claims, and the cards that there are by node."""
    store = folded(given.numbered(events))
    columns = card_segments.c
    rows = store.select(sa.select(columns.card, columns.kind, columns.gpu_milli))
    return sorted(map(tuple, rows)), {one.node: one.gpu_milli for one in supply(store.select)}


def test_fixed_partitions_by_claim_are_parts_of_the_card_that_they_name():
    other = fixed("p-2", "GPU-1")
    events = [
        slice_observed(fixed("p-0"), fixed("p-1"), other),
        claim_observed("a", "p-0", stamp=0),
        claim_observed("b", "p-1", "p-2", stamp=0),
    ]
    rows, there = cards_of(events)

    assert {card for card, _, _ in rows} == {"gpu.nvidia.com/n/GPU-0", "gpu.nvidia.com/n/GPU-1"}
    assert [(kind, milli) for _, kind, milli in rows] == [("reserved", 125)] * 3
    assert there == {"n": 2000}


def test_an_elastic_quota_divides_fixed_partitions_by_number_as_it_counts_what_is_asked():
    events = [slice_observed(fixed("p-0"), fixed("p-1"), fixed("p-2", "GPU-1"))]
    state = ClusterState()
    for event in given.numbered(events):
        state.apply(read(event, VOCABULARY), event)
    assert capacity(state)["nvidia.com/gpu"] == 3


def test_a_fixed_partition_beside_its_card_is_a_part_of_that():
    """Its product name has no memory: the card's is known."""
    parent = Device("gpu-0", attributes={"uuid": "GPU-0"}, capacity={"memory": "95830Mi"})
    part = fixed("p-0", profile="2g.24gb", productName="NVIDIA H100 NVL")
    rows, there = cards_of([slice_observed(parent, part), claim_observed("a", "p-0", stamp=0)])

    assert rows == [("gpu.nvidia.com/n/gpu-0", "reserved", 250)]
    assert there == {"n": 1000}


def test_a_partition_without_a_parent_is_a_part_of_a_card_of_its_own():
    part = fixed("p-0", parent="")
    rows, there = cards_of([slice_observed(part), claim_observed("a", "p-0", stamp=0)])

    assert rows == [("gpu.nvidia.com/n/p-0", "reserved", 125)]
    assert there == {"n": 1000}


@pytest.mark.parametrize(
    ("allocatable", "node", "milli"),
    [
        ({"nvidia.com/gpu": "56"}, {"nvidia.com/gpu.product": f"{A100}-MIG-1g.5gb"}, {"nvidia": 7_000}),
        ({"nvidia.com/gpu": "1", PROFILE: "7"}, {"nvidia.com/gpu.product": A100}, {"nvidia": 1_875}),
        ({"amd.com/gpu": "64"}, {"amd.com/compute-memory-partition": "cpx_nps4"}, {"amd": 8_000}),
        ({"huawei.com/Ascend910B4-1": "8"}, {}, {"huawei": 8_000}),
        ({"koordinator.sh/gpu": "800", "koordinator.sh/gpu-memory": "640Gi"}, {"koordinator.sh/gpu-memory": "81920"},
         {"koordinator": 8_000}),
    ],
    ids=["single", "mixed", "amd", "ascend", "koordinator"],
)  # fmt: skip
def test_what_a_device_plugin_offers_is_counted_alike(allocatable, node, milli):
    assert offered(allocatable, node) == milli


@pytest.mark.parametrize(
    ("name", "is_whole"),
    [(name, True) for name in ("910", "310P", "910A", "910B2", "910B4-1")]
    + [(name, False) for name in ("910-2c", "310P-4c.3cpu", "910B2-memory", "", "910BB")],
)
def test_ascend_cards_are_whole_and_their_templates_counts(name, is_whole):
    assert bool(ACCELERATORS.fullmatch(f"huawei.com/Ascend{name}")) is is_whole
    assert is_card(f"huawei.com/Ascend{name}") is is_whole


REGISTER = "GPU-a,10,40960,100,A100,0,true:GPU-b,10,40960,100,A100,0,true:"
HAMI = ("hami.io/vgpu-devices-allocated", "hami.io/node-nvidia-register", "nvidia.com/gpu")
VOLCANO = ("volcano.sh/vgpu-ids-new", "volcano.sh/node-vgpu-register", "volcano.sh/vgpu-number")


def slot(*devices):
    return "".join(f"GPU-{card},NVIDIA,{mib},{cores}:" for card, mib, cores in devices) + ";"


@pytest.mark.parametrize(
    ("inits", "slots", "milli"),
    [
        (["plain"], [slot(("a", 40_960, 100)), slot(("a", 40_960, 100))], 1000),
        (["plain"], [slot(("a", 20_480, 0)), slot(("a", 10_240, 0))], 500),
        (["plain"], [slot(("a", 20_480, 0)), slot(("b", 10_240, 0))], 750),
        (["plain", "plain"], [slot(("a", 20_480, 0)), slot(("a", 10_240, 0)), slot(("a", 4_096, 0))], 500),
        (["sidecar"], [slot(("a", 20_480, 0)), slot(("a", 10_240, 0))], 750),
        (["plain", "sidecar"], [slot(("a", 20_480, 0)), slot(("a", 10_240, 0)), slot(("a", 20_480, 0))], 750),
        (["plain"], [slot(), slot(("a", 10_240, 0))], 250),
        # An annotation of a HAMi that writes no slots of init containers.
        (["plain"], [slot(("a", 10_240, 0), ("b", 10_240, 0))], 500),
        ([], [slot(("a", 10_240, 0))], 250),
    ],
    ids=range(9),
)  # fmt: skip
@pytest.mark.parametrize("system", [HAMI, VOLCANO], ids=["hami", "volcano"])
def test_of_an_annotations_slots_init_containers_run_before_the_others(inits, slots, milli, system):
    annotation, register, resource = system
    gpu = {resource: "1"}
    asked = PodResources(
        (ContainerResources(gpu),),
        tuple(ContainerResources(gpu, restartable=kind == "sidecar") for kind in inits),
    )
    fields = {
        "resources": encoded_resources(asked), "card_texts": {annotation: "".join(slots)}, "created": 0,
    }  # fmt: skip
    events = [
        given.node_observed(card_texts={register: REGISTER}),
        given.pod_observed("p", **fields),
        given.pod_vanished("p", at=90, deletion=60, **fields),
    ]

    assert charged(events) == (milli, "", ())


K = "koordinator.sh/"


@pytest.mark.parametrize(
    ("requests", "milli", "flags"),
    [
        ({f"{K}gpu.shared": "4", f"{K}gpu-memory": "160Gi"}, 2000, ()),
        ({f"{K}gpu-memory": "20Gi"}, 250, ()),
        ({"kubernetes.io/gpu-memory": "20Gi"}, 250, ()),
        ({f"{K}gpu-memory": "800Gi"}, 1000, ()),
        ({f"{K}gpu-memory": "1Mi"}, 0, ()),
        ({f"{K}gpu-core": "30", f"{K}gpu-memory": "40Gi"}, 300, ()),
        ({f"{K}gpu-memory-ratio": "30", f"{K}gpu-memory": "40Gi"}, 300, ()),
    ],
    ids=range(7),
)
def test_memory_alone_by_koordinators_rules_is_a_part_of_the_nodes_cards(requests, milli, flags):
    there = {f"{K}gpu": "800", f"{K}gpu-memory": "640Gi"}
    found = charged(observed({}, requests, allocatable=there))

    assert (found[0], found[2]) == (milli, flags)


def test_memory_of_cards_that_no_node_reports_has_no_size():
    found = charged(observed({}, {f"{K}gpu-memory": "20Gi"}))

    assert (found[0], found[2]) == (0, ("size_unseen",))
