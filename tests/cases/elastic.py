"""Runs the `elasticquota_*` cases through `projections.quota_trees.elastic` and `reactors.reclaim`.

Only maps fields: amounts stay in the case's units, names of fields become those of the product.
"""

from bus.events.admissions import QuotaSpec
from bus.events.constraints import LabelSelector, Requirement
from projections.quota_trees import TreeNode
from projections.quota_trees.elastic import (
    ChildShare,
    ElasticQuota,
    Level,
    Mode,
    PodSums,
    Topology,
    admission,
    largest_remainder,
    review,
    rules,
    runtimes,
    scaled_mins,
)
from projections.quota_trees.elastic.review import Gates
from projections.quota_trees.elastic.runtime import floor
from projections.quota_trees.elastic.shape import DEFAULT
from projections.quota_trees.shape import ELASTIC
from reactors.admission.deciding.decide import barred
from reactors.reclaim import Budget, Pod, revoked, split_by_budget, watched
from reactors.reclaim.preemption import can_preempt, is_eligible, select_victims
from tests.elastic_plainly import Kept, distributable, half_up, refreshed

ROUNDING = {"largest_remainder": largest_remainder, "half_up": half_up}
SECOND = 1_000_000


# --- elasticquota_runtime, elasticquota_minscale ---------------------------------------------------


def runtime(case):
    given = case["given"]
    claims = [
        ChildShare(
            one["name"],
            floor(one["min"], one.get("guarantee", 0)),
            min(one["request"], one.get("max", one["request"])),
            one["weight"],
            one.get("lends", True),
        )
        for one in given["quotas"]
    ]

    assert case["expect"]["runtime"] == runtimes(given["total"], claims, ROUNDING[given["rule"]])


def minscale(case):
    given = case["given"]
    mins = {child["name"]: child["min"] for child in given["children"]}
    fixed = {child["name"] for child in given["children"] if not child.get("scalable", True)}

    assert case["expect"]["effective_min"] == scaled_mins(given["total"], mins, fixed)


# --- elasticquota_tree -----------------------------------------------------------------------------


def tree(case):
    given = case["given"]
    if given.get("mode") == "root_total":
        told = distributable(
            given["cluster_total"], given["system_quota_used"], given["default_quota_used"]
        )
        assert case["expect"] == {"distributable": told}
        return
    for figures in _by_both(given):
        for figure, by_quota in case["expect"].items():
            assert by_quota == {name: getattr(figures[name], figure) for name in by_quota}, figure


def _by_both(given):
    """The figures by name from the plain function, and from the tree that is kept up to date."""
    guarantee = given.get("mode") == "guarantee_usage"
    mode = Mode(
        scale_min=given.get("scale_min", False),
        guarantee=guarantee,
        rounding=ROUNDING[given.get("rule", "largest_remainder")],
    )
    quotas = [quota_of(one) for one in given["quotas"]]
    pods = {
        one["name"]: PodSums(dict(one["request"])) for one in given["quotas"] if "request" in one
    }
    for pod in given.get("bound_pods", ()):
        sums = pods.setdefault(pod["quota"], PodSums({}, {}))
        for key, amount in pod["request"].items():
            sums.request[key] = sums.request.get(key, 0) + amount
            sums.used[key] = sums.used.get(key, 0) + amount
    kept = Kept(mode)
    for name, sums in pods.items():
        kept.set_pods(name, sums)
    for quota in quotas:
        kept.set_quota(quota)
    kept.set_cluster(given["total"])
    yield refreshed(
        quotas,
        given["total"],
        {name: sums.request for name, sums in pods.items()},
        {name: sums.used for name, sums in pods.items()},
        mode,
    )
    yield {quota.name: kept.figures(quota.name) for quota in quotas}


#: Fields of a case's quota that the product calls otherwise.
CALLED = {"allow_force_update": "force_update", "is_root": "tree_root"}
#: And those that are no part of a quota.
OTHER = {"request", "used", "guaranteed", "allocated", "scalable"}


def quota_of(given):
    """A quota with a case's fields; lists become tuples, a null parent the root."""
    fields = {}
    for name, value in given.items():
        if name in OTHER or value is None:
            continue
        fields[CALLED.get(name, name)] = tuple(value) if isinstance(value, list) else value
    return ElasticQuota(**fields)


# --- elasticquota_webhook --------------------------------------------------------------------------


def webhook(case):
    WEBHOOK[case["given"]["check"]](case["given"], case["expect"])


def _answered(expected, refusal):
    """A case says the reason and the keys only where upstream's test does."""
    told = {"admit": refusal is None}
    if refusal is not None:
        told |= {"error": refusal.reason, "keys": list(refusal.keys)}

    assert expected == {name: told.get(name) for name in expected}


