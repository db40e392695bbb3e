"""Claims of devices, templates, slices, classes, and what pods and nodes say of cards, as facts: by an allow-list."""

import json

import msgspec
import pytest

from bus.events.devices import ALLOCATED, given_devices
from bus.kube.watch.seen_versions import SeenVersions
from bus.sources import card_texts, devices, nodes, pods
from tests.bus.sources.records import POLICY, body, record

POD = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u-p", "controller": True}
GENERATED = "resource.kubernetes.io/pod-claim-name"
RESULT = {"request": "g", "driver": "gpu.nvidia.com", "pool": "n", "device": "gpu-0"}
SECRET = {"opaque": {"driver": "d", "parameters": {"token": "secret"}}}


def claim(version="1", spec=None, status=None, **metadata):
    found = {"uid": "c", "name": "c", "namespace": "ns", "resourceVersion": version, **metadata}
    return {"metadata": found, "spec": spec or {}, "status": status or {}}


def allocated(**more):
    given = {
        "devices": {"results": [RESULT], "config": [SECRET]},
        "allocationTimestamp": "2026-11-22T10:00:05Z",
    }
    return {"allocation": given, **more}


def translated(translate, thing, change="MODIFIED"):
    return translate(record(thing, change), POLICY)


def test_a_claim_says_what_it_asks_for_and_was_given_and_nothing_that_may_be_secret():
    ask = {
        "name": "g",
        "exactly": {
            "deviceClassName": "gpu.nvidia.com",
            "count": 2,
            "selectors": [{"cel": {"expression": "secret"}}],
        },
    }
    spec = {
        "devices": {
            "requests": [ask],
            "config": [SECRET],
            "constraints": [{"matchAttribute": "secret"}],
        }
    }
    status = allocated(
        devices=[{"driver": "d", "data": {"ip": "secret"}}], reservedFor=[{"uid": "secret"}]
    )

    event = translated(devices.translate_claim, claim(spec=spec, status=status))

    found = body(event)
    assert b"secret" not in event.body
    assert found["requests"] == [
        {"name": "g", "asks": [{"device_class": "gpu.nvidia.com", "count": 2}]}
    ]
    assert found["allocation"] == {"stamp": "2026-11-22T10:00:05Z", "results": [RESULT]}


@pytest.mark.parametrize(
    ("owners", "annotations", "want"),
    [
        ([POD], {GENERATED: "g"}, True),
        ([POD], {"resource.kubernetes.io/extended-resource-claim": "true"}, True),
        # Neither is enough alone: a tenant may write an annotation, a controller of pods claims that pods share.
        ([POD], {}, False),
        ([], {GENERATED: "g"}, False),
        ([{**POD, "kind": "PodGroup"}], {GENERATED: "g"}, False),
    ],
)
def test_a_claim_is_its_pods_by_its_controller_and_an_annotation(owners, annotations, want):
    event = translated(
        devices.translate_claim, claim(ownerReferences=owners, annotations=annotations)
    )

    assert body(event).get("is_generated", False) == want


def test_for_whom_a_claim_is_reserved_makes_no_new_event():
    seen = SeenVersions({}, every_version=False)
    said = [
        seen.admit(
            translated(
                devices.translate_claim, claim(str(number), status=allocated(reservedFor=reserved))
            )
        )
        for number in range(1, 1001)
        for reserved in ([{"uid": f"u{number}"}] if number % 2 else [],)
    ]

    assert said == [True] + [False] * 999


