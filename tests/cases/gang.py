"""Runs `gang` cases: what annotations and PodGroups say, who waits at Permit, and who is given up, by the product's own gangs."""

import msgspec
import pytest

from bus.clock import SECOND_US
from bus.sources.catalogue import POD_GROUPS, PODS
from bus.sources.podgroups import COPY
from projections.cluster.pod_terms import PodGroup
from reactors.scheduling.framework.context import PluginContext
from reactors.scheduling.framework.contract import Code, Cycle
from reactors.scheduling.gangs import phases
from reactors.scheduling.gangs.cycles import GangCycles
from reactors.scheduling.gangs.state import Gangs, needs_of, needs_of_group
from reactors.scheduling.plugins.coscheduling import Coscheduling
from reactors.scheduling.plugins.sorting.coscheduling_sort import CoschedulingSort
from tests.bus.sources.records import POLICY, record
from tests.reactors.scheduling.worlds import World

KOORDINATOR = "gang.scheduling.koordinator.sh/"
KEYS = {
    "name": "name",
    "min": "min-available",
    "total": "total-number",
    "mode": "mode",
    "wait": "waiting-time",
    "groups": "groups",
}
RESULTS = {Code.SKIP: "not_a_gang_pod", Code.WAIT: "wait", Code.SUCCESS: "success"}
PLUGIN, OLDER = Coscheduling(), Coscheduling(rules="v1.0")


def check(case):
    """What the operation gives is what the case says."""
    given, expect = case["given"], case["expect"]
    if given["op"] not in OPERATIONS:
        pytest.fail("not followed: see docs/scheduling.md, gangs", pytrace=False)
    found = OPERATIONS[given["op"]](given)

    assert {key: found[key] for key in expect} == expect


def noted(annotations):
    return {KOORDINATOR + KEYS[key]: text for key, text in annotations.items()}


def plain(needs):
    if needs is None:
        return None
    return {
        "min": needs.least, "total": needs.total, "mode": "Strict" if needs.is_strict else "NonStrict",
        "wait_s": needs.wait_us // SECOND_US, "groups": list(needs.groups),
    }  # fmt: skip


def parse_annotations(given):
    metadata = {"uid": "p", "name": "p", "namespace": "ns", "resourceVersion": "1"}
    seen = record({"metadata": metadata | {"annotations": noted(given["annotations"])}, "spec": {}})
    world = World(PODS.translate(seen, POLICY))
    terms = world.state.pods["p"].constraints.gang
    return {"gang": plain(needs_of(terms, given["default_timeout_s"] * SECOND_US))}


def of_a_copy(metadata):
    """What is known of a gang whose PodGroup Koordinator's scheduler made."""
    found = {"metadata": metadata | {"annotations": {COPY: "true"}}, "spec": {"minMember": 1}}
    world = World(POD_GROUPS[2].translate(record(found), POLICY))
    return Gangs(world.state, lambda pod: True).needs("ns/g")


def podgroup_event(given):
    metadata = {"uid": "g", "name": "g", "namespace": "ns", "resourceVersion": "1"}
    if given.get("marked_from_annotation"):
        return {"gang_created": of_a_copy(metadata) is not None}
    metadata["annotations"] = noted(given["annotations"])
    spec = {"minMember": given["min_member"], "scheduleTimeoutSeconds": given["timeout_s"]}
    world = World(POD_GROUPS[2].translate(record({"metadata": metadata, "spec": spec}), POLICY))
    (row,) = world.state.pod_groups.values()
    assert isinstance(row, PodGroup)
    return {"gang": plain(needs_of_group(row))}


class Gang:
    """A world whose pods are in gangs that their annotations describe."""

    def __init__(self, mode="NonStrict", total=None):
        self.world = World().node("a")
        self.gangs = Gangs(self.world.state, lambda pod: True)
        self.context = PluginContext(self.world.columns, self.gangs)
        self.world.listeners.append(self.gangs.follow)
        self.mode, self.total = mode, total

    def pod(self, uid, gang, least, node=None, *, wait=10, group=()):
        terms = {
            "name": gang,
            "isLight": True,
            "least": str(least),
            "mode": self.mode,
            "wait": f"{wait}s",
        }
        if self.total is not None:
            terms["total"] = str(self.total)
        if group:
            terms["groups"] = msgspec.json.encode([f"ns/{one}" for one in group]).decode()
        raw = msgspec.Raw(msgspec.json.encode({"gang": terms} if gang else {}))
        return self.world.pod(uid, node, constraints=raw)

    def cycle(self, uid):
        return Cycle(self.world.state.pods[uid], self.context)


def permit(given):
    scene, pod, least = Gang(), given["pod"], given.get("gang_min", {})
    names = {"wait": given.get("wait_time_s", 10), "group": given.get("gang_group") or ()}
    for one in given.get("already_waiting", ()):
        scene.pod(one["pod"], one["gang"], least[one["gang"]], **names)
        scene.gangs.placed(one["pod"], waits=True)
    gang = pod.get("gang")
    scene.pod(pod["name"], gang, least.get(gang, "x"), **names)
    scene.gangs.placed(pod["name"])
    cycle = scene.cycle(pod["name"])
    found = PLUGIN.permit(cycle, 0)
    waiting = {one["pod"] for one in given.get("already_waiting", ())}
    return {
        "result": RESULTS[found.code],
        "wait_s": found.timeout_us // SECOND_US,
        "release_all_waiting_of_group": set(PLUGIN.permits(cycle)) == waiting,
    }


