"""The user's label under a key, wherever an object names it: no fact has the name, and rules mean the same objects."""

import msgspec
import pytest

from bus.clock import parse_stamp
from bus.events.constraints import PodConstraints, selects
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Record
from bus.sources import disruptions, nodes, pods, reservations, volumes
from bus.user_names import UserNames
from tests.factories import CLUSTER

USER, NAME = "example.org/user", "amy-lastname"
KEYS = frozenset({USER, "app"})
SEALED = LabelPolicy(user=USER, names=UserNames(b"5" * 64), label_keys=KEYS)
PLAIN = LabelPolicy(user=USER, label_keys=KEYS)

BY_LABEL = {"matchLabels": {USER: NAME, "app": "train"}}
BY_TERMS = {"matchExpressions": [{"key": USER, "operator": "In", "values": [NAME, "bob-lastname"]}]}
NODE_TERM = {"matchExpressions": [{"key": USER, "operator": "NotIn", "values": [NAME]}]}
PODS_NEAR = {"topologyKey": "zone", "labelSelector": BY_LABEL, "namespaceSelector": BY_TERMS}
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [NODE_TERM]},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": NODE_TERM}],
    },
    "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [PODS_NEAR]},
    "podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": PODS_NEAR}]
    },
}  # fmt: skip
SPEC = {
    "containers": [{"name": "main", "image": "x"}],
    "nodeSelector": {USER: NAME},
    "affinity": AFFINITY,
    "tolerations": [{"key": USER, "operator": "Equal", "value": NAME, "effect": "NoSchedule"}],
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": BY_TERMS}
    ],
}  # fmt: skip
LABELS = {USER: NAME, "app": "train"}
OBJECTS = {
    "pod": (pods, {"spec": SPEC, "status": {"phase": "Pending"}}),
    "node": (nodes, {"spec": {"taints": [{"key": USER, "value": NAME, "effect": "NoSchedule"}]}}),
    "volume": (volumes, {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [NODE_TERM]}}}}),
    "disruption budget": (disruptions, {"spec": {"selector": BY_LABEL | BY_TERMS}}),
    "reservation": (reservations, {"spec": {
        "template": {"metadata": {"labels": LABELS}, "spec": SPEC}, "owners": [{"labelSelector": BY_TERMS | BY_LABEL}],
    }}),
}  # fmt: skip


def event(name, policy, **more):
    module, thing = OBJECTS[name]
    metadata = {
        "name": "x", "namespace": "ns", "uid": "u", "resourceVersion": "1", "labels": LABELS,
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    raw = msgspec.json.encode({"metadata": metadata | more, **thing})
    record = Record("ADDED", raw, parse_stamp("2026-01-02T00:00:00Z"), CLUSTER, "kube/test")
    return module.translate(record, policy)


@pytest.mark.parametrize("name", OBJECTS)
def test_no_fact_has_the_name(name):
    found = event(name, SEALED).body

    assert b"lastname" in event(name, PLAIN).body
    assert b"lastname" not in found and b"train" in event("pod", SEALED).body


@pytest.mark.parametrize("name", OBJECTS)
def test_without_a_key_facts_are_what_they_were(name):
    """What differs is a token for each name, and that placing does not count on the label."""
    opened = SEALED.names.opened(event(name, SEALED).body.decode())
    plain = event(name, PLAIN).body.decode()
    found, wanted = msgspec.json.decode(opened), msgspec.json.decode(plain)
    for one in (found, wanted, found.get("constraints") or {}, wanted.get("constraints") or {}):
        for key in ("unkept_labels", "unkeptLabels"):
            one.pop(key, None)
    assert found == wanted


def test_a_selector_means_the_same_objects_under_a_key():
    budget = msgspec.json.decode(event("disruption budget", SEALED).body)
    pod = msgspec.json.decode(event("pod", SEALED).body)
    terms = msgspec.json.decode(msgspec.json.encode(pod["constraints"]), type=PodConstraints)
    near = terms.affinity.pod_affinity.required[0].label_selector

    assert budget["selector"]["matchLabels"][USER] == pod["labels"][USER]
    assert selects(near, pod["labels"])
    assert not selects(near, pod["labels"] | {USER: "bob-lastname"})
    node = msgspec.json.decode(event("node", SEALED).body)
    assert terms.node_selector[USER] == node["labels"][USER] == node["taints"][0]["value"]
    assert terms.tolerations[0].value == node["taints"][0]["value"]
