"""What decides about placing is in the facts of pods and nodes, bounded, and absent where there is nothing."""

import msgspec
import pytest

from bus.events.constraints import PodConstraints, Taint, Toleration
from bus.events.nodes import NodeObserved
from bus.events.pods import PodObserved
from bus.kube.watch.records import LARGEST_BODY
from bus.sources import nodes, pods
from bus.sources.images import LARGEST_IMAGES, image_key
from tests.bus.sources.records import POLICY, record

METADATA = {"uid": "u1", "name": "p", "namespace": "ns", "resourceVersion": "7"}
DEFAULTS = [
    {"key": f"node.kubernetes.io/{one}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for one in ("not-ready", "unreachable")
]  # fmt: skip


def fact_of(labels=None, **spec):
    metadata = METADATA | ({"labels": labels} if labels else {})
    spec.setdefault("containers", [{"name": "c"}])
    event = pods.translate(record({"metadata": metadata, "spec": spec}), POLICY)
    assert len(event.body) <= LARGEST_BODY
    return PodObserved.read(event), event


def constraints(labels=None, **spec):
    fact, _ = fact_of(labels, **spec)
    return msgspec.json.decode(fact.constraints, type=PodConstraints)


def test_an_ordinary_pod_says_nothing_of_it():
    _, event = fact_of(
        schedulerName="default-scheduler", tolerations=DEFAULTS, preemptionPolicy="PreemptLowerPriority",
        affinity={}, volumes=[{"name": "v", "emptyDir": {}}],
    )  # fmt: skip

    assert b"constraints" not in event.body


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"schedulerName": "bursar"}, {"scheduler_name": "bursar"}),
        ({"preemptionPolicy": "Never"}, {"never_preempts": True}),
        ({"schedulingGates": [{"name": "g"}]}, {"scheduling_gates": ("g",)}),
        ({"nodeSelector": {"a": "b"}}, {"node_selector": {"a": "b"}}),
        ({"tolerations": [*DEFAULTS, {"key": "k", "operator": "Exists"}]}, {"tolerations": (Toleration("k", "Exists"),)}),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, {"claims": ("c",)}),
        (
            {"volumes": [{"name": "w", "ephemeral": {"volumeClaimTemplate": {}}}]},
            {"claims": ("p-w",), "ephemeral_claims": ("p-w",)},
        ),
        ({"volumes": [{"name": "v", "rbd": {}}, {"name": "w", "iscsi": {}}]}, {"disks": ("iscsi", "rbd")}),
        ({"resourceClaims": [{"name": "r"}]}, {"has_resource_claims": True}),
    ],
    ids=lambda one: next(iter(one)),
)  # fmt: skip
def test_each_constraint_is_said(spec, expected):
    assert constraints(**spec) == PodConstraints(**expected)


def test_host_ports_of_containers_and_sidecars_are_said():
    ports = [
        {"containerPort": 80},
        {"containerPort": 1, "hostPort": 8080, "protocol": "UDP", "hostIP": "10.0.0.1"},
    ]
    sidecar = {
        "name": "s",
        "restartPolicy": "Always",
        "ports": [{"containerPort": 9, "hostPort": 9}],
    }
    found = constraints(containers=[{"name": "c", "ports": ports}], initContainers=[sidecar])

    assert [(one.host_port, one.protocol, one.host_ip) for one in found.host_ports] == [
        (8080, "UDP", "10.0.0.1"),
        (9, "TCP", ""),
    ]


def anti_affinity(*keys):
    selector = {"matchLabels": dict.fromkeys(keys, "x")}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_labels_that_selectors_name_and_nobody_keeps_are_named():
    found = constraints(affinity=anti_affinity("app", "tier", "app.kubernetes.io/name"))

    assert found.unkept_labels == ("tier",)


def test_a_label_of_the_template_is_kept_where_its_own_selectors_name_it():
    labels = {"pod-template-hash": "abc", "app": "a"}
    found = constraints(labels, affinity=anti_affinity("pod-template-hash"))

    assert (found.unkept_labels, found.template_labels) == ((), {"pod-template-hash": "abc"})
    assert b"pod-template-hash" not in fact_of(labels)[1].body


def test_too_many_constraints_hide_no_pod_and_are_said_to_be_cut():
    affinity = anti_affinity(*(f"bursar.io/{number}-{'k' * 50}" for number in range(5_000)))
    fact, _ = fact_of(affinity=affinity, schedulerName="bursar")

    found = msgspec.json.decode(fact.constraints, type=PodConstraints)
    assert found == PodConstraints(scheduler_name="bursar", is_cut=True)
    assert fact.notes == ("constraints_cut",)


