"""ADAPTER: probes every notebook of a cluster, period after period, and publishes the answers.

The list of notebooks comes from the history. The address and the port of each are read from the API server, again
for each version of the pod. So a stale address of a pod is probed at most for as long as a watch is
behind.

Source: docs/reliability.md; :mod:`bus.notebooks`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Protocol

import msgspec

from bus.clock import Clock
from bus.errors import (
    BursarError,
    ClusterUnavailableError,
    MalformedJsonError,
    NotFoundError,
    ObservationError,
    PermissionDeniedError,
    RequestRefusedError,
    RetryableError,
)
from bus.events.decisions import Decision
from bus.events.notebooks import Evidence
from bus.notebooks import kubeflow
from bus.notebooks.choice import PROBE, is_notebook, peer_of
from bus.notebooks.contract import NOTEBOOK_NAME, ApiRequest, Peer, Reply
from bus.notebooks.memory import HEARTBEAT_US
from bus.notebooks.prober import ProbeResponse, ProbeSettings, Unanswered, fetch
from bus.notebooks.sampler import AskServer, Sampler
from bus.transport import Transport
from projections.cluster import Pod
from reactors.culling.decide import evaluated
from reactors.culling.evidence import last_word
from reactors.culling.policy import CullingPolicy
from reactors.culling.state import NAME, CullingState
from reactors.engine.replica import Replica

#: Labels of NVIDIA's exporter, by its chart and by the GPU operator.
EXPORTERS = (
    ("app.kubernetes.io/name", "dcgm-exporter"),
    ("app", "nvidia-dcgm-exporter"),
)
#: Kinds whose pods may get their namespace's token.
TRUSTED_KINDS = frozenset({"Notebook", "StatefulSet"})
#: Errors of one pod, without effect on the others.
UNREADABLE = (NotFoundError, MalformedJsonError, ObservationError, RequestRefusedError)
#: Concurrent reads of pods from the API server.
AT_ONCE = 16

_log = logging.getLogger(__name__)

Json = dict[str, Any]


class ProbeClient(Protocol):
    """The needed part of :class:`bus.kube.client.KubeCluster`."""

    async def get(self, path: str) -> Json:
        """The object at ``path``."""
        ...


class _Known(msgspec.Struct, frozen=True):
    """The reading of one version of a pod, with the token and the exporter of that time."""

    version: str
    token: str
    exporter: str
    peer: Peer | None


class Prober:
    """Probes the notebooks of ``view``.

    ``tokens`` by namespace pattern: a pod gets the first that fits, if it is controlled by an observed Notebook or StatefulSet
    and not on the network of its node. Only pods of ``exporter_namespaces`` are asked for GPUs. If two pods of a node
    claim to be its exporter, neither is used. ``kubeflow``: Notebooks are probed as by Kubeflow's culler.
    ``ask``: in the place of HTTP, for simulations.
    """

    def __init__(
        self,
        view: CullingState,
        cluster: ProbeClient,
        transport: Transport,
        clock: Clock,
        *,
        name: str,
        settings: ProbeSettings | None = None,
        tokens: Mapping[str, str] | None = None,
        exporter_namespaces: Sequence[str] = (),
        kubeflow: bool = False,
        heartbeat_us: int = HEARTBEAT_US,
        ask: AskServer | None = None,
    ) -> None:
        self._view = view
        self._cluster = cluster
        self._transport = transport
        self._clock = clock
        self._tokens = tokens or {}
        self._exporter_namespaces = frozenset(exporter_namespaces)
        self._kubeflow = kubeflow
        ask = ask or partial(fetch, settings=settings or ProbeSettings())
        self._sampler = Sampler(
            ask, self._api, clock, cluster=name, source="probe", heartbeat_us=heartbeat_us
        )
        self._known: dict[str, _Known] = {}

    async def run(self, period_seconds: float) -> None:
        """Round after round, for ever. After a round longer than a period, the next starts at once."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await self.round()
            except (RetryableError, PermissionDeniedError) as error:
                _log.warning("notebooks are not asked now: %s", error)
            await asyncio.sleep(max(0.0, began + period_seconds - loop.time()))

    async def round(self) -> int:
        """Probe every notebook once, and publish news. Returns the number of probed notebooks."""
        pods = [pod for pod in self._view.pods() if pod.is_running and self._asks(pod)]
        exporters = await self._exporters({pod.node for pod in pods})
        slots = asyncio.Semaphore(AT_ONCE)

        async def read(pod: Pod) -> Peer | None:
            async with slots:
                return await self._peer(pod, exporters)

        peers = [peer for peer in await asyncio.gather(*map(read, pods)) if peer is not None]
        self._known = {
            uid: one for uid, one in self._known.items() if self._view.pod(uid) is not None
        }
        events = await self._sampler.round(peers)
        if events:
            await self._transport.publish(events)
        return len(peers)

    async def look(self, uid: str) -> tuple[int, tuple[Evidence, ...]]:
        """A notebook's current answers, and their time; empty for one that was not probed before."""
        known = self._known.get(uid)
        if known is None or known.peer is None:
            return self._clock.now_us(), ()
        return await self._sampler.look(known.peer)

    def _asks(self, pod: Pod) -> bool:
        return is_notebook(pod.labels, pod.annotations)

    async def _peer(self, pod: Pod, exporters: Mapping[str, str]) -> Peer | None:
        """The notebook as the API server has it; None where it is not up, or another one by now."""
        known = self._known.get(pod.uid)
        read_as = (pod.version, self._token(pod), exporters.get(pod.node, ""))
        if known is None or (known.version, known.token, known.exporter) != read_as:
            known = _Known(*read_as, await self._read(pod, *read_as[1:]))
            self._known[pod.uid] = known
        return known.peer

    def _token(self, pod: Pod) -> str:
        chain = self._view.state.chain(pod.owner) or []
        if not any(above.kind in TRUSTED_KINDS for above in chain):
            return ""
        if any(above.namespace != pod.namespace for above in chain):
            return ""
        fits = (t for pattern, t in self._tokens.items() if fnmatchcase(pod.namespace, pattern))
        return next(fits, "")

    async def _read(self, pod: Pod, token: str, exporter: str) -> Peer | None:
        try:
            found = await self._cluster.get(_path(pod))
            peer = peer_of(msgspec.json.encode(found))
        except UNREADABLE as error:
            _log.info("pod %s is not asked: %s", pod.uid, error)
            return None
        if peer is None or peer.uid != pod.uid:
            return None
        exporter = exporter if _holds_gpu(found) else ""
        token = "" if peer.is_on_host else token
        if self._kubeflow and NOTEBOOK_NAME in peer.labels:
            chosen = peer.annotations | {PROBE: kubeflow.kind.name}
            peer = msgspec.structs.replace(peer, annotations=chosen)
        return msgspec.structs.replace(peer, token=token, exporter=exporter)

    async def _exporters(self, nodes: set[str]) -> dict[str, str]:
        """Node to the address of its GPU exporter; left out if two pods of a node claim to be it."""
        candidates: dict[str, list[Pod]] = {}
        for pod in self._view.pods():
            is_exporter = any(pod.labels.get(key) == value for key, value in EXPORTERS)
            is_trusted = pod.namespace in self._exporter_namespaces
            if pod.node in nodes and pod.is_running and is_exporter and is_trusted:
                candidates.setdefault(pod.node, []).append(pod)
        found = {}
        for node, pods in candidates.items():
            if len(pods) > 1:
                _log.warning("node %s has %d GPU exporters: none is asked", node, len(pods))
                continue
            try:
                status = (await self._cluster.get(_path(pods[0]))).get("status", {})
            except UNREADABLE:
                continue
            found[node] = str(status.get("podIP", ""))
        return found

    async def _api(self, request: ApiRequest) -> Reply:
        try:
            return ProbeResponse(200, msgspec.json.encode(await self._cluster.get(request.path)))
        except NotFoundError:
            return ProbeResponse(404, b"")
        except PermissionDeniedError:
            return ProbeResponse(403, b"")
        except ClusterUnavailableError:
            return Unanswered("no_connection")
        except BursarError:
            return Unanswered("not_http")


def _path(pod: Pod) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def _holds_gpu(pod: Json) -> bool:
    """Whether a container has a GPU, or a part of one, for a limit."""
    for container in pod.get("spec", {}).get("containers", ()):
        limits = (container.get("resources") or {}).get("limits") or {}
        if any(name.startswith("nvidia.com/") for name in limits):
            return True
    return False


class LastLook:
    """Asks a notebook once more before it is stopped. Without a prober it speaks against it."""

    def __init__(self, replica: Replica, prober: Prober | None) -> None:
        self._replica = replica
        self._prober = prober

    async def __call__(self, decision: Decision) -> str:
        """A reason token against the stop; "" = none."""
        if self._prober is None:
            return "unreadable"
        observed_us, evidence = await self._prober.look(decision.key)
        view, current = self._replica.states[NAME], self._replica.policies.of(NAME)
        assert isinstance(view, CullingState)
        if current is None or decision.key not in view.notebooks:
            return "gone"
        assert isinstance(current.policy, CullingPolicy)
        limits = evaluated(view, current.policy, decision.key, observed_us).limits
        return last_word(evidence, observed_us, decision, limits)
