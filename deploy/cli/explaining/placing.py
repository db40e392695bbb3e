"""The scheduler's decisions about a pod, and the node for a waiting
pod now, or the reason for none: steps of ``bursar why``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from bus.clock import format_stamp
from bus.events.constraints import HeldCpus
from bus.events.devices import device_name
from deploy.cli.explaining.withheld import withheld
from deploy.queries.scheduling import explained_pods, known, nomination
from deploy.queries.scheduling_decisions import Recorded, recorded
from projections.quota_trees.queries import Select
from reactors.scheduling.framework.contract import Preemption
from reactors.scheduling.framework.explaining import Explanation
from reactors.scheduling.queueing.queue import Queued
from reactors.scheduling.shape import Nominated

#: The schedulerName of Bursar's pods.
SCHEDULER = "bursar"
#: Nodes shown with their scores.
NODES = 3
#: Less important pods shown as possible victims.
VICTIMS = 3


def decided(
    connection: sa.Connection, select: Select, cluster: str, name: str, uids: Collection[str]
) -> Iterator[dict[str, Any]]:
    """One step for each recorded decision about these pods, or of the pass with the id ``name``."""
    for one in recorded(connection, select, cluster, name, uids):
        yield {
            "sequence": one.event.sequence, "time": format_stamp(one.fact.at_us),
            "step": "placed" if one.node else "refused", "about": f"Pod {one.pod.namespace}/{one.pod.name}",
            "quota": "", "reason": one.outcome, "numbers": "; ".join(sentences(one)),
            "based_on": one.fact.after, "id": one.event.id,
        }  # fmt: skip


def sentences(one: Recorded) -> Iterator[str]:
    """A pass's decision about a pod, and its outcome."""
    if one.node:
        cards = f", cards {', '.join(map(device_name, one.pod.cards))}" if one.pod.cards else ""
        yield f"node {one.node}{cards}{_cpus(one.fact.cpus.get(one.pod.uid))}" + (
            ", a shadow" if one.fact.is_shadow else ""
        )
    if one.outcome == "elsewhere":
        yield f"it is on {one.bound_node}"
    if one.message:
        yield one.message
    fit = f"{one.pod.feasible} of {one.fact.count} nodes fit"
    best = [f"{node} scores {score}" for node, score in one.top[:NODES] if one.pod.feasible > 1]
    yield f"{fit}: {', '.join(best)}" if best else fit
    if one.refusal.reason:
        yield one.refusal.reason
    for plugin, reasons in one.refusal.nodes.items():
        yield f"{plugin} refuses " + ", ".join(f"{n} ({why})" for why, n in reasons.items())


def _cpus(found: HeldCpus | None) -> str:
    """The CPUs of a pod, and their NUMA nodes."""
    cpus = f", CPUs {found.cpuset}" if found and found.cpuset else ""
    shares = found.numa_node_resources if found else ()
    return cpus + "".join(
        f", NUMA node {one.node}: {' '.join(f'{name} {text}' for name, text in one.resources.items())}"
        for one in shares
    )


def steps(
    select: Select, cluster: str, uids: Collection[str], sequence: int, now_us: int
) -> Iterator[dict[str, Any]]:
    """One step for each of these pods that waits for Bursar to place it."""
    replica = known(select, cluster)
    for pod, found, queued in explained_pods(replica, uids, SCHEDULER, sequence):
        making = [*_makes_room(nomination(replica, pod.uid))]
        if not found.node:
            making += withheld(replica, pod)
        # A pod may fit by itself while others of its gang do not.
        last = [queued.reason] if found.node and queued is not None and queued.reason else []
        yield {
            "sequence": None, "time": format_stamp(now_us),
            "step": "fits" if found.node else "unschedulable",
            "about": f"Pod {pod.namespace}/{pod.name}", "quota": "", "reason": found.message,
            "numbers": "; ".join([_numbers(found), *last, *_tries(queued), *making]), "based_on": sequence, "id": "",
        }  # fmt: skip


def _makes_room(found: Nominated | None) -> Iterator[str]:
    """The victims for a pod, by the newest pass about it."""
    if found is not None:
        names = _named([f"{one.namespace}/{one.name}" for one in found.victims])
        go = "would be evicted" if found.is_shadow else "evicted"
        yield f"nominated to {found.node}, {names} {go} for it"


def _tries(queued: Queued | None) -> Iterator[str]:
    """When a pod was tried last, and is tried next."""
    if queued is not None and queued.attempts:
        yield f"tried {queued.attempts} times, the last time at {format_stamp(queued.failed_us)}"
        if queued.until_us:
            yield f"tried again by {format_stamp(queued.until_us)} at the latest"


def _numbers(found: Explanation) -> str:
    parts = [f"{one.node} scores {one.score}" for one in found.top[:NODES]]
    parts += [f"{plugin} refuses {nodes}" for plugin, nodes in found.refused_nodes.items()]
    text = f"{found.feasible} of {found.nodes} nodes fit: {', '.join(parts)}"
    changes = [*found.changes, *_evicting(found.preemption)]
    return "; or ".join([text, *changes]) if parts else text.removesuffix(": ")


def _evicting(found: Preemption | None) -> Iterator[str]:
    if found is not None and found.node:
        yield f"evict {_named([f'{one.namespace}/{one.name}' for one in found.victims])} (node {found.node})"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - VICTIMS} more" if len(names) > VICTIMS else ""
    return f"{', '.join(names[:VICTIMS])}{more}"