def test_a_name_without_a_domain_is_in_its_drivers():
    given = {**RESULT, "consumedCapacity": {"gpu.nvidia.com/memory": "4Gi", "other.io/x": "1"}}
    status = {"allocation": {"devices": {"results": [given]}}}
    device = {
        "name": "gpu-0",
        "capacity": {"gpu.nvidia.com/memory": {"value": "8Gi"}},
        "attributes": {
            "gpu.nvidia.com/productName": {"string": "H100"},
            "serial": {"string": "secret"},
        },
    }
    found = body(translated(devices.translate_claim, claim(status=status)))
    shown = {
        "metadata": {"uid": "s", "name": "s", "resourceVersion": "1"},
        "spec": {"driver": "gpu.nvidia.com", "pool": {"name": "n"}, "devices": [device]},
    }
    seen = body(translated(devices.translate_slice, shown))

    assert found["allocation"]["results"][0]["consumed"] == {"memory": "4Gi", "other.io/x": "1"}
    assert seen["devices"] == [
        {"name": "gpu-0", "attributes": {"productName": "H100"}, "capacity": {"memory": "8Gi"}}
    ]


def test_templates_and_classes():
    spec = {
        "devices": {
            "requests": [
                {
                    "name": "g",
                    "firstAvailable": [
                        {"deviceClassName": "a"},
                        {"deviceClassName": "b", "allocationMode": "All"},
                    ],
                }
            ]
        }
    }
    template = {"metadata": claim()["metadata"], "spec": {"spec": spec}}
    named = {
        "metadata": {"uid": "d", "name": "gpu", "resourceVersion": "1"},
        "spec": {"extendedResourceName": "example.com/gpu"},
    }

    assert body(translated(devices.translate_template, template))["requests"] == [
        {"name": "g", "asks": [{"device_class": "a"}, {"device_class": "b", "mode": "All"}]}
    ]
    assert body(translated(devices.translate_class, named))["extended_name"] == "example.com/gpu"
    gone = [
        translated(t, thing, "DELETED").type
        for t, thing in (
            (devices.translate_template, template),
            (devices.translate_class, named),
            (devices.translate_claim, claim()),
        )
    ]
    assert gone == [
        "resourceclaimtemplate.vanished",
        "deviceclass.vanished",
        "resourceclaim.vanished",
    ]


def test_a_pod_says_its_claims_and_what_comes_by_one():
    metadata = {
        "uid": "p",
        "name": "p",
        "namespace": "ns",
        "resourceVersion": "1",
        "annotations": {"gpu-fraction": "0.5", "other": "secret"},
    }
    status = {
        "resourceClaimStatuses": [{"name": "a", "resourceClaimName": "p-a"}, {"name": "b"}],
        "extendedResourceClaimStatus": {
            "resourceClaimName": "p-x",
            "requestMappings": [{"resourceName": "example.com/gpu"}],
        },
    }
    spec = {
        "containers": [],
        "resourceClaims": [
            {"name": "s", "resourceClaimName": "shared"},
            {"name": "a", "resourceClaimTemplateName": "t"},
        ],
    }

    found = body(translated(pods.translate, {"metadata": metadata, "spec": spec, "status": status}))

    assert found["claims"] == ["p-a", "p-x", "shared"]
    assert found["claimed"] == ["example.com/gpu"]
    assert found["card_texts"] == {"gpu-fraction": "0.5"}


def test_what_koordinator_gave_is_kept_whole_and_nobodys_text_without_end():
    parts = [{"minor": minor, "id": "x" * 200} for minor in range(40)]
    text = json.dumps({"gpu": parts})
    noted = {ALLOCATED: text, "gpu-memory": "9" * 90_000}

    found = card_texts.of_pod({}, noted)

    assert given_devices(found) == tuple(range(40)) and len(text) > 2 * 4_096
    assert len(found["gpu-memory"]) == 4_096
    assert len(card_texts.of_pod({}, {ALLOCATED: "9" * 90_000})[ALLOCATED]) == 16_384


def test_a_node_says_what_systems_of_shared_cards_wrote():
    metadata = {
        "uid": "n",
        "name": "n",
        "resourceVersion": "1",
        "annotations": {"hami.io/node-nvidia-register": "GPU-0,10,8192,", "other": "secret"},
    }

    found = body(nodes.translate(record(msgspec.json.encode({"metadata": metadata})), POLICY))

    assert found["card_texts"] == {"hami.io/node-nvidia-register": "GPU-0,10,8192,"}