def _self(given, expected):
    quota = given["quota"]
    _answered(expected, rules.check_self(quota_of(quota), quota.get("used", {})))


def _fill_defaults(given, expected):
    parent = ElasticQuota("parent", tree_id=given.get("parent_tree_id", ""))
    quota = rules.with_defaults(quota_of(given["quota"]), parent)

    assert expected == {name: getattr(quota, name) for name in expected}


def _family(given):
    parent = given.get("parent")
    return (
        quota_of(given["quota"]),
        quota_of(parent) if parent else None,
        [quota_of(one) for one in given.get("siblings", ())],
        [quota_of(one) for one in given.get("children", ())],
    )


def _keys(given, expected):
    quota, parent, _, children = _family(given)
    _answered(
        expected, rules.check_keys(quota, parent, children, subset=given.get("subset_mode", False))
    )


def _tree_id(given, expected):
    quota = ElasticQuota("own", parent="parent", tree_id=given["own"])
    parent = (
        ElasticQuota("parent", tree_id=given["parent"]) if given.get("parent") is not None else None
    )
    child = given.get("child")
    children = [ElasticQuota("child", parent="own", tree_id=child)] if child is not None else []
    old = ElasticQuota("own", tree_id=given["old"]) if "old" in given else None
    _answered(expected, rules.check_tree_id(quota, parent, children, old))


def _min_sum(given, expected):
    _answered(expected, rules.check_min_sum(*_family(given)))


def _parent_exists(given, expected):
    name = given.get("quota", {}).get("parent", "temp")
    parent = given["parent"]
    quota = ElasticQuota("own", parent=parent["name"] if parent else name)
    _answered(expected, rules.check_parent(quota, quota_of(parent) if parent else None))


def _guarantee_for_min(given, expected):
    quota, parent, siblings, _ = _family(given)
    raw = [given["quota"], *given.get("siblings", ()), given.get("parent")]
    guaranteed = {one["name"]: one.get("guaranteed", {}) for one in raw if one}
    above = [(parent, [quota, *siblings])] if parent else []
    _answered(expected, rules.check_guarantee(quota, above, guaranteed.__getitem__))


def _pod_to_quota(given, expected):
    topology = Topology(quota_of(one) for one in given["quotas"])
    pod = given["pod"]
    label = pod.get("labels", {}).get("quota.scheduling.koordinator.sh/name")

    assert expected == {"quota": _quota_of(topology, pod["namespace"], label)}


def _quota_of(topology, namespace, label):
    """The quota of a pod: Koordinator has a default for what nothing else names; the product leaves that ungoverned."""
    if label:
        return label if topology.get(label) else DEFAULT
    return topology.serving(namespace) or DEFAULT


def _sequence(given, expected):
    gates = dict(given.get("gates", {}))
    parents_hold_pods = gates.pop("parents_hold_pods", False)
    world = _World(Gates(**gates), parents_hold_pods=parents_hold_pods)

    assert expected["results"] == [world.apply(dict(step)) for step in given["steps"]]


class _World:
    """What the steps of a sequence leave behind: quotas as they were accepted, pods by quota."""

    def __init__(self, gates, *, parents_hold_pods):
        self.parents_hold_pods = parents_hold_pods
        self.gates, self.topology, self.pods = gates, Topology(), {}

    def apply(self, step):
        refusal = getattr(self, step.pop("op"))(**step)
        return refusal is None

    def create(self, quota):
        wanted = quota_of(quota)
        wanted = rules.with_defaults(wanted, self.topology.get(wanted.parent))
        refusal = review.create(self.topology, wanted, gates=self.gates)
        return refusal or self.topology.put(wanted)

    def update(self, name, change):
        old = self.topology.get(name)
        before = {field: getattr(old, field) for field in old.__struct_fields__} if old else {}
        wanted = quota_of({**before, "name": name, **change})
        refusal = review.update(
            self.topology, wanted, has_pods=self.has_pods(name), gates=self.gates
        )
        return refusal or self.topology.put(wanted)

    def delete(self, name):
        refusal = review.delete(self.topology, name, has_pods=self.has_pods(name))
        return refusal or self.topology.drop(name)

    def has_pods(self, name):
        return name in self.pods.values()

    def bind_pod(self, pod):
        self.pods[pod["name"]] = _quota_of(
            self.topology, pod.get("namespace", ""), pod.get("quota")
        )

    def unbind_pod(self, name):
        del self.pods[name]

    def admit_pod(self, pod):
        quota = _quota_of(self.topology, pod.get("namespace", ""), pod.get("quota"))
        found = self.topology.get(quota)
        spec = QuotaSpec(is_parent=found is not None and found.is_parent)
        refusal = barred(TreeNode(quota, "", ELASTIC, "", spec), pod.get("namespace", ""))
        # A gate of newer releases, off by default there: the product has no such rule.
        if not refusal or self.parents_hold_pods:
            self.pods[pod["name"]] = quota
            return None
        return refusal

    def move_pod(self, name, to):
        return self.admit_pod({"name": name, "quota": to})


