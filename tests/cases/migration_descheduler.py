"""Runs `migration_descheduler` cases: limits, orders and steps of PodMigrationJobs, by the product's own rules."""

import pytest

from bus.clock import SECOND_US
from bus.events.migrations import MovedPod
from reactors.migration import limits, order
from reactors.migration.settings import MigrationPolicy
from reactors.migration.shape import (
    EVICTED,
    EVICTING,
    EVICTION,
    FORBIDDEN,
    RESERVATION_CREATED,
    TIMEOUT,
    MigrationJob,
    MigrationScene,
    MigrationStatus,
    PodToMove,
    ReservedRoom,
)
from reactors.migration.steps import DROP, EVICT, RESERVE, is_over, next_step
from tests.cases import rebalancing

#: Phases of reservations, and the nodes where a case names none.
ROOMS = {
    "pending": "Pending", "failed": "Failed", "expired": "Failed", "succeeded": "Succeeded",
    "scheduled": "Available", "available": "Available",
}  # fmt: skip
PLACES = {"scheduled": "n2", "available": "n2", "succeeded": "n2"}
ACTS = {RESERVE: "create_reservation", EVICT: "evict", DROP: "delete_reservation"}


def check(case):
    """What the operation gives is what the case says."""
    given, expect = case["given"], case["expect"]
    if given["op"] not in OPERATIONS:
        pytest.fail("not followed: see docs/migration.md", pytrace=False)
    found = OPERATIONS[given["op"]](given)

    assert expect == {key: found[key] for key in expect}


def max_unavailable(given):
    policy = MigrationPolicy(
        rules={"now": "current"}.get(given["era"], given["era"]),
        max_unavailable_per_workload=given["configured"],
    )
    return {"pods": policy.most_unavailable(given["replicas"])}


def migration_limit(given):
    others = given["migrating_now"] - given.get("candidate_is_one_of_them", False)
    others = others if given["same_scope"] else 0
    if given["scope"] == "workload":
        is_allowed = limits.may_join(others, given["max_migrating"])
        return {
            "allowed": is_allowed and limits.is_available_enough(others, given["max_unavailable"])
        }
    if given["scope"] == "workload_unavailable":
        away = others + given["unavailable_now"] if given["same_scope"] else 0
        return {"allowed": limits.is_available_enough(away, given["max_unavailable"])}
    return {"allowed": limits.is_below(given["limit"], others)}


def expected_replicas(given):
    most = given["max_migrating"], given["max_unavailable"]
    return {"allowed": limits.has_enough_replicas(given["replicas"], *most)}


def eviction_cost(given):
    found = order.cost_of({order.EVICTION_COST: str(given["cost"])}, order.EVICTION_COST)
    return {"evictable": order.is_evictable(found)}


def pod_order(given):
    known = ("name", "priority", "priority_class", "qos", "kube_qos", "deletion_cost", "eviction_cost", "has_metric")  # fmt: skip
    pods = [
        order.Evictable(
            **{key: one[key] for key in known if key in one}, created_us=one["created"] * SECOND_US
        )
        for one in given["pods"]
    ]
    groups = {}
    for one in sorted(pods, key=order.place):
        groups.setdefault(order.place(one)[:-2], []).append(one.name)
    # Names inside a group are interchangeable.
    return {"groups_first_to_last": [sorted(names, key=len) for names in groups.values()]}


def job_reconcile(given):
    """A step, and where it evicts the step after the API server did that."""
    job, seen = job_of(given), scene_of(given)
    now_us = given.get("age_s", 1) * SECOND_US
    step = next_step(job, seen, now_us)
    acts = list(step.acts)
    if EVICT in acts:
        answered = MigrationScene(seen.pod, reservation=seen.reservation, is_evicted=True)
        step = next_step(job, answered, now_us)
    status = step.status
    evicted = status.condition(EVICTION)
    actions = [ACTS[one] for one in acts]
    if step.wait == "reservation_missing":
        actions.append("retry_with_error")
    elif step.wait:
        actions.append("requeue_3s")
    # The reason of a case about the eviction is that of its condition.
    is_gone = given.get("evicting") and given.get("pod") == "deleted"
    return {
        "phase": status.phase, "reason": evicted.reason if is_gone else status.reason, "status": status.status,
        "node": status.node, "actions": actions, "timed_out": status.reason == TIMEOUT,
        "eviction_condition": evicted is not None and evicted.is_true,
        "reservation": RESERVATION if RESERVE in acts else {},
    }  # fmt: skip


#: Asserted on a body of the product in tests/reactors/migration/test_bodies.py.
RESERVATION = {
    "name": "job uid", "ttl_s": "job ttl", "allocate_once": True, "node_name_cleared": True, "order_label": "now in ms",
}  # fmt: skip


def job_of(given):
    ttl = given.get("ttl_s")
    pod = given.get("pod_ref") or {"namespace": "default", "name": "p"}
    status = MigrationStatus(given["phase"])
    if given.get("reservation") or given.get("owners_kind"):
        status = status.noted(RESERVATION_CREATED, is_true=True)
    if given.get("eviction_condition"):
        status = status.noted(EVICTION, EVICTED, is_true=True)
    elif given.get("evicting"):
        status = status.noted(EVICTION, EVICTING)
    return MigrationJob(
        uid="u", name="j", ttl_us=None if ttl is None else ttl * SECOND_US, mode=given.get("mode", ""),
        is_paused=given.get("paused", False), pod_namespace=pod["namespace"], pod_name=pod["name"], status=status,
        reservation="u" if given.get("reservation") else "",
    )  # fmt: skip


def scene_of(given):
    pod, name = given.get("pod", "running"), given.get("reservation")
    node = {"pending": "", "scheduled": "n2"}.get(pod, given.get("pod_node", "n1"))
    is_for_pod = given.get("owners_kind") == "object"
    if is_for_pod or (given.get("reservation_exists") and name is None):
        name = "scheduled"
    room, condition = None, given.get("reservation_condition")
    if name is not None and name != "deleted":
        owner = given.get("bound_pod")
        room = ReservedRoom(
            ROOMS[name], given.get("reservation_node", PLACES.get(name, "")),
            name == "expired" or condition == "Expired", "" if condition == "Unschedulable" else None,
            MovedPod("default", owner, owner) if owner else None, is_for_pod,
        )  # fmt: skip
    passes = given.get("filters_pass", True)
    return MigrationScene(
        None if pod in ("deleted", "missing", None) else PodToMove("p", node), reservation=room,
        forbidden="" if passes or given.get("retryable") else FORBIDDEN,
        held="" if passes or not given.get("retryable") else "max_migrating_per_node",
    )  # fmt: skip


def scavenge(given):
    ttl = given["ttl_s"]
    job = MigrationJob(ttl_us=None if ttl is None else ttl * SECOND_US)
    return {"delete": is_over(job, given["age_s"] * SECOND_US)}


OPERATIONS = {
    one.__name__: one
    for one in (
        max_unavailable, migration_limit, expected_replicas, eviction_cost, pod_order, job_reconcile, scavenge,
    )
}  # fmt: skip
OPERATIONS |= rebalancing.OPERATIONS
