"""Other objects with the size of a workload: its scale, its autoscaler, and its governing owner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bus.errors import DemandError
from bus.events.pods import Owner
from bus.kube.kinds.paths import count, find, one, text
from bus.kube.kinds.shape import Scale, ScaleTarget
from bus.kube.kinds.table import governed


def scale_of(object: Mapping[str, Any]) -> Scale:
    """An ``autoscaling/v1 Scale``, as reviews of ``<resource>/scale`` carry it; its uid is the scaled object's.

    Zero replicas are absent there. Raises DemandError.
    """
    return Scale(text(object, "metadata.uid"), count(object, "spec.replicas", default=0))


def target_of(object: Mapping[str, Any]) -> ScaleTarget:
    """The target of a HorizontalPodAutoscaler (``autoscaling/v1`` or ``v2``), and its largest number of replicas.

    Raises DemandError.
    """
    reference = one(object, "spec.scaleTargetRef")
    if reference is None:
        raise DemandError(path="spec.scaleTargetRef", reason="missing")
    at, value = reference
    most = count(object, "spec.maxReplicas", default=0)
    if most < 1:
        raise DemandError(path="spec.maxReplicas", reason="missing or zero")
    return ScaleTarget(
        _group(text(value, "apiVersion", at)),
        text(value, "kind", at),
        text(value, "name", at),
        most,
    )


def governing_owner(metadata: Mapping[str, Any]) -> Owner | None:
    """The controller of an object, if it is of a governed kind: then its children are not charged again.

    Only a reference, possibly invented by its writer: the ledger checks whether the owner's grant covers it. Raises
    DemandError for invalid references.
    """
    for at, reference in find(metadata, "ownerReferences.*", "metadata"):
        controls = one(reference, "controller", at)
        if controls is None or controls[1] is not True:
            continue
        kind = governed(_group(text(reference, "apiVersion", at)), text(reference, "kind", at))
        if kind is None or not kind.covers:
            return None
        return Owner(kind.kind, text(reference, "name", at), text(reference, "uid", at))
    return None


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]
