"""New workloads start suspended if their quota holds them. Pure but for reads of view and journals.

Each one is held, with or without room, and the queue starts it. (Refused: admitting those that fit now. A mutating webhook
gets no uid, so it can charge nothing. Of many simultaneous workloads, all would see the same room, and the validating
webhook would have to refuse the surplus. A holding quota never refuses for lack of room. The
price is one write and one watch delay for each workload, and only in quotas that opt in.)

A workload suspended by its user stays with the user. A workload that its controller would not suspend
(:func:`bus.kube.kinds.suspends`) is admitted or refused at once, as every kind without suspension. Unreadable workloads and
those with a forbidden quota go on to the validating webhook, and it reports the reason.

Source: Kubernetes, "Dynamic Admission Control" (JSONPatch).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from bus.errors import DemandError
from bus.kube import kinds
from bus.kube.kinds import QUEUE_ANNOTATION, Kind
from bus.kube.kinds.gangs import together
from bus.kube.kinds.paths import mapping
from bus.sources.podgroups import KOORDINATOR, gang_terms
from reactors.admission.deciding.decide import barred
from reactors.admission.state.state import AdmissionState
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
        # In a new object the user wrote the status; the API server drops it.
        object = {key: value for key, value in review.object.items() if key != "status"}
        try:
            quota, is_gang = self._holding(kind, object, review.namespace)
        except DemandError:
            return UNCHANGED
        if review.operation != "CREATE" or not quota:
            return UNCHANGED
        operations = held(kind, object, quota)
        if is_gang:
            # A workload with unreadable templates waits all the same, or it would bypass the queue.
            with suppress(DemandError):
                operations += ganged(kind, object, review.uid)
        return Answer(True, "held", patch=msgspec.json.encode(operations))

    def _holding(self, kind: Kind, object: Mapping[str, Any], namespace: str) -> tuple[str, bool]:
        """The quota that holds this object ("" = none), and whether its pods form a gang."""
        ask = kinds.asked(kind, object)
        if ask.suspended or kinds.governing_owner(object.get("metadata") or {}) is not None:
            return "", False
        if not kinds.suspends(kind, object):
            return "", False
        where = self._view.place(ask.labels, namespace)
        if where is None or where.refusal:
            return "", False
        tree = self._journals.trees.get(self._journals.places.get((where.kind, where.quota), ""))
        node = tree.nodes.get(where.quota) if tree else None
        if node is None or barred(node, namespace) or not node.spec.queue.hold:
            return "", False
        return where.quota, node.spec.queue.gang


def held(kind: Kind, object: Mapping[str, Any], quota: str) -> Operations:
    """JSON Patch (RFC 6902) to suspend ``object`` and name its queue."""
    return [
        *_set(object, ("metadata", "annotations", QUEUE_ANNOTATION), quota),
        *suspended(kind, object),
    ]


def ganged(kind: Kind, object: Mapping[str, Any], uid: str) -> Operations:
    """JSON Patch to place its pods together: Koordinator's annotations in its pod templates. Empty if one of them
    names a gang itself. ``uid``: the review's, for objects without a name yet. Raises DemandError for unreadable objects.
    """
    least, templates = together(kind, object)
    metadata = mapping(object, "metadata")
    name = metadata.get("name") or f"{metadata.get('generateName') or ''}{uid}"
    noted = {f"{KOORDINATOR}name": name, f"{KOORDINATOR}min-available": str(least)}
    operations: Operations = []
    for path, template in templates:
        labels, notes = (
            mapping(template, "metadata.labels"),
            mapping(template, "metadata.annotations"),
        )
        group = _texts(mapping(template, "spec.schedulingGroup")).get("podGroupName")
        if gang_terms(group, _texts(labels), _texts(notes)) is not None:
            return []
        has_metadata = bool(mapping(template, "metadata"))
        value = notes | noted if has_metadata else {"annotations": noted}
        place = (*path, "metadata", "annotations") if has_metadata else (*path, "metadata")
        operations.append({"op": "add", "path": pointer(place), "value": value})
    return operations


def _texts(written: Mapping[str, Any]) -> dict[str, str]:
    """The text values: a custom resource is not validated yet."""
    return {name: text for name, text in written.items() if isinstance(text, str)}


def suspended(kind: Kind, object: Mapping[str, Any]) -> Operations:
    """JSON Patch to set the suspend flag of its kind."""
    return _set(object, tuple(kind.suspend.split(".")), True)


def _set(object: Mapping[str, Any], path: tuple[str, ...], value: Any) -> Operations:
    """Sets the value at ``path``; ``add`` replaces an existing value, and makes no parents."""
    operations: Operations = []
    inner: Any = object
    for depth, step in enumerate(path[:-1], 1):
        inner = inner.get(step) if inner is not None else None
        if inner is None:
            operations.append({"op": "add", "path": pointer(path[:depth]), "value": {}})
    operations.append({"op": "add", "path": pointer(path), "value": value})
    return operations
