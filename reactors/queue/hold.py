"""A workload that is created where its quota holds begins suspended. Pure but for what it reads of view and journals.

Each one is held, whether there is room or not, and the queue starts it. (Refused: letting pass what fits now. A mutating webhook
sees no uid, so it can charge nothing; of many that come at once, all would see the same room, and the validating
webhook would have to refuse those that found it taken. A quota that holds refuses nobody for want of room. The
price is one write and the time of one watch for each workload, and only where the quota opts in.)

What its user suspended himself is left to him. What its controller would not suspend (:func:`bus.kube.kinds.suspends`) is
admitted or refused at once, as every kind that cannot wait. What cannot be read, or names a quota that it may not use, goes on to
the validating webhook, which says why.

Source: Kubernetes, "Dynamic Admission Control" (JSONPatch).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bus.errors import DemandError
from bus.kube import kinds
from bus.kube.kinds import QUEUE_ANNOTATION, Kind
from reactors.admission.decide import barred
from reactors.admission.state import AdmissionState
from reactors.effectors.release import Operations, pointer
from reactors.engine.journals import Journals
from reactors.webhook.review import Answer, Review

UNCHANGED = Answer(True)


class Hold:
    """Answers mutating reviews: the same object, suspended and marked, or unchanged."""

    def __init__(self, journals: Journals, view: AdmissionState) -> None:
        self._journals = journals
        self._view = view

    async def __call__(self, review: Review) -> Answer:
        """The answer to one review; never a refusal."""
        kind = kinds.served(review.group, review.version, review.resource)
        if kind is None or not kind.queues or review.object is None or review.subresource:
            return UNCHANGED
        try:
            quota = self._holding(kind, review.object, review.namespace)
        except DemandError:
            return UNCHANGED
        if review.operation != "CREATE" or not quota:
            return UNCHANGED
        return Answer(True, "held", patch=msgspec.json.encode(held(kind, review.object, quota)))

    def _holding(self, kind: Kind, object: Mapping[str, Any], namespace: str) -> str:
        """The quota that holds this object; "" for none."""
        ask = kinds.asked(kind, object)
        if ask.suspended or kinds.governing_owner(object.get("metadata") or {}) is not None:
            return ""
        if not kinds.suspends(kind, object):
            return ""
        where = self._view.place(ask.labels, namespace)
        if where is None or where.refusal:
            return ""
        tree = self._journals.trees.get(self._journals.places.get((where.kind, where.quota), ""))
        node = tree.nodes.get(where.quota) if tree else None
        if node is None or barred(node, namespace) or not node.spec.queue.hold:
            return ""
        return where.quota


def held(kind: Kind, object: Mapping[str, Any], quota: str) -> Operations:
    """JSON Patch (RFC 6902) that suspends ``object`` and says in whose queue it waits."""
    return [
        *_set(object, ("metadata", "annotations", QUEUE_ANNOTATION), quota),
        *suspended(kind, object),
    ]


def suspended(kind: Kind, object: Mapping[str, Any]) -> Operations:
    """JSON Patch that sets the flag which keeps it from running."""
    return _set(object, tuple(kind.suspend.split(".")), True)


def _set(object: Mapping[str, Any], path: tuple[str, ...], value: Any) -> Operations:
    """Sets the value at ``path``; ``add`` replaces what is there, and makes no parents."""
    operations: Operations = []
    inner: Any = object
    for depth, step in enumerate(path[:-1], 1):
        inner = inner.get(step) if inner is not None else None
        if inner is None:
            operations.append({"op": "add", "path": pointer(path[:depth]), "value": {}})
    operations.append({"op": "add", "path": pointer(path), "value": value})
    return operations
