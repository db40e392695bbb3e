"""What pods want of their devices, by annotations that tenants write: an allow-list, bounded, named where nobody can read it."""

import json

import msgspec
import pytest

from bus.events.constraints import (
    DeviceHint,
    DeviceTerms,
    LabelSelector,
    PodConstraints,
    Requirement,
)
from bus.sources.catalogue import PODS
from bus.sources.device_terms import HINT, JOINT, PARTITION, device_terms
from tests.bus.sources.records import POLICY, body, record


def terms(**annotations):
    keys = {"hint": HINT, "joint": JOINT, "partition": PARTITION}
    return device_terms({
        keys[name]: one if isinstance(one, str) else json.dumps(one) for name, one in annotations.items()
    })  # fmt: skip


def test_a_pod_says_how_its_devices_lie():
    gpu = {
        "requiredTopologyScope": "NUMANode",
        "selector": {"matchLabels": {"link": "x"}},
        "more": 1,
    }
    nic = {
        "allocateStrategy": "RequestsAsCount",
        "exclusivePolicy": "DeviceLevel",
        "vfSelector": {"matchLabels": {}},
    }
    found = terms(
        hint={"gpu": gpu, "rdma": nic, "xpu": {"allocateStrategy": "?"}, "fpga": None},
        joint={"deviceTypes": ["gpu", "rdma", "gpu", "xpu"], "requiredScope": "SamePCIe"},
        partition={"allocatePolicy": "Restricted", "ringBusBandwidth": "200Gi"},
    )

    assert found == DeviceTerms(
        {
            "gpu": DeviceHint(LabelSelector({"link": "x"}), scope="NUMANode"),
            "rdma": DeviceHint(None, "RequestsAsCount", "", "DeviceLevel", LabelSelector({})),
        },
        ("gpu", "rdma"), same_switch=True, partition="Restricted", bandwidth="200Gi",
    )  # fmt: skip
    assert terms(partition="{}").partition == "BestEffort"
    assert terms(partition={"ringBusBandwidth": 5}).bandwidth == "5"
    assert device_terms({"x": "y"}) is device_terms(None) is terms(hint={}, joint={}) is None


def test_the_fact_of_a_pod_has_its_terms_and_none_without_such_annotations():
    metadata = {"uid": "u", "namespace": "n", "name": "p", "resourceVersion": "7"}

    def said(**annotations):
        found = record({"metadata": metadata | {"annotations": annotations}})
        return body(PODS.translate(found, POLICY)).get("constraints")

    found = said(**{JOINT: '{"deviceTypes":["gpu","rdma"]}', "x": "y"})
    assert found == {"devices": {"joint": ["gpu", "rdma"]}}
    assert msgspec.convert(found, PodConstraints).devices == DeviceTerms(joint=("gpu", "rdma"))
    assert said(x="y") is None


@pytest.mark.parametrize(
    "hint",
    [
        "", "[]", "{", "null", "[" * 5_000, '{"gpu":{"requiredTopologyScope":"Rack"}}', '{"gpu":7}',
        '{"rdma":{"allocateStrategy":"All"}}', '{"rdma":{"exclusivePolicy":"x"}}', '{"gpu":{},"gpu":{}}',
        '{"gpu":{"selector":{"matchExpressions":[{"key":"a","operator":"In"}]}}}', '{"a":"' + "x" * 5_000 + '"}',
    ],
    ids=range(12),
)  # fmt: skip
def test_a_hint_that_means_nothing_is_named(hint):
    assert terms(hint=hint).unreadable == (HINT,)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"requiredScope":"SameRack"}', '{"deviceTypes":"gpu"}']
)
def test_joint_kinds_that_mean_nothing_are_named(text):
    assert terms(joint=text).unreadable == (JOINT,)


NO_QUANTITIES = ('"x"', "{}", '"' + "0" * 99 + '1"')


@pytest.mark.parametrize(
    "text", ["", '{"allocatePolicy":"Some"}', *(f'{{"ringBusBandwidth":{one}}}' for one in NO_QUANTITIES)],
    ids=range(5),
)  # fmt: skip
def test_a_partition_that_means_nothing_is_named(text):
    assert terms(partition=text).unreadable == (PARTITION,)


def test_a_selector_is_read_as_the_api_reads_it():
    selector = {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}
    found = terms(hint={"gpu": {"selector": selector}}).hints["gpu"].selector

    assert found == LabelSelector(None, (Requirement("a", "NotIn", ("b",)),))
