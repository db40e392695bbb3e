"""The pod templates of a gang workload, and the number of its pods. Pure.

Source: JobSet, ``startupPolicy`` and ``dependsOn``; KubeRay, ``enableInTreeAutoscaling``; docs/queues.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bus.kube.kinds.asking import pods_of
from bus.kube.kinds.paths import bounded, count, find
from bus.kube.kinds.shape import Holds, Kind

#: A place in an object: the keys and, as texts, the indexes on the way to it.
Place = tuple[str, ...]

#: By kind: where one of the values stands at the path, pods are made when others run, or as many as there is work.
_APART: dict[str, tuple[Holds, ...]] = {
    "JobSet": (("spec.startupPolicy.startupPolicyOrder", ("InOrder",)),),
    "RayJob": (("spec.rayClusterSpec.enableInTreeAutoscaling", (True,)),),
}
#: The same, whatever stands there.
_AFTER = {"JobSet": "spec.replicatedJobs.*.dependsOn"}


def together(kind: Kind, object: Mapping[str, Any]) -> tuple[int, list[tuple[Place, Any]]]:
    """The number of ``object``'s pods started together, and all their templates, each with its place.

    0 without templates, for one pod, or for pods created later than others. Raises DemandError as :func:`asked`
    does.
    """
    if any(
        value in values
        for path, values in _APART.get(kind.kind, ())
        for _, value in find(object, path)
    ):
        return 0, []
    if kind.kind in _AFTER and any(value for _, value in find(object, _AFTER[kind.kind])):
        return 0, []
    total, templates = 0, list[tuple[Place, Any]]()
    for entry in kind.sets:
        # Such a pod comes once the others run.
        if not entry.template:
            continue
        for place, holder in _holders(object, tuple(entry.at.split("."))):
            path = (*place, *entry.template.split("."))
            pods = pods_of(entry, holder, ".".join(place))
            if pods:
                total += pods
                templates.append((path, _at(object, path)))
    bounded(total, "spec")
    least = count(object, kind.gang, default=total) if kind.gang else total
    return (min(least, total), templates) if total > 1 else (0, [])


def _holders(value: Any, path: Place, at: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every value at the path; ``*`` stands for every value of a list or map."""
    for depth, step in enumerate(path):
        if step == "*":
            inner = value.items() if isinstance(value, dict) else enumerate(value or ())
            for key, one in sorted(inner):
                if one is not None:
                    yield from _holders(one, path[depth + 1 :], (*at, str(key)))
            return
        value, at = (value or {}).get(step), (*at, step)
    if value is not None:
        yield at, value


def _at(value: Any, path: Place) -> Any:
    for step in path:
        value = value[int(step)] if isinstance(value, list) else (value or {}).get(step)
    return value
