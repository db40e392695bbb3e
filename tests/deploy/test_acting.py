"""Reactors as `bursar up` runs them: the clock, the policies, the pause; and who is asked by the prober."""

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
from bus.events.notebooks import NotebookSampled
from bus.events.policies import PauseChanged, PolicyChanged
from bus.memory import MemoryTransport
from bus.probe import Answer, ProbeSettings, Unanswered
from bus.sources.kernels.contract import ApiRequest
from deploy.acting import acting
from deploy.probing import Prober
from reactors.culling.policy import CullingPolicy
from reactors.culling.view import CullingView
from tests.bus.hostile import server as tcp_server
from tests.deploy.ledgers import bursar, make_ledger
from tests.factories import numbered, pod_observed, said

WANTED = {"culling": ("shadow", CullingPolicy())}


def facts(transport, fact):
    return [fact.read(event) for event in transport.events if event.type == fact.wire_type]


async def test_a_policy_of_the_settings_is_said_once_over_restarts():
    transport = MemoryTransport()
    for _ in range(2):
        async with acting(transport, None, WANTED, name="c") as runner:
            assert "shadow" == runner.replica.policies.of("culling").mode

    assert ["shadow"] == [fact.mode for fact in facts(transport, PolicyChanged)]


async def test_the_clock_ticks_while_it_runs():
    transport = MemoryTransport()
    async with acting(transport, None, WANTED, name="c"):
        await asyncio.sleep(0.01)

    assert "clock.ticked" in [event.type for event in transport.events]


async def test_a_pause_is_known_within_five_seconds():
    transport = MemoryTransport()
    async with acting(transport, None, WANTED, name="c") as runner:
        fact = PauseChanged(is_paused=True, author="me")
        await transport.publish([said(fact, key="reactors", id="p", at=0)])
        async with asyncio.timeout(5):
            while not runner.replica.policies.is_paused:
                await asyncio.sleep(0.01)


class Cluster:
    """Pods by path; ``asked`` is what was read."""

    def __init__(self, **pods):
        self.pods = {f"/api/v1/namespaces/ns/pods/{name}": pod for name, pod in pods.items()}
        self.asked = []

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
        "spec": {"containers": [{"name": "c", "image": "lab", **more.get("container", {})}]},
        "status": {"phase": "Running", "podIP": address},
    }  # fmt: skip


def prober(cluster, *events, transport=None):
    view = CullingView()
    for event in numbered(events):
        view.take(type_of(event).read(event), event)
    return Prober(
        view, cluster, transport or MemoryTransport(), SystemClock(), name="c",
        settings=ProbeSettings(allow_loopback=True),
    )  # fmt: skip


def type_of(event):
    from bus.events import VOCABULARY

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
    found._view.take(type_of(newer).read(newer), newer)
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


async def test_a_notebook_with_a_gpu_is_looked_at_by_its_nodes_exporter():
    container = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    cluster = Cluster(p=pod(container=container), q=pod("q"), dcgm=pod("dcgm", address="10.1.1.1"))
    found = prober(
        cluster, pod_observed("p", annotations=PROBED), pod_observed("q", annotations=PROBED),
        pod_observed("dcgm", labels={"app": "nvidia-dcgm-exporter"}),
    )  # fmt: skip
    await found.round()

    assert {"p": "10.1.1.1", "q": ""} == {
        uid: known.peer.exporter for uid, known in found._known.items()
    }


@pytest.mark.parametrize(
    ("there", "reply"),
    [
        ({"a": 1}, Answer(200, b'{"a":1}')),
        (NotFoundError(), Answer(404, b"")),
        (PermissionDeniedError(), Answer(403, b"")),
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


@pytest.mark.nats
def test_a_recovery_is_said_so_that_reactors_hold_still(tmp_path, capsys):
    make_ledger(tmp_path, [pod_observed("p")])
    assert 0 == bursar("--data", tmp_path, "recover")
    assert 0 == bursar("--data", tmp_path, "pause", "--author", "me")

    # The recovered pod, the recovery, the pause.
    assert "event 3" in capsys.readouterr().err
