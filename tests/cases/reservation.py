"""Runs `reservation` cases: Reservations as they are translated and folded, and the product's rules of them."""

import pytest

from bus.clock import SECOND_US
from bus.events.pods import ReservationCondition
from bus.sources.catalogue import RESERVATIONS
from projections.cluster import reservations as rows
from reactors.scheduling.reservations import rules
from tests.bus.sources.records import POLICY, record
from tests.reactors.scheduling.worlds import World

NAMES = {"api_version": "apiVersion", "label_selector": "labelSelector"}
#: What a reservation has where a case says nothing.
USUAL = {"cpu": 4000, "memory": 8 * 2**30}


def check(case):
    """What the operation gives is what the case says."""
    given, expect = case["given"], case["expect"]
    if given["op"] not in OPERATIONS:
        pytest.fail("not followed: see docs/scheduling.md", pytrace=False)
    found = OPERATIONS[given["op"]](given)

    assert expect == {key: found[key] for key in expect}


def folded(spec, **metadata):
    """The row of a Reservation."""
    metadata = {"uid": "u", "name": "r", "resourceVersion": "1"} | metadata
    world = World(RESERVATIONS.translate(record({"metadata": metadata, "spec": spec}), POLICY))
    return world.state.reservations[metadata["uid"]]


def written(owner):
    found = {
        NAMES.get(part, part): {NAMES.get(key, key): one for key, one in said.items()}
        for part, said in owner.items()
        if part != "label_selector"
    }
    selector = owner.get("label_selector")
    if selector is None:
        return found
    is_plain = not {"matchLabels", "matchExpressions"} & selector.keys()
    return found | {"labelSelector": {"matchLabels": selector} if is_plain else selector}


def owners_match(given):
    pod = given["pod"]
    references = [rules.Reference(**one) for one in pod.get("owner_references", ())]
    known = {key: pod[key] for key in ("namespace", "name", "uid", "api_version") if key in pod}
    applicant = rules.Applicant(
        **{"namespace": "default"} | known, labels=pod.get("labels") or {}, references=tuple(references)
    )  # fmt: skip
    row = folded({"owners": list(map(written, given["owners"]))})
    return {"match": rules.owns(row.owners, applicant)}


def resources_match(given):
    return {
        "match": rules.fits(given["request"], given["reserved"], given["allocated"] or {}),
    }


def needs_expire(given):
    ttl, expires = given["ttl_s"], given["expires_at_s"]
    found = rows.is_over(
        given["phase"], given["now_s"] * SECOND_US, given["created_s"] * SECOND_US,
        None if ttl is None else rows.go_duration_us(f"{ttl}s"), None if expires is None else expires * SECOND_US,
    )  # fmt: skip
    return {"expire": found}


def needs_cleanup(given):
    phase, reason = {
        "expired": (rows.FAILED, rules.EXPIRED),
        "succeeded": (rows.SUCCEEDED, rows.SUCCEEDED),
    }.get(given["state"], (given["state"].capitalize(), given["state"].capitalize()))
    age = given.get("age_since_transition_s", given.get("age_since_probe_s", 0))
    conditions = [ReservationCondition("Ready", False, reason)]
    return {"delete": rules.is_kept_too_long(phase, conditions, 0, age * SECOND_US)}


def score(given):
    return {
        "score": rules.score(
            given["request_milli"], given["reserved_milli"], given["allocated_milli"] or {}
        )
    }


def preferred_by_order(given):
    return {"preferred": rules.preferred(given["labels"].items())}


def lifecycle(given):
    event, request = given["event"], given.get("pod_request") or {}
    before = rules.Status(
        given.get("phase", ""), given.get("node") or "n", USUAL, given.get("allocated") or {},
        ("p",) if event in ("pod_bound_again", "unreserve", "owner_pod_deleted") else (),
        tuple(condition_of(one) for one in given.get("conditions", ())),
    )  # fmt: skip
    after = {
        "scheduled": lambda: rules.scheduled(before, before.node, given.get("template_request")),
        "unschedulable": lambda: rules.unschedulable(before, given.get("message", "")),
        "pod_bound": lambda: rules.allocated(before, "p", request, once=given["allocate_once"]),
        "pod_bound_again": lambda: rules.allocated(
            before, "p", request, once=given["allocate_once"]
        ),
        "unreserve": lambda: rules.unreserved(before, "p", request),
        "owner_pod_deleted": lambda: rules.owner_gone(before, "p", request),
        "expire": lambda: rules.expired(before),
        "node_deleted": lambda: rules.expired(before),
    }[event]()
    return {
        "phase": after.phase, "node": after.node, "allocatable": after.allocatable,
        "allocated": after.allocated, "conditions": list(map(shown, after.conditions)),
        "reason": after.conditions[-1].reason if after.conditions else "",
        "owners_added": len(set(after.owners) - set(before.owners)),
        "owners_removed": len(set(before.owners) - set(after.owners)),
    }  # fmt: skip


def condition_of(one):
    return ReservationCondition(one["type"], one["status"], one["reason"], one.get("message", ""))


def shown(one):
    found = {"type": one.type, "status": one.is_true, "reason": one.reason}
    return found | ({"message": one.message} if one.message else {})


def validate(given):
    said = given["reservation"]
    spec = {"owners": [{}] * said["owners"]}
    if said["template"]:
        spec["template"] = {"spec": {}}
    if "ttl_s" in said:
        spec["ttl"] = f"{said['ttl_s']}s"
    if any(key.startswith("expires") for key in said):
        spec["expires"] = "2026-01-01T00:00:00Z"
    row = folded(spec)
    found = rules.invalid(
        row.has_template, len(row.owners), row.ttl_us is not None, row.expires_us is not None
    )
    return {"error": found or None}


def is_active(given):
    return {"active": rows.is_active(given["phase"], given["node"])}


def reserve_pod(given):
    said = given["reservation"]
    spec = {"template": {"spec": {"nodeName": said.get("template_node")}}}
    row = folded(spec, uid=said["uid"], name=said["name"])
    return {
        "pod_name": row.uid,
        "annotations": rules.reserve_annotations(row.name, row.template_node),
        "node_name_cleared": not row.node,
    }


OPERATIONS = {
    "owners_match": owners_match,
    "resources_match": resources_match,
    "needs_expire": needs_expire,
    "needs_cleanup": needs_cleanup,
    "score": score,
    "preferred_by_order": preferred_by_order,
    "lifecycle": lifecycle,
    "validate": validate,
    "is_active": is_active,
    "reserve_pod": reserve_pod,
}
