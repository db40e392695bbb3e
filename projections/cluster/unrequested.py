"""The amounts in a scheduler's scores for containers without requests of cpu or memory. Pure.

Source: kube-scheduler, `pkg/scheduler/util/pod_resources.go`.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from bus.amounts import NANO, ContainerResources, PodResources
from bus.charges import effective

#: kube-scheduler's amounts in scores for a container without requests.
_LEAST = {"cpu": "100m", "memory": "200Mi"}


@lru_cache(maxsize=8_192)
def unrequested(resources: bytes) -> tuple[int, int] | None:
    """The amounts in scores beyond the requests; the resources were read before."""
    written = msgspec.json.decode(resources, type=PodResources)
    requested, unreadable = effective(written)
    if unreadable:
        return None
    containers = (*written.containers, *written.init_containers)
    if all(_LEAST.keys() <= one.requests.keys() for one in containers):
        return 0, 0
    counted = msgspec.structs.replace(
        written,
        containers=tuple(map(_at_least, written.containers)),
        init_containers=tuple(map(_at_least, written.init_containers)),
    )
    after, _ = effective(counted)
    cpu, memory = (after.get(name, 0) - requested.get(name, 0) for name in _LEAST)
    return -(-cpu // (NANO // 1000)), -(-memory // NANO)


def _at_least(one: ContainerResources) -> ContainerResources:
    return msgspec.structs.replace(one, requests=_LEAST | one.requests)