def node(labels=None, images=(), **spec):
    metadata = {"uid": "u", "name": "n", "resourceVersion": "1", "labels": labels or {}}
    status = {"images": list(images)}
    event = nodes.translate(record({"metadata": metadata, "spec": spec, "status": status}), POLICY)
    assert len(event.body) <= LARGEST_BODY
    return NodeObserved.read(event)


def test_a_node_says_its_taints_and_every_label():
    taint = {"key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": "x"}
    found = node({"app": "a", "kubernetes.io/hostname": "n"}, taints=[taint])

    assert found.taints == (Taint("k", "v", "NoSchedule"),)
    assert (found.labels, found.further_labels) == ({"app": "a"}, {"kubernetes.io/hostname": "n"})
    assert not found.is_cut


@pytest.mark.parametrize(
    ("labels", "taints"),
    [
        ({f"{number}-{'k' * 60}": "v" * 63 for number in range(100)}, []),
        ({}, [{"key": f"{number}-{'k' * 60}", "effect": "NoExecute"} for number in range(100)]),
    ],
    ids=["labels", "taints"],
)
def test_a_node_of_very_many_labels_or_taints_says_that_it_is_cut(labels, taints):
    assert node(labels, taints=taints).is_cut


def test_of_very_many_labels_those_that_size_cards_are_left_out_last():
    """Feature discovery writes so many that `nvidia.com/…` came behind what a fact carries."""
    many = {f"feature.node.kubernetes.io/{'k' * 60}{number}": "v" * 63 for number in range(100)}
    found = node({**many, "nvidia.com/gpu.replicas": "4", "nvidia.com/mig-1g.5gb.replicas": "2"})

    assert found.is_cut
    kept = {name for name in found.further_labels if name.startswith("nvidia")}
    assert kept == {"nvidia.com/gpu.replicas", "nvidia.com/mig-1g.5gb.replicas"}
    assert list(found.further_labels) == sorted(found.further_labels)


def test_images_are_said_by_digest_while_a_pod_waits():
    containers = [{"name": "c", "image": "r.io/a"}]
    volumes = [{"name": "v", "image": {"reference": "data:1"}}]
    init = [{"name": "i", "image": "b:1"}]
    found = constraints(containers=containers, initContainers=init, volumes=volumes)
    _, bound = fact_of(nodeName="n", containers=containers, initContainers=init, volumes=volumes)

    assert found.images == (image_key("b:1"), image_key("r.io/a:latest"))
    assert found.volume_images == (image_key("data:1"),)
    assert b"constraints" not in bound.body


def test_too_many_images_are_left_out_and_nothing_else_is():
    containers = [{"name": "c", "image": f"a:{number}"} for number in range(1_000)]
    fact, _ = fact_of(containers=containers, schedulerName="bursar")

    found = msgspec.json.decode(fact.constraints, type=PodConstraints)
    assert (found, fact.notes) == (PodConstraints(scheduler_name="bursar"), ())


def test_a_node_says_its_largest_images():
    listed = [{"names": [f"a:{n}", f"a@sha256:{n:064}"], "sizeBytes": n} for n in range(10**9, 10**9 + 300)]  # fmt: skip
    said = node(images=[{"names": ["<none>@<none>", "b:1"], "sizeBytes": 7}]).images
    most = node(images=listed).images

    assert said == f"{image_key('b:1')}=7"
    assert len(most) <= LARGEST_IMAGES
    assert most.startswith((f"{image_key(f'a:{10**9 + 299}')}=", f"{image_key(f'a@sha256:{10**9 + 299:064}')}="))  # fmt: skip


def test_images_cost_what_the_page_says():
    """docs/scheduling.md: 38 bytes for the one image of a waiting pod, 2 KB for 50 images with two names each on a node."""
    names = [[f"a:{number}", f"a@sha256:{number:064}"] for number in range(50)]
    listed = [{"names": one, "sizeBytes": 8_000_000_000} for one in names]
    _, without = fact_of()
    _, told = fact_of(containers=[{"name": "c", "image": "r.io/a:1"}])

    assert len(told.body) - len(without.body) == 38
    assert 1_900 < len(node(images=listed).images) < 2_048
