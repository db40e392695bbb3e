"""Which notebooks the prober asks, with which token, and whose exporter it believes."""

import asyncio

import pytest

from bus.clock import SystemClock
from bus.errors import (
    ClusterUnavailableError,
    MalformedJsonError,
    NotFoundError,
    PermissionDeniedError,
    RequestRefusedError,
)
from bus.events import VOCABULARY
from bus.events.notebooks import NotebookSampled
from bus.events.pods import Owner
from bus.memory import MemoryTransport
from bus.notebooks.contract import ApiRequest
from bus.notebooks.prober import ProbeResponse, ProbeSettings, Unanswered
from projections.cluster import ClusterState
from projections.quota_trees.forest import QuotaTrees
from reactors.culling.probing import Prober
from reactors.culling.settings import CullingSettings
from reactors.culling.state import CullingState
from tests.bus.hostile import server as tcp_server
from tests.factories import numbered, pod_observed, workload_observed


def facts(transport, fact):
    return [fact.read(event) for event in transport.events if event.type == fact.wire_type]


class Cluster:
    """Pods by path; ``asked`` is what was read."""

    def __init__(self, **pods):
        self.pods = {f"/api/v1/namespaces/ns/pods/{name}": pod for name, pod in pods.items()}
        self.asked = []

    def also(self, namespace, **pods):
        for name, one in pods.items():
            self.pods[f"/api/v1/namespaces/{namespace}/pods/{name}"] = one
        return self

    async def get(self, path):
        self.asked.append(path)
        found = self.pods.get(path, NotFoundError())
        if isinstance(found, Exception):
            raise found
        return found


def pod(uid="p", version=1, address="127.0.0.1", **more):
    return {
        "metadata": {
            "uid": uid, "namespace": "ns", "name": uid, "resourceVersion": str(version),
            "annotations": more.get("annotations", {"bursar.io/probe": "jupyter"}),
        },
        "spec": {
            **more.get("spec", {}),
            "containers": [{"name": "c", "image": "lab", **more.get("container", {})}],
        },
        "status": {"phase": "Running", "podIP": address},
    }  # fmt: skip


def prober(cluster, *events, transport=None, **more):
    view = CullingState(ClusterState(), QuotaTrees())
    for event in numbered(events):
        see(view, event)
    return Prober(
        view, cluster, transport or MemoryTransport(), SystemClock(), name="c",
        settings=ProbeSettings(allow_loopback=True),
        **{"tokens": TOKENS, "exporter_namespaces": ["gpu-operator"], **more},
    )  # fmt: skip


def see(view, event):
    fact = type_of(event).read(event)
    view.state.apply(fact, event)
    view.apply(fact, event)


def type_of(event):
    return VOCABULARY[event.type]


PROBED = {"bursar.io/probe": "jupyter"}


async def test_every_notebook_is_asked_and_its_evidence_said():
    transport, cluster = MemoryTransport(), Cluster(p=pod())
    found = prober(cluster, pod_observed("p", annotations=PROBED), transport=transport)

    assert 1 == await found.round()
    (fact,) = facts(transport, NotebookSampled)
    assert ("p", "lab", "unreachable") == (fact.uid, fact.image, fact.evidence[0].outcome)


async def test_a_pod_is_read_again_only_when_it_changed():
    cluster = Cluster(p=pod())
    found = prober(cluster, pod_observed("p", annotations=PROBED))
    for _ in range(3):
        await found.round()
    path = "/api/v1/namespaces/ns/pods/p"

    assert 1 == cluster.asked.count(path)
    newer = numbered([pod_observed("p", version=2, annotations=PROBED)])[0]
    see(found._view, newer)
    await found.round()
    assert 2 == cluster.asked.count(path)


@pytest.mark.parametrize(
    ("seen", "there"),
    [
        ({"annotations": {}}, pod()),
        ({"annotations": PROBED, "phase": "Pending"}, pod()),
        ({"annotations": PROBED}, pod(uid="other")),
        ({"annotations": PROBED}, NotFoundError()),
        ({"annotations": PROBED}, pod(annotations={})),
    ],
    ids=["no notebook", "not running", "another one by now", "gone", "no notebook any more"],
)
async def test_who_is_no_notebook_is_not_asked(seen, there):
    found = prober(Cluster(p=there), pod_observed("p", **seen))

    assert 0 == await found.round()


@pytest.mark.parametrize("error", [RequestRefusedError(status=400), MalformedJsonError()])
async def test_a_pod_that_cannot_be_read_keeps_nobody_else_from_being_asked(error):
    cluster = Cluster(p=error, q=pod("q"), dcgm=error)
    found = prober(
        cluster, pod_observed("p", annotations=PROBED), pod_observed("q", annotations=PROBED),
        pod_observed("dcgm", labels={"app": "nvidia-dcgm-exporter"}),
    )  # fmt: skip

    assert 1 == await found.round()


GPU = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
DCGM = {"labels": {"app": "nvidia-dcgm-exporter"}, "namespace": "gpu-operator"}


