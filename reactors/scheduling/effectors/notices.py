"""ADAPTER: reports placements on pods as kube-scheduler does: the condition PodScheduled, and Events on the pod.

A pod refused by every node has PodScheduled=False with the reason ``Unschedulable`` and the message ``0/3 nodes are available:
...``, shown by `kubectl describe` and read by autoscalers of nodes, and an Event ``FailedScheduling``. A bound pod has an Event
``Scheduled``. Both are for reading only: the decision is in the history.

A pod is updated when its message changes, and once a minute at most; the rate of all updates is bounded. An equal message on the
pod is not written again, so a restart writes nothing. Events ``Scheduled`` above the rate are left out and counted. Pods in system
namespaces get Events alone: Bursar may not write their status.

``condition`` and ``record`` are pure. Source: Kubernetes API reference, "PodCondition" and events.k8s.io/v1; docs/scheduling.md.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from bus.clock import SECOND_US, Clock, format_stamp
from bus.errors import (
    ClusterUnavailableError,
    ConflictError,
    MalformedJsonError,
    NotFoundError,
    PermissionDeniedError,
    RequestRefusedError,
)
from bus.kube import MANAGER
from reactors.admission.deciding.rate import Buckets, Rate
from reactors.effectors.events import LONGEST_NOTE, micro_time
from reactors.scheduling.queueing.messages import SYSTEM_NAMESPACES

Json = dict[str, Any]

#: Between two conditions of one pod, and before another attempt after a conflict.
APART_US = 60 * SECOND_US
AGAIN_US = 5 * SECOND_US
#: Updates of all pods together.
ALL = Rate(per_second=20, burst=100)
#: Between two checks of the due updates.
PACE_SECONDS = 0.5
#: Most bound pods without an Event yet; more are left out.
MOST_BOUND = 1_000
#: Longest message of a condition, bytes.
LONGEST_MESSAGE = 4096

_log = logging.getLogger(__name__)


class NoticeClient(Protocol):
    """The methods of :class:`bus.kube.client.KubeCluster` needed here, with its errors."""

    async def get(self, path: str) -> Json:
        """The object at ``path``."""
        ...

    async def apply(self, path: str, body: Mapping[str, Any]) -> Json:
        """Server-side apply of ``body`` at ``path``."""
        ...

    async def create(self, path: str, body: Mapping[str, Any]) -> Json:
        """A new object in the collection at ``path``."""
        ...


class NoticedPod(msgspec.Struct, frozen=True):
    """A pod with a notice, and its scheduler's name. ``nominated``: the node with victims for it."""

    namespace: str
    name: str
    uid: str
    scheduler: str
    nominated: str = ""


class _Shown(msgspec.Struct):
    """The last notice of a pod, and the time of the next one. ``tried``: the nominated node of the last attempt."""

    message: str = ""
    after_us: int = 0
    nominated: str = ""
    tried: str = ""


def condition(pod: Json, message: str, now_us: int, nominated: str = "") -> Json | None:
    """The pod's condition, for server-side apply; None if the pod already has it, is bound, or ends.

    ``nominated``: the node with victims for it, "" = none. Server-side apply then removes a nominated node written by this
    program, and keeps one written by another.
    """
    metadata = pod["metadata"]
    if pod.get("spec", {}).get("nodeName") or "deletionTimestamp" in metadata:
        return None
    known: Json = next(
        (one for one in pod.get("status", {}).get("conditions") or () if one["type"] == "PodScheduled"), {}
    )  # fmt: skip
    message = message.encode()[:LONGEST_MESSAGE].decode(errors="ignore")
    shown = (known.get("status"), known.get("reason"), known.get("message"))
    written = pod.get("status", {}).get("nominatedNodeName") or ""
    is_nominated = written == nominated if nominated else not (written and _is_ours(metadata))
    if shown == ("False", "Unschedulable", message) and is_nominated:
        return None
    since = format_stamp(now_us // SECOND_US * SECOND_US)
    if known.get("status") == "False":
        since = known.get("lastTransitionTime") or since
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        },
        "status": {
            "conditions": [
                {
                    "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                    "message": message, "lastTransitionTime": since,
                }
            ],
            **({"nominatedNodeName": nominated} if nominated else {}),
        },
    }  # fmt: skip


def _is_ours(metadata: Json) -> bool:
    """Whether this program wrote the nominated node of a pod, by the managed fields of the API server."""
    return any(
        one.get("manager") == MANAGER
        and "f:nominatedNodeName" in one.get("fieldsV1", {}).get("f:status", {})
        for one in metadata.get("managedFields") or ()
    )