def pod_event(given):
    scene = Gang()
    scene.pod("p", "g", 1, "a" if given.get("pod", {}).get("bound_to_node") else None)
    known = scene.gangs.of("p")
    if given["event"] == "delete_last":
        scene.world.gone("p")
    return {
        "once_satisfied": known.is_complete,
        "gang_exists": "ns/g" in scene.gangs.all,
        "podgroup_exists": bool(scene.world.state.pod_groups),
    }


def rejected(given):
    strict = given.get("mode", given.get("situation")) in ("Strict", "strict", "once-satisfied")
    scene = Gang("Strict" if strict else "NonStrict")
    is_open = not (given.get("once_satisfied") or given.get("situation") == "once-satisfied")
    own = given.get("failed_pod_gang", "gangA")
    is_known = given.get("situation") != "unknown-gang"
    group, waiting = given.get("gang_group") or (), given.get("waiting") or ["gangA/p1"]
    scene.pod("failed", own if is_known else None, 2, group=group)
    for one in waiting:
        gang, _, name = one.partition("/")
        scene.pod(name, gang, 2, group=group)
        scene.gangs.placed(name, waits=True)
    if not is_open:
        for number in range(2):
            scene.pod(f"bound{number}", own, 2, "a", group=group)
    cycles = scene.gangs.cycles = GangCycles(scene.gangs)
    cycles.tried("failed")
    cycles.failed("failed")
    found = PLUGIN.forbids(scene.cycle("failed"))
    return {
        "cycle_valid": cycles.all[f"ns/{own}"].is_valid if is_known else None,
        "error": None if is_known else "gang_not_found",
        "rejects_gang": bool(found),
        "rejected": [one for one in waiting if one.partition("/")[2] in found],
    }


def queue_order(given):
    world, sort, keys = World(), CoschedulingSort(), []
    for one in (given["p1"], given["p2"]):
        namespace, _, name = one["id"].partition("/")
        labels = {"koordinator.sh/priority": str(one["sub"])} if one["sub"] is not None else {}
        pod = world.pod(name, namespace=namespace, priority=one["priority"], labels=labels)
        keys.append(sort.sort_key(pod, one["time"] * SECOND_US))
    return {"p1_first": keys[0] < keys[1]}


def reconciled(given):
    """One look of the controller."""
    phase = phases.after(
        given["phase"], given["min_member"], given["pod_phases"], given.get("scheduled", 0),
        given.get("age_h", 0),
    )  # fmt: skip
    return {"phase": phase}


def bound(given):
    """One more pod has a node."""
    scheduled = given["scheduled_before"] + given["bound_children"]
    phase = phases.bound(given["phase_before"], given["min_member"], scheduled)
    return {"phase": phase, "scheduled": scheduled}


def cycling(gang, children):
    """A strict gang by the rules of Koordinator 1.0."""
    scene = Gang("Strict", total=gang.get("total"))
    scene.gangs.cycles = GangCycles(scene.gangs)
    for uid in children:
        scene.pod(uid, "g", gang["min_"])
    return scene


def tried(scene, uid):
    """Try a pod: why its gang refuses it, and how that counts."""
    status = OLDER.pre_filter(scene.cycle(uid))
    scene.gangs.cycles.tried(uid)
    found = scene.gangs.cycles.all["ns/g"]
    said = status.reason if status is not None else ""
    reasons = {"has failed": "cycle_not_valid", "was tried in cycle": "pod_already_tried_in_cycle"}
    error = next((word for part, word in reasons.items() if part in said), said or None)
    return {"error": error, "gang_cycle": found.number, "cycle_valid": found.is_valid}


def prefilter(given):
    before, uid, first = given["set_before"], given["pod"], given["neighbours_tried_first"]
    scene = cycling(given["gang"], [*first, uid])
    if before == "satisfied":
        for number in range(given["gang"]["min_"]):
            scene.pod(f"bound{number}", "g", given["gang"]["min_"], "a")
    for other in [*first, *([uid] if before == "same_cycle" else ())]:
        tried(scene, other)
    if before == "invalid":
        scene.gangs.cycles.failed(first[0])
    return tried(scene, uid) | {"pod_cycles": scene.gangs.cycles.all["ns/g"].tried}


def prefilter_sequence(given):
    scene, steps = cycling(given["gang"], given["children"]), []
    for uid in given["attempts"]:
        if uid not in given["children"]:
            scene.gangs.cycles.failed(steps[-1]["pod"])
        else:
            steps.append({"pod": uid} | tried(scene, uid))
    return {"steps": steps}


OPERATIONS = {
    "prefilter": prefilter,
    "prefilter_sequence": prefilter_sequence,
    "podgroup_reconcile": reconciled,
    "postbind": bound,
    "queue_order": queue_order,
    "parse_annotations": parse_annotations,
    "podgroup_event": podgroup_event,
    "permit": permit,
    "pod_event": pod_event,
    "postfilter": rejected,
    "unreserve": rejected,
}
