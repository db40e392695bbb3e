"""Requests of pods for exclusive CPUs: their policies, and the nodes that cannot satisfy them. Pure.

Source: koordinator-sh/koordinator, "CPU orchestration" (v1.0.0, nodenumaresource, PreFilter and Filter).
"""

from __future__ import annotations

from bus.events.constraints import CpuTerms
from reactors.scheduling.cpus.picking import Bind, Exclusive, Wish

#: QoS classes of pods with exclusive CPUs, and the priorities of production.
QOS = ("LSE", "LSR")
PRODUCTION = range(9_000, 10_000)

_BINDS: dict[str, Bind] = {"FullPCPUs": "FullPCPUs", "SpreadByPCPUs": "SpreadByPCPUs"}
_EXCLUSIVES: dict[str, Exclusive] = {"PCPULevel": "PCPULevel", "NUMANodeLevel": "NUMANodeLevel"}

NO_WHOLE_CPUS = "the requested CPUs must be integer"
NO_TOPOLOGY = "node(s) invalid CPU Topology"
NO_WHOLE_CORES = "node(s) requested cpus not multiple cpus per core"
NO_FULL_CORES = "node(s) required FullPCPUs policy"


def wish_of(
    terms: CpuTerms, priority: int, milli: int, default: Bind = "FullPCPUs"
) -> tuple[Wish | None, str]:
    """(the CPU request of a pod, None = shared CPUs; the reason why no node can take it, "" = some can).

    ConstrainedBurst bounds the shared CPUs of a pod. The node's agent enforces it: such a pod gets no exclusive CPUs.
    """
    if terms.qos not in QOS or priority not in PRODUCTION or milli <= 0:
        return None, ""
    required = _BINDS.get(terms.required)
    bind = default if terms.bind in ("", "Default") else _BINDS.get(terms.bind)
    bind = required or bind
    if bind is None:
        return None, ""
    if milli % 1000:
        return None, NO_WHOLE_CPUS
    exclusive = _EXCLUSIVES.get(terms.exclusive, "")
    return Wish(milli // 1000, bind, exclusive, is_required=required is not None), ""


def refused(wish: Wish, per_core: int, *, full_only: bool) -> str:
    """The reason why a node with so many CPUs in a core cannot satisfy a pod's policy; "" = it can.

    ``full_only``: it gives whole cores only, by its label ``node.koordinator.sh/cpu-bind-policy`` or the kubelet's static policy.
    """
    if per_core < 1:
        return NO_TOPOLOGY
    if full_only and wish.count % per_core:
        return NO_WHOLE_CORES
    if full_only and wish.bind != "FullPCPUs":
        return NO_FULL_CORES
    return ""