WEBHOOK = {
    "self": _self,
    "fill_defaults": _fill_defaults,
    "keys": _keys,
    "tree_id": _tree_id,
    "min_sum": _min_sum,
    "parent_exists": _parent_exists,
    "guarantee_for_min": _guarantee_for_min,
    "pod_to_quota": _pod_to_quota,
    "sequence": _sequence,
}


# --- elasticquota_admission_preempt_revoke ---------------------------------------------------------


def reclaim(case):
    RECLAIM[case["given"]["op"]](case["given"], case["expect"])


def pod_of(given):
    """A pod with a case's fields."""
    keys = ("cpu", "memory", "gpu")
    return Pod(
        name=given.get("name", ""),
        namespace=given.get("namespace", ""),
        quota=given.get("quota", ""),
        priority=given.get("priority", 0),
        started_us=given.get("start_s", 0) * SECOND,
        request=given.get("request", {key: given[key] for key in keys if key in given}),
        labels=given.get("labels") or {},
        preemptible=given.get("preemptible", True)
        and not (given.get("non_preemptible") or given.get("preemption_disabled")),
    )


def _admit(given, expected):
    level = Level(
        max=dict.fromkeys(given["max_keys"] if "max_keys" in given else given["request"], 0),
        used=given["used"],
        limit=given["limit"],
        min=given.get("minimum", {}),
        non_preemptible_used=given.get("np_used", {}),
    )
    non_preemptible = given.get("preemption_disabled", False)
    _answered(
        expected, admission.refusal(given["request"], [level], non_preemptible=non_preemptible)
    )


def _can_preempt(given, expected):
    allowed = can_preempt(
        pod_of(given["pod"]),
        pod_of(given["victim"]),
        default_quota_protected=given.get("default_quota_victims_protected", True),
    )

    assert expected == {"allowed": allowed}


def _eligible_to_preempt(given, expected):
    told = is_eligible(
        Pod("preemptor", quota="own", priority=given.get("pod_priority", 0)),
        policy_never=given.get("preemption_policy") == "Never",
        nominated=given.get("nominated_node") is not None,
        unresolvable=any(
            value and "unresolvable" in f"{name} {value}".lower() for name, value in given.items()
        ),
        terminating=[
            Pod("", quota="own" if one["same_quota"] else "other", priority=one["priority"])
            for one in given.get("terminating_pods") or ()
        ],
    )

    assert expected == {"eligible": told}


def _split(given, expected):
    budgets = [
        Budget(
            namespace=one["namespace"],
            allowed=one["allowed"],
            selector=LabelSelector(
                one["selector"] or {},
                (Requirement("app", "InvalidOp"),) if one.get("invalid_selector") else (),
            ),
            disrupted=frozenset(one.get("already_disrupted", ())),
        )
        for one in given["budgets"]
    ]
    violating, others = split_by_budget([pod_of(one) for one in given["pods"]], budgets)

    assert expected == {
        "violating": [pod.name for pod in violating],
        "non_violating": [pod.name for pod in others],
    }


def _select_victims(given, expected):
    found = select_victims(
        pod_of(given["preemptor"]),
        [pod_of(one) for one in given["pods_on_node"]],
        [],
        used={"cpu": given["quota_used_cpu"]},
        limit={"cpu": given["quota_limit_cpu"]},
        fits=lambda kept: True,
    )

    assert expected == {"status": found.status, "victim_count": len(found.victims)}


def _revoke(given, expected):
    pods = [pod_of(one) for one in given["pods"]]
    told = [pod.name for pod in revoked(given["used"], given["runtime"], pods)]
    if not expected["order_matters"]:
        told.sort()

    assert expected["evict"] == told


def _overuse_monitor(given, expected):
    watch, told = None, []
    for sample in given["samples"]:
        watch, triggers = watched(
            watch,
            at_us=sample["t_s"] * SECOND,
            is_over=sample["state"] == "over",
            delay_us=given["delay_s"] * SECOND,
        )
        told.append(triggers)

    assert expected == {"trigger": told}


RECLAIM = {
    "admit": _admit,
    "can_preempt": _can_preempt,
    "eligible_to_preempt": _eligible_to_preempt,
    "split_by_disruption_budget": _split,
    "select_victims": _select_victims,
    "revoke": _revoke,
    "overuse_monitor": _overuse_monitor,
}

CHECKS = {
    "elasticquota_runtime": runtime,
    "elasticquota_minscale": minscale,
    "elasticquota_tree": tree,
    "elasticquota_webhook": webhook,
    "elasticquota_admission_preempt_revoke": reclaim,
}
