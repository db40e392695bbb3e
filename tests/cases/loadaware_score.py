"""Runs `loadaware_score` cases: nodes and pods with a NodeMetric, translated and folded, and what the product says of them.

A case gives estimates of the pods that are there; each becomes a pod that asks for what is estimated so.
"""

import json

import msgspec
import numpy as np

from bus.clock import SECOND_US
from bus.events.pods import Owner
from bus.sources.catalogue import NODE_METRICS
from reactors.scheduling.plugins.load_aware import LoadAware, Percents, Weights
from reactors.scheduling.plugins.load_rules import is_expired, packed, picked
from tests import factories as f
from tests.bus.sources.records import POLICY, record
from tests.reactors.scheduling.worlds import World, reasons, scores

#: When the node was measured.
MEASURED_S = 100_000
RULES = {"v1.0": "v1.0", "now": "current"}
FACTORS = {"cpu": 85, "memory": 70}


def check(case):
    """What the operation gives is what the case says."""
    assert OPERATIONS[case["given"]["op"]](case["given"]) == case["expect"]


def _estimate(given):
    world, plugin = World(), _plugin(given, factors=Percents(**given["factor_pct"]))
    is_batch = given.get("resources_are") == "batch"
    found = plugin.estimate(
        _pod(world, "p", None, given["request"], given["limit"], is_batch=is_batch)
    )
    return {"estimated": dict(zip(("cpu", "memory"), found, strict=True))}


def _filter(given):
    own = given.get("node_annotation_thresholds_pct")
    limits, is_prod = Percents(**given["thresholds_pct"]), given.get("compared_usage", "node") != "node"  # fmt: skip
    plugin = _plugin(
        given, factors=Percents(100, 100), thresholds=limits, prod_thresholds=limits if is_prod else Percents()
    )  # fmt: skip
    used = given["measured"] if "measured" in given else given["node_usage"]
    world = _world(given, used, own, 100, 100, is_prod=is_prod)
    asked = given.get("incoming_estimate") or {}
    cycle = _cycle(world, asked, asked, kind=given.get("pod_owner_kind", "ReplicaSet"))
    found = reasons(plugin, cycle).get("n", set())
    named = [one for one in ("cpu", "memory") if any(f" {one} " in reason for reason in found)]
    return {"rejected_by": named[0] if named else None}


def _score(given):
    factors = given.get("factor_pct") or FACTORS
    is_v1 = given["era"] == "v1.0"
    used = given["node_usage"] if is_v1 else given["measured"]
    is_prod = not is_v1 and any(one["usage"] == used for one in given["existing_pods"])
    plugin = _plugin(
        given, factors=Percents(**factors), weights=Weights(**given["weights"]), scores_prod=is_prod,
        dominant_weight=given.get("dominant_weight", 0),
        score_percentile="p95" if used is None and not is_v1 else "",
        score_percentile_seconds=300 if used is None and not is_v1 else 0,
    )  # fmt: skip
    world = _world(given, used, None, factors["cpu"], factors["memory"], is_prod=is_prod)
    cycle = _cycle(world, given["pod_request"], given["pod_limit"])
    world.columns.at_us += given.get("metric_age_s", 0) * SECOND_US
    return {"score": scores(plugin, cycle)["n"]}


def _expired(given):
    age_us = np.array([given["age_s"] * SECOND_US])
    return {"expired": bool(is_expired(age_us, given["expiration_s"] * SECOND_US)[0])}


def _picked(given):
    reported = {int(key): amount for key, amount in given["reported_by_duration_s"].items()}
    return {"value": picked(reported, given["asked_duration_s"], given["node_usage"])}


def _packed(given):
    used, whole = np.array([round(given["predicted_pct"] * 1000)]), np.array([100_000])
    return {"score": int(packed(used, whole, given["target_pct"])[0])}


def _plugin(given, **fields):
    return LoadAware(rules=RULES[given["era"]], **fields)


def _world(given, used, own, cpu, memory, *, is_prod):
    """A node, the pods that are there, and the node's measurement."""
    world, allocatable = World(), given["allocatable"]
    world.node(
        "n", usage_thresholds="" if own is None else json.dumps({"usageThresholds": own}),
        allocatable={"cpu": f"{allocatable['cpu']}m", "memory": str(allocatable["memory"]), "pods": "110"},
    )  # fmt: skip
    seen, rest = [], dict(used or {"cpu": 0, "memory": 0})
    for number, one in enumerate(given.get("existing_pods") or given.get("assigned_pods") or ()):
        asked = one.get("request") or {
            "cpu": round(one["estimate"]["cpu"] * 100 / cpu),
            "memory": round(one["estimate"]["memory"] * 100 / memory),
        }
        _pod(world, f"e{number}", "n", asked, one.get("limit") or asked, one["assigned_at"])
        uses = one.get("usage")
        if uses:
            seen.append(_used(f"e{number}", uses))
            rest = {key: amount - uses[key] for key, amount in rest.items()}
    if is_prod and any(rest.values()):
        # Who uses the rest of what is measured has been there for long.
        _pod(world, "rest", "n", {}, {}, -9_000)
        seen.append(_used("rest", rest))
    status = {
        "updateTime": f.stamp(MEASURED_S), "podsMetric": seen,
        "nodeMetric": {} if used is None else {"nodeUsage": _resources(used)},
    }  # fmt: skip
    metric = {
        "metadata": {"uid": "m", "name": "n", "resourceVersion": "1"}, "status": status,
        "spec": {"metricCollectPolicy": {"reportIntervalSeconds": given.get("report_interval_s", 60)}},
    }  # fmt: skip
    seen_at = msgspec.structs.replace(record(metric), time_us=f.us(MEASURED_S))
    world.see(NODE_METRICS.translate(seen_at, POLICY))
    return world


def _cycle(world, request, limit, *, kind="ReplicaSet"):
    _pod(world, "p", None, request, limit, kind=kind)
    cycle = world.cycle("p", **_asking(request, limit), owner=Owner(kind, "o", "o"))
    (load,) = world.state.loads.values()
    world.columns.at_us = load.updated_us
    return cycle


def _pod(world, uid, node, request, limit, at_s=0, *, is_batch=False, kind="ReplicaSet"):
    priority = 5_500 if is_batch else 0
    return world.pod(
        uid, node, created=MEASURED_S + at_s, priority=priority, owner=Owner(kind, "o", "o"),
        **_asking(request, limit, is_batch=is_batch),
    )  # fmt: skip


def _asking(request, limit, *, is_batch=False):
    # Of extended resources, as those of batch pods are, the limit is the request.
    asked = f.requesting(_quantities(request, is_batch=is_batch))
    return {"resources": asked, "limits": {} if is_batch else limit}


def _quantities(amounts, *, is_batch=False):
    if is_batch:
        return {f"kubernetes.io/batch-{name}": str(amount) for name, amount in amounts.items()}
    return {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in amounts.items()}  # fmt: skip


def _resources(amounts):
    return {"resources": _quantities(amounts)}


def _used(name, amounts):
    return {"name": name, "namespace": "ns", "podUsage": _resources(amounts)}


OPERATIONS = {
    "estimate": _estimate,
    "filter": _filter,
    "score": _score,
    "metric_expired": _expired,
    "pick_aggregate": _picked,
    "target_load_packing": _packed,
}
