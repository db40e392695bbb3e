"""CPU summaries: the HTTP answers of Koordinator's plugin NodeNUMAResource about a node's CPUs, in its fields. Pure.

Source: koordinator-sh/koordinator, pkg/scheduler/plugins/nodenumaresource (plugin_service.go); docs/scheduling.md.
"""

from __future__ import annotations

from typing import Any

from bus.cpusets import written
from reactors.engine.replica import Replica
from reactors.scheduling import NAME
from reactors.scheduling.cpus.giving import CpuRoom
from reactors.scheduling.cpus.topology import Cpu
from reactors.scheduling.plugins.node_numa_resource import NodeNUMAResource
from reactors.scheduling.state import SchedulingState


def topology(replica: Replica, node: str) -> dict[str, Any] | None:
    """The CPU topology of a node, and its CPUs reserved from all pods; None if unknown."""
    room = _room(replica, node)
    if room is None:
        return None
    cpus, sizes = room.topology.cpus, room.topology.parts
    return {
        "cpuTopology": {
            "numCPUs": len(cpus), "numCores": len({one.place for one in cpus.values()}),
            "numNodes": len(sizes[0]), "numSockets": len(sizes[1]),
            "cpuDetails": {str(number): _cpu(cpus[number]) for number in sorted(cpus)},
        },
        "reservedCPUs": written(room.reserved), "maxRefCount": room.most_pods,
        "numaTopologyPolicy": room.policy,
    }  # fmt: skip


def available(replica: Replica, node: str) -> dict[str, Any] | None:
    """The CPUs of a node available to a pod, and the number of pods on each of the others; None if unknown."""
    room = _room(replica, node)
    if room is None:
        return None
    cpus, times = room.topology.cpus, room.holders.times
    return {
        "availableCPUs": written(room.free),
        "allocated": {
            str(number): _cpu(cpus[number]) | {"refCount": times[number]}
            for number in sorted(cpus)
            if times.get(number)
        },
    }


def _cpu(one: Cpu) -> dict[str, Any]:
    return {"cpuID": one.number, "coreID": one.core, "nodeID": one.numa, "socketID": one.socket}


def _room(replica: Replica, node: str) -> CpuRoom | None:
    """The CPUs of a node by the first profile with the plugin."""
    own = replica.states[NAME]
    scheduler = own.scheduler if isinstance(own, SchedulingState) else None
    if scheduler is None or node not in scheduler.columns.row_of:
        return None
    columns, row = scheduler.columns, scheduler.columns.row_of[node]
    if columns.facts.topology(columns.names[row]) is None:
        return None
    for framework in scheduler.frameworks.values():
        for plugin in framework.filtering.filters:
            if isinstance(plugin, NodeNUMAResource):
                return plugin.room(columns, row)
    return None
