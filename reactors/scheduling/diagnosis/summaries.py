"""Summaries of nodes, elastic quotas and scores, in the HTTP forms of Koordinator's scheduler. Pure.

Source: koordinator-sh/koordinator, pkg/scheduler/frameworkext (debug_scores.go, services); docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from bus.events.decisions import SchedulingPassed
from bus.sources.node_devices import LABELS
from projections.cluster.devices import NodeDevices
from projections.cluster.rows import Node
from projections.quota_trees.shape import ELASTIC
from reactors.engine.replica import Replica
from reactors.scheduling import NAME
from reactors.scheduling.columns.device_requests import SHARED
from reactors.scheduling.devices.rules import node_resources
from reactors.scheduling.diagnosis.score_table import TEXTS, score_table
from reactors.scheduling.gangs.shape import GangCycle
from reactors.scheduling.state import SchedulingState

if TYPE_CHECKING:
    from reactors.scheduling.gangs.shape import Gang
    from reactors.scheduling.gangs.state import Gangs


def node(replica: Replica, name: str) -> dict[str, Any] | None:
    """A node and the pods on it; None for none."""
    state = replica.cluster_state
    found = state.nodes.get(state.named("Node", "", name))
    if found is None:
        return None
    pods = (state.pods[uid] for uid in state.index.on_node[name])
    held = sorted((one for one in pods if not one.is_ended), key=lambda one: one.uid)
    devices = state.devices_of(name)
    return {
        "name": found.name,
        "unschedulable": found.unschedulable,
        "allocatable": found.allocatable,
        "deviceResources": offered_by_devices(found, devices),
        "pods": [
            {"namespace": one.namespace, "name": one.name, "demand": one.demand} for one in held
        ],
    }


def offered_by_devices(found: Node, devices: NodeDevices | None) -> dict[str, Any] | None:
    """The resources of a node by its Device object, and the labels set by Koordinator's manager; None without one."""
    if devices is None:
        return None
    cards = [one.amounts for one in devices.devices if one.type == "gpu"]
    amounts = node_resources(
        cards, devices.labels.get("vendor", ""), with_shared=SHARED in found.allocatable
    )
    return {
        "resources": amounts,
        "labels": {f"{LABELS}{name}": text for name, text in sorted(devices.labels.items())},
    }


def quotas(replica: Replica) -> dict[str, dict[str, Any]]:
    """The elastic quotas by name, in Koordinator's fields."""
    names = sorted(name for kind, name in replica.quota_trees.places if kind == ELASTIC)
    return {name: found for name in names if (found := quota(replica, name)) is not None}


def quota(replica: Replica, name: str) -> dict[str, Any] | None:
    """An elastic quota; None for none."""
    trees = replica.quota_trees
    tree = trees.trees.get(trees.places.get((ELASTIC, name), ""))
    one = tree.nodes.get(name) if tree is not None else None
    if tree is None or one is None or one.kind != ELASTIC:
        return None
    figures = tree.elastic.figures(name)
    if figures is None:
        return None
    return {
        "name": one.name, "parentName": one.parent, "isParent": one.spec.is_parent,
        "allowLentResource": one.spec.lends, "max": one.spec.max, "min": one.spec.min,
        "sharedWeight": one.spec.weight, "autoScaleMin": figures.effective_min,
        "used": figures.used, "request": figures.request, "runtime": figures.runtime,
    }  # fmt: skip


def gangs(replica: Replica) -> dict[str, dict[str, Any]]:
    """The gangs by namespace and name, in Koordinator's fields; none without scheduling."""
    own = replica.states[NAME]
    known = own.scheduler.gangs if isinstance(own, SchedulingState) and own.scheduler else None
    return (
        {key: _gang(known, known.all[key], replica) for key in sorted(known.all)} if known else {}
    )


def gang(replica: Replica, key: str) -> dict[str, Any] | None:
    """A gang; None for none."""
    own = replica.states[NAME]
    known = own.scheduler.gangs if isinstance(own, SchedulingState) and own.scheduler else None
    return _gang(known, known.all[key], replica) if known is not None and key in known.all else None


def _gang(gangs: Gangs, one: Gang, replica: Replica) -> dict[str, Any]:
    needs = gangs.needs(one.key)
    pods = replica.cluster_state.pods

    def named(uids: Iterable[str]) -> list[str]:
        return sorted(f"{pods[uid].namespace}/{pods[uid].name}" for uid in uids)

    return {
        "name": one.key, "hasGangInit": needs is not None,
        "gangFrom": "GangFromPodAnnotation" if needs is one.light else "GangFromPodGroupCrd",
        "mode": "Strict" if needs is None or needs.is_strict else "NonStrict",
        "minRequiredNumber": needs.least if needs else None, "totalChildrenNum": needs.total if needs else None,
        "waitTime": needs.wait_us * 1_000 if needs else None, "gangGroup": list(gangs.group(one.key)),
        "children": named(one.pods), "waitingForBindChildren": named(one.waiting),
        "boundChildren": named(one.bound), "onceResourceSatisfied": one.is_complete,
    } | _cycle(gangs, one, replica)  # fmt: skip


def _cycle(gangs: Gangs, one: Gang, replica: Replica) -> dict[str, Any]:
    """The state of its schedule cycle, if cycles are counted."""
    if gangs.cycles is None:
        return {}
    found, pods = gangs.cycles.all.get(one.key, GangCycle()), replica.cluster_state.pods
    rounds = {f"{pods[uid].namespace}/{pods[uid].name}": found.tried.get(uid, 0) for uid in one.pods}  # fmt: skip
    return {
        "scheduleCycle": found.number, "scheduleCycleValid": found.is_valid,
        "childrenScheduleRoundMap": dict(sorted(rounds.items())),
    }  # fmt: skip


def tables(fact: SchedulingPassed, most: int) -> Iterator[str]:
    """For each pod of a pass with a choice: its best nodes with the scores of each plugin, as Markdown."""
    for one in fact.pods:
        top = list(zip(one.top[::2], one.top[1::2], strict=True))
        if not top:
            continue
        nodes = [fact.nodes[node] for node, _ in top]
        scores = {
            plugin: [fact.scores[at][number] for _, at in top]
            for number, plugin in enumerate(fact.plugins)
        }
        head, lines = score_table(f"{one.namespace}/{one.name}", nodes, scores, most)
        # Texts on the left, numbers on the right, as in Koordinator's table.
        rule = " --- |" * TEXTS + " ---:|" * (len(head) - TEXTS)
        rows = [f"| {' | '.join(str(cell) for cell in line)} |" for line in lines]
        yield "\n".join((f"| {' | '.join(head)} |", f"|{rule}", *rows))