def record(subject: NoticedPod, *, node: str, message: str, now_us: int, instance: str) -> Json:
    """The Event on a pod bound to ``node``, or on one without a node (``node`` "").

    The name of the Event is a hash of the pod, the node and the message, so a second attempt makes no second Event.
    """
    content = f"{subject.uid}\n{node}\n{message}".encode()
    name = f"bursar.{hashlib.blake2b(content, digest_size=8).hexdigest()}"
    note = message
    if node:
        note = f"Successfully assigned {subject.namespace}/{subject.name} to {node}"
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": subject.namespace},
        "eventTime": micro_time(now_us),
        "reportingController": subject.scheduler,
        "reportingInstance": instance[:128] or "bursar",
        "action": "Binding" if node else "Scheduling",
        "reason": "Scheduled" if node else "FailedScheduling",
        "regarding": {
            "apiVersion": "v1", "kind": "Pod", "namespace": subject.namespace, "name": subject.name,
            "uid": subject.uid,
        },
        "note": note.encode()[:LONGEST_NOTE].decode(errors="ignore"),
        "type": "Normal" if node else "Warning",
    }  # fmt: skip


class PodNotices:
    """The writer of notices on pods. One for a cluster, in the binding process."""

    def __init__(self, cluster: NoticeClient, clock: Clock, *, instance: str) -> None:
        #: The results of notices: ``written``, ``known``, ``denied``, ``refused``, ``gone``, ``crowded`` (left out).
        self.counts: Counter[str] = Counter()
        #: The API server's reason for refusing notices, in its words; "" = none.
        self.trouble = ""
        self._cluster = cluster
        self._clock = clock
        self._instance = instance
        self._due: dict[str, tuple[NoticedPod, str]] = {}
        self._told: dict[str, _Shown] = {}
        self._bound: deque[tuple[NoticedPod, str]] = deque()
        self._all = Buckets(ALL)

    def waits(self, waiting: Mapping[str, tuple[NoticedPod, str]]) -> None:
        """Set every pod refused by all nodes, by uid, with its message; other pods' notices are forgotten."""
        self._told = {uid: shown for uid, shown in self._told.items() if uid in waiting}
        self._due = {
            uid: one
            for uid, one in waiting.items()
            if uid not in self._told
            or (self._told[uid].message, self._told[uid].nominated) != (one[1], one[0].nominated)
        }

    def bound(self, subject: NoticedPod, node: str) -> None:
        """A pod was bound."""
        if len(self._bound) >= MOST_BOUND:
            self.counts["crowded"] += 1
            return
        self._bound.append((subject, node))

    async def work(self) -> None:
        """Write the due notices within the rate; the rest waits. Raises ClusterUnavailableError."""
        for uid, (subject, message) in list(self._due.items()):
            now_us = self._clock.now_us()
            shown = self._told.get(uid) or _Shown()
            if now_us < shown.after_us and shown.tried == subject.nominated:
                continue
            if not self._all.takes("", now_us):
                return
            again_us = await self._tried(self._waiting(subject, message))
            if again_us:
                self._told[uid] = _Shown(
                    shown.message, now_us + again_us, shown.nominated, subject.nominated
                )
            else:
                self._told[uid] = _Shown(
                    message, now_us + APART_US, subject.nominated, subject.nominated
                )
                self._due.pop(uid, None)
        while self._bound and self._all.takes("", self._clock.now_us()):
            subject, node = self._bound.popleft()
            await self._tried(self._event(subject, node, ""))

    async def _tried(self, write: Any) -> int:
        """0 for a settled notice, else the microseconds until its next attempt."""
        try:
            self.counts[await write] += 1
            self.trouble = ""
        except NotFoundError:
            self.counts["gone"] += 1
        except (ConflictError, MalformedJsonError, KeyError, TypeError):
            # It changed between the read and the write, or a proxy answered: the next check decides anew.
            return AGAIN_US
        except (PermissionDeniedError, RequestRefusedError) as error:
            reason = "denied" if isinstance(error, PermissionDeniedError) else "refused"
            if not self.counts[reason]:
                _log.warning("pods are not told why they wait: %s", error)
            self.counts[reason] += 1
            self.trouble = str(error)
        return 0

    async def _waiting(self, subject: NoticedPod, message: str) -> str:
        path = f"/api/v1/namespaces/{subject.namespace}/pods/{subject.name}"
        pod = await self._cluster.get(path)
        if pod["metadata"]["uid"] != subject.uid:
            return "gone"
        body = condition(pod, message, self._clock.now_us(), subject.nominated)
        if body is None:
            return "known"
        if subject.namespace not in SYSTEM_NAMESPACES:
            await self._cluster.apply(f"{path}/status", body)
        return await self._event(subject, "", message)

    async def _event(self, subject: NoticedPod, node: str, message: str) -> str:
        now_us = self._clock.now_us()
        body = record(subject, node=node, message=message, now_us=now_us, instance=self._instance)
        path = f"/apis/events.k8s.io/v1/namespaces/{subject.namespace}/events"
        try:
            await self._cluster.create(path, body)
        except ConflictError:
            # It was written before a crash.
            return "known"
        return "written"


async def telling(notices: PodNotices) -> None:
    """Write for ever, at a pace independent of the number of pods."""
    while True:
        try:
            await notices.work()
        except ClusterUnavailableError as error:
            await asyncio.sleep(error.delay_seconds)
        await asyncio.sleep(PACE_SECONDS)
