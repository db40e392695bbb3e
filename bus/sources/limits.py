"""The limits of a pod on divisible resources. Pure.

The API server requires equal limits and requests of extended resources and huge pages; of cpu, memory and ephemeral
storage it does not, and quotas may bound either.

Source: Kubernetes, "Resource Management for Pods and Containers"; ``PodLimits`` of component-helpers.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from bus.amounts import PodResources, effective_limit, is_above_zero
from bus.errors import QuantityError

#: The resources with independent limits and requests.
LIMITED = ("cpu", "memory", "ephemeral-storage")

#: Largest amount in a fact (int64).
_MOST = 2**63 - 1
_MILLI, _WHOLE = 10**6, 10**9

_encode = msgspec.json.Encoder(order="sorted").encode


def bounds(limits: dict[str, str], requests: dict[str, str]) -> dict[str, str]:
    """The limits of a container; for a missing or zero limit, unlimited to the kubelet, its request."""
    return limits | {
        name: text for name, text in requests.items() if not is_above_zero(limits.get(name))
    }


def whole_limits(limits: PodResources) -> dict[str, int] | None:
    """By resource, cpu in milli and the others in bytes, rounded up; None where a quantity cannot be read.

    ``limits`` holds limits in the place of requests.
    """
    return _known(_encode(limits))


# Most pods of a cluster are written alike.
@lru_cache(maxsize=4_096)
def _known(limits: bytes) -> dict[str, int] | None:
    try:
        found = effective_limit(msgspec.json.decode(limits, type=PodResources))
    except QuantityError:
        return None
    return {
        name: min(-(-nano // (_MILLI if name == "cpu" else _WHOLE)), _MOST)
        for name in LIMITED
        if (nano := found.get(name))
    }
