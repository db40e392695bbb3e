"""Device objects: the GPUs, RDMA devices and FPGAs of a node."""

import json
from random import Random

import pytest

from bus.errors import BursarError
from bus.events import VOCABULARY
from bus.events.vocabulary import read
from bus.kube.watch.records import LARGEST_BODY
from bus.sources.catalogue import NODE_DEVICES
from bus.sources.node_devices import LABELS, PARTITIONS
from projections.cluster.devices import MOST_GROUPS, MOST_SIZES, CardGroup, node_devices
from tests.bus.sources.records import POLICY, body, record

METADATA = {"uid": "u", "name": "n1", "resourceVersion": "7"}
SAID = {"uid": "u", "name": "n1", "resource_version": "7"}
K = "koordinator.sh/"


def translated(devices, annotations=None):
    metadata = METADATA | {"annotations": annotations or {}, "labels": {"a": "b"}}
    return NODE_DEVICES.translate(
        record({"metadata": metadata, "spec": {"devices": devices}}), POLICY
    )


def said(devices, annotations=None):
    return body(translated(devices, annotations))


def row(devices, annotations=None):
    return node_devices(read(translated(devices, annotations), VOCABULARY), 5, None)


def card(minor, **more):
    amounts = {
        f"{K}gpu-core": "100",
        f"{K}gpu-memory-ratio": 100,
        f"{K}gpu-memory": "80Gi",
        "x/y": "1",
    }
    return {
        "type": "gpu",
        "id": f"GPU-{minor}",
        "minor": minor,
        "health": True,
        "resources": amounts,
    } | more


def test_a_device_object_says_what_can_be_given():
    topology = {"socketID": 0, "nodeID": 1, "pcieID": "0000:07", "busID": "0000:08"}
    nic = {
        "type": "rdma", "id": "0000:09:00.0", "minor": 3, "health": False, "resources": {f"{K}rdma": "100"},
        "vfGroups": [{"labels": {"a": "b"}, "vfs": [{"minor": 0, "busID": "0000:09:00.2"}, {"minor": 1}]}],
    }  # fmt: skip
    found = said(
        [card(0, topology=topology, conditions=[{}], labels={"a": "b"}), nic],
        {PARTITIONS: "{}", "x": "y"},
    )

    resources = {f"{K}gpu-core": "100", f"{K}gpu-memory-ratio": "100", f"{K}gpu-memory": "80Gi"}
    functions = {"functions": ["0000:09:00.2"], "function_labels": [[1, {"a": "b"}]]}
    place = {"numa": 1, "switch": "0000:07", "labels": {"a": "b"}}
    assert found == SAID | {
        "partitions": "{}",
        "devices": [
            {"type": "gpu", "id": "GPU-0", "minor": 0, "is_healthy": True, "resources": resources} | place,
            {"type": "rdma", "id": "0000:09:00.0", "minor": 3, "resources": {f"{K}rdma": "100"}} | functions,
        ],
    }  # fmt: skip
    assert said([]) == SAID


def test_vendor_model_and_driver_are_read_and_no_other_label():
    told = {"model": "A100", "vendor": "nvidia", "x": "y", "driver-version": "5" * 99}
    labels = {f"{LABELS}{name}": text for name, text in told.items()}
    event = NODE_DEVICES.translate(record({"metadata": METADATA | {"labels": labels | {"team": "a"}}}), POLICY)  # fmt: skip

    assert body(event) == SAID | {"labels": {"vendor": "nvidia", "model": "A100"}}
    assert node_devices(read(event, VOCABULARY), 5, None).labels == body(event)["labels"]


def test_devices_that_nobody_could_name_are_left_out():
    assert said([card(-1), card(10**6), card(None), card(0, type="xpu"), {}]) == SAID


def test_what_is_said_of_devices_is_bounded():
    many = [
        card(
            n,
            id="i" * 999,
            vfGroups=[{"vfs": [{"busID": f"a{n}"} for n in range(500)]}],
            labels={f"l{n:02}": "x" for n in range(99)} | {"long": "x" * 999},
        )
        for n in range(64)
    ]
    event = translated(many, {PARTITIONS: "9" * 99_999})
    found = body(event)

    assert len(event.body) < LARGEST_BODY
    assert found["is_cut"] and len(found["devices"]) > 5 and "partitions" not in found
    assert "id" not in found["devices"][0] and len(found["devices"][0]["functions"]) == 256
    assert list(found["devices"][0]["labels"]) == [f"l{n:02}" for n in range(16)]


def test_a_deleted_device_object_has_vanished():
    event = NODE_DEVICES.translate(record({"metadata": METADATA}, "DELETED"), POLICY)

    assert ("device.vanished", SAID) == (event.type, body(event))


def test_the_row_has_amounts_by_the_newer_names_and_none_of_an_unhealthy_device():
    older = {"kubernetes.io/gpu-core": "100", "kubernetes.io/gpu-memory": "1Ki"}
    found = row([card(1, health=False), card(0, resources=older), card(0, id="twice")])

    assert [(one.minor, one.id, one.amounts) for one in found.devices] == [
        (0, "GPU-0", {f"{K}gpu-core": 100, f"{K}gpu-memory": 1024}),
        (1, "GPU-1", {}),
    ]


STRANGE = (
    "[]", "{", "1", '{"1":[{"minors":"x"}]}', '{"1":[{"minors":[1e400]}]}', "[" * 9_000,
    '{"1":[{"minors":[99999999999999999999]}]}',
)  # fmt: skip


@pytest.mark.parametrize("text", STRANGE, ids=range(len(STRANGE)))
def test_a_table_of_cards_that_nobody_can_read_is_none(text):
    assert row([card(0)], {PARTITIONS: text}).partitions == {}


def test_a_table_of_cards_is_bounded():
    groups = {
        str(size): [{"minors": list(range(n, n + size))} for n in range(99)] for size in range(3)
    }
    found = row([card(0)], {PARTITIONS: json.dumps(groups)}).partitions

    assert list(found) == [1, 2] and len(found) <= MOST_SIZES
    assert all(len(one) == MOST_GROUPS for one in found.values())


def test_a_table_of_cards_says_how_good_groups_are_and_what_links_them():
    best = {"minors": [1, 0], "allocationScore": 3, "ringBusBandwidth": "200G"}
    said = [best, {"minors": [0, 1]}, {"minors": [2, 3], "gpuLinkType": "NVLink"}]
    found = row([card(0)], {PARTITIONS: json.dumps({"2": said})}).partitions

    assert found == {2: (CardGroup((0, 1), 3, 200 * 10**9), CardGroup((2, 3)))}


@pytest.mark.parametrize("seed", range(40))
def test_strange_objects_are_refused_or_read_and_never_raise_anything_else(seed):
    dice = Random(seed)
    strange = [
        None,
        -1,
        2**62,
        "",
        "x" * 9_999,
        [],
        {},
        [[]],
        True,
        1.5,
        "1e999",
        "NaN",
        {"a": {"b": []}},
    ]
    for _ in range(30):
        device = {
            key: dice.choice((value, dice.choice(strange)))
            for key, value in card(dice.randrange(4)).items()
        }
        if isinstance(device["resources"], dict):
            device["resources"] = {name: dice.choice(strange) for name in device["resources"]}
        device["topology"] = dice.choice((dice.choice(strange), {"nodeID": dice.choice(strange)}))
        try:
            row([device], {PARTITIONS: dice.choice(("{}", '{"1":[{"minors":[0]}]}', "x"))})
        except BursarError:
            pass
