"""NodeResourceTopology objects, and what pods say of CPUs: hostile texts say nothing, and are bounded."""

import json

import msgspec
import pytest

from bus.events.constraints import CpuTerms, HeldCpus, NumaShare
from bus.kube.watch.records import LARGEST_BODY
from bus.sources.catalogue import NODE_TOPOLOGIES
from bus.sources.cpus import (  # fmt: skip
    ALLOCATED,
    KUBELET,
    NUMA_SPEC,
    QOS,
    RESERVATION,
    SPEC,
    STATUS,
    SYSTEM,
    TOPOLOGY,
    cpu_terms,
)
from tests.bus.sources.records import POLICY, body, record

METADATA = {"uid": "u", "name": "n1", "resourceVersion": "7"}
SAID = {"uid": "u", "name": "n1", "resource_version": "7"}


def said(annotations, change="ADDED", **fields):
    noted = {key: one if isinstance(one, str) else json.dumps(one) for key, one in annotations.items()}  # fmt: skip
    found = {"metadata": METADATA | {"annotations": noted}, **fields}
    return body(NODE_TOPOLOGIES.translate(record(found, change), POLICY))


def cpu(number, core=0, socket=0, node=0):
    return {"id": number, "core": core, "socket": socket, "node": node}


def test_an_object_says_how_cpus_lie_and_which_nobody_gets():
    annotations = {
        TOPOLOGY: {"detail": [cpu(0), cpu(1, 1, 1, 1), cpu(2), cpu(5), cpu(7)]},
        KUBELET: {"policy": "static", "options": {"full-pcpus-only": "true"}, "reservedCPUs": "0"},
        RESERVATION: {"reservedCPUs": "2,3"},
        SYSTEM: {"cpuset": "5"},
        ALLOCATED: [{"cpuset": "7", "managedByKubelet": True}, {"cpuset": "9"}],
        "node.koordinator.sh/cpu-shared-pools": "[]",
    }
    resources = [{"name": "memory", "capacity": "9Gi"}, {"name": "cpu", "allocatable": 4, "capacity": "5"}]  # fmt: skip
    zones = [{"name": "node-1", "type": "Node", "resources": resources}, {"name": "x", "type": "Core"}]  # fmt: skip

    assert said(annotations, zones=zones, topologyPolicies=["SingleNUMANodePodLevel"]) == SAID | {
        "cpus": [[0, 0, 0, 0], [1, 1, 1, 1], [2, 0, 0, 0], [5, 0, 0, 0], [7, 0, 0, 0]],
        "reserved": "0,2,5", "held": "7", "full_only": True, "policy": "SingleNUMANode",
        "zones": [{"node": 1, "allocatable": {"cpu": "4", "memory": "9Gi"}}],
    }  # fmt: skip
    assert said({SYSTEM: {"cpuset": "5", "cpusetExclusive": False}}) == SAID
    assert said({TOPOLOGY: {"detail": [cpu(0)]}}, "DELETED") == SAID


HOSTILE = [
    "", "[]", "{", "null", "7", '"0-3"', "NaN", "[" * 100_000, '{"cpuset": 5}', '{"detail": {}}', '{"detail": [{"id": 1e99}]}',
    '{"detail": [{"id": -1, "core": 0, "socket": 0, "node": 0}]}', '{"numaNodeResources": {}}', "\ud800", "{" * 9_999,
    '{"detail": [' + "{}," * 9_999, '{"cpuset": "' + "9" * 99_999 + '"}', '{"numaNodeResources": [{"node": ' + "9" * 99 + "}]}",
    '{"numaNodeResources": [{"node": 99999, "resources": {"cpu": "1"}}]}', '{"options": 3, "policy": []}',
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_cannot_be_read_says_nothing(text):
    terms = cpu_terms({QOS: text[:63]}, dict.fromkeys((SPEC, STATUS, NUMA_SPEC), text))

    assert terms is None or terms == CpuTerms(holds=HeldCpus())
    if text != "\ud800":
        assert said(dict.fromkeys((TOPOLOGY, KUBELET, ALLOCATED, RESERVATION, SYSTEM), text)) == SAID  # fmt: skip


ODD = ['{"cpuSet":"0-3"}', '{"cpuset":"00000-00003"}', '{"cpuset":"+0-3"}', *HOSTILE]


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_a_pod_says_that_it_has_something_also_where_it_cannot_be_read(text):
    terms = cpu_terms(None, {STATUS: text})

    assert terms == CpuTerms(holds=HeldCpus())
    assert msgspec.json.decode(msgspec.json.encode(terms), type=CpuTerms) == terms


def test_what_is_said_is_bounded():
    detail = [cpu(8191 - n, 8191, 8191, 8191) for n in range(1_024)]
    many = [{"name": f"{n}" * 90, "allocatable": "1" * 30} for n in range(99)]
    zones = [{"name": f"node-{n}", "type": "Node", "resources": many} for n in range(80)]
    odd = ",".join(str(n) for n in range(7_169, 8_192, 2))
    held = [{"cpuset": odd, "managedByKubelet": True}]
    noted = {TOPOLOGY: json.dumps({"detail": detail}), ALLOCATED: json.dumps(held)}
    found = {"metadata": METADATA | {"annotations": noted}}
    event = NODE_TOPOLOGIES.translate(record(found | {"zones": zones}), POLICY)

    assert len(event.body) < LARGEST_BODY
    assert len(body(event)["cpus"]) == 1_024
    assert "cpus" not in said({TOPOLOGY: {"detail": [cpu(n) for n in range(1_025)]}})


def test_a_pod_says_what_it_wants_and_what_it_has():
    annotations = {
        SPEC: '{"requiredCPUBindPolicy":"FullPCPUs","preferredCPUBindPolicy":"Secret","preferredCPUExclusivePolicy":"PCPULevel"}',
        NUMA_SPEC: '{"numaTopologyPolicy":"Restricted"}',
        STATUS: '{"cpuset":"0-3,x","numaNodeResources":[{"node":0,"resources":{"cpu":4,"memory":"s3cret","x":null}}],"y":[]}',
    }

    assert cpu_terms({QOS: "LSR"}, annotations) == CpuTerms(
        "LSR", "FullPCPUs", "other", "PCPULevel", "Restricted",
        HeldCpus("0-3", (NumaShare(0, {"cpu": "4"}),)),
    )  # fmt: skip
    assert cpu_terms({QOS: "LS"}, {"scheduling.koordinator.sh/x": "{}"}) is None


def test_what_a_pod_has_is_bounded():
    odd = ",".join(str(n) for n in range(1, 8_192, 2))
    share = {"node": 1, "resources": {f"{n}" * 60: "1" * 30 for n in range(99)}}
    text = json.dumps({"cpuset": odd, "numaNodeResources": [share] * 999})

    assert len(msgspec.json.encode(cpu_terms({}, {STATUS: text}))) < 16_000