def exporters_of(found):
    return {uid: known.peer.exporter for uid, known in found._known.items()}


async def test_a_notebook_with_a_gpu_is_looked_at_by_its_nodes_exporter():
    cluster = Cluster(p=pod(container=GPU), q=pod("q"))
    cluster.also("gpu-operator", dcgm=pod("dcgm", address="10.1.1.1"))
    found = prober(
        cluster, pod_observed("p", annotations=PROBED), pod_observed("q", annotations=PROBED),
        pod_observed("dcgm", **DCGM),
    )  # fmt: skip
    await found.round()

    assert {"p": "10.1.1.1", "q": ""} == exporters_of(found)


async def test_a_tenants_pod_that_poses_as_a_gpu_exporter_is_not_asked():
    """Labels are the tenant's to write; the namespaces of exporters are the operator's setting."""
    cluster = Cluster(p=pod(container=GPU), dcgm=pod("dcgm", address="10.6.6.6"))
    found = prober(
        cluster, pod_observed("p", annotations=PROBED), pod_observed("dcgm", labels=DCGM["labels"])
    )
    await found.round()

    assert {"p": ""} == exporters_of(found)


async def test_two_exporters_of_one_node_are_no_evidence():
    cluster = Cluster(p=pod(container=GPU))
    cluster.also("gpu-operator", d=pod("d", address="10.1.1.1"), e=pod("e", address="10.1.1.2"))
    found = prober(
        cluster, pod_observed("p", annotations=PROBED), pod_observed("d", **DCGM), pod_observed("e", **DCGM),
    )  # fmt: skip
    await found.round()

    assert {"p": ""} == exporters_of(found)


OWNED = {"annotations": PROBED, "owner": Owner("StatefulSet", "s", "s1")}
SET = {"kind": "StatefulSet", "namespace": "ns", "name": "s"}
TOKENS = {"other": "t-other", "n?": "t-ns", "*": "t-all"}


@pytest.mark.parametrize(
    ("seen", "above", "there", "token"),
    [
        (OWNED, SET, {}, "t-ns"),
        (OWNED, {**SET, "kind": "Notebook"}, {}, "t-ns"),
        ({"annotations": PROBED}, None, {}, ""),
        (OWNED, None, {}, ""),
        (OWNED, {**SET, "kind": "Deployment"}, {}, ""),
        (OWNED, {**SET, "namespace": "other"}, {}, ""),
        (OWNED, SET, {"spec": {"hostNetwork": True}}, ""),
    ],
    ids=[
        "below a StatefulSet", "below a Notebook", "a labelled pod of its own", "a set that was never seen",
        "another kind", "a set of another namespace", "on the host's network",
    ],
)  # fmt: skip
async def test_a_token_goes_to_its_namespace_below_a_notebook_that_was_seen(
    seen, above, there, token
):
    events = [workload_observed("s1", **above)] if above else []
    found = prober(Cluster(p=pod(**there)), *events, pod_observed("p", **seen))
    await found.round()

    assert [token] == [known.peer.token for known in found._known.values()]


async def test_a_pod_is_read_anew_when_the_set_above_it_is_seen():
    found = prober(Cluster(p=pod()), pod_observed("p", **OWNED))
    await found.round()
    (event,) = numbered([workload_observed("s1", **SET)])
    see(found._view, event)
    await found.round()

    assert ["t-ns"] == [known.peer.token for known in found._known.values()]


def test_one_token_for_every_namespace_is_refused_with_the_way_out():
    with pytest.raises(ValueError, match=r"use culling\.token_files"):
        CullingSettings(token_file="/etc/token")


@pytest.mark.parametrize(
    ("there", "reply"),
    [
        ({"a": 1}, ProbeResponse(200, b'{"a":1}')),
        (NotFoundError(), ProbeResponse(404, b"")),
        (PermissionDeniedError(), ProbeResponse(403, b"")),
        (ClusterUnavailableError(), Unanswered("no_connection")),
    ],
)
async def test_what_the_api_server_says_is_an_answer_like_any_other(there, reply):
    found = prober(Cluster(p=there))

    assert reply == await found._api(ApiRequest("/api/v1/namespaces/ns/pods/p"))


async def test_a_thousand_notebooks_are_asked_within_a_minute():
    async def answers(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")
        await writer.drain()
        writer.close()

    names = [f"p{n}" for n in range(1_000)]
    async with tcp_server(answers) as port:
        annotations = PROBED | {"bursar.io/probe-port": str(port)}
        cluster = Cluster(**{name: pod(name, annotations=annotations) for name in names})
        transport = MemoryTransport()
        found = prober(
            cluster, *(pod_observed(n, annotations=PROBED) for n in names), transport=transport
        )
        async with asyncio.timeout(60):
            assert 1_000 == await found.round()

    assert 1_000 == sum(f.evidence[0].outcome == "ok" for f in facts(transport, NotebookSampled))
