"""What is asked of a quota object and of a pod, where the case files say nothing of it."""

import pytest

from projections.quota_trees.elastic import (
    DEFAULT,
    ROOT,
    SYSTEM,
    ElasticQuota,
    Refusal,
    Topology,
    review,
)
from projections.quota_trees.elastic.review import Gates

CPU = {"cpu": 10}


def parent(name="a", above=ROOT, **fields):
    return ElasticQuota(name, above, {"cpu": 100}, {"cpu": 50}, is_parent=True, **fields)


def leaf(name="b", above="a", least=10, **fields):
    return ElasticQuota(name, above, {"cpu": 100}, {"cpu": least}, **fields)


@pytest.mark.parametrize(
    ("quota", "reason"),
    [
        (leaf("b"), "quota_exists"),
        (leaf("d", "nobody"), "parent_not_found"),
        (leaf("d", "b"), "parent_is_not_a_parent_quota"),
        (leaf("d", least=31), "siblings_over_parent"),
        (leaf("d", tree_id="t"), "tree_id_not_of_parent"),
        (leaf("d", namespaces=("free", "team")), "namespace_bound"),
        (leaf("d", weight={"cpu": -1}), "weight_negative"),
    ],
)
def test_a_quota_is_not_created(quota, reason):
    made = Topology([parent(), leaf("b"), leaf("c", namespaces=("team",))])

    assert review.create(made, quota).reason == reason


def test_a_quota_that_breaks_no_rule_is_created():
    made = Topology([parent(), leaf("b", least=40)])

    assert review.create(made, leaf("c", least=10, namespaces=("team",))) is None


@pytest.mark.parametrize(
    ("quota", "reason"),
    [
        (parent("a", "b"), "parent_is_below"),
        (parent("a", "a"), "parent_is_below"),
        (parent("a", tree_id="t"), "tree_id_changed"),
        (leaf("a", ROOT, 50), "has_children"),
        (leaf("nobody"), "quota_not_found"),
        (leaf(SYSTEM), "built_in_quota"),
        (ElasticQuota("a", ROOT, {"cpu": 100}, {"cpu": 9}, is_parent=True), "children_over_self"),
    ],
)
def test_a_quota_is_not_changed(quota, reason):
    made = Topology([parent(), parent("b", "a"), leaf("c", "b")])

    assert review.update(made, quota, has_pods=False).reason == reason


def test_a_quota_with_pods_does_not_become_a_parent():
    made = Topology([parent(), leaf()])

    assert review.update(made, parent("b", "a"), has_pods=True) == Refusal("has_pods")
    assert review.update(made, parent("b", "a"), has_pods=False) is None


def test_the_namespaces_of_a_quota_are_no_obstacle_to_its_own_change():
    made = Topology([parent(), leaf(namespaces=("team",))])

    assert review.update(made, leaf(least=11, namespaces=("team",)), has_pods=True) is None


@pytest.mark.parametrize("name", [ROOT, SYSTEM, DEFAULT])
def test_built_in_quotas_are_not_deleted(name):
    made = Topology([ElasticQuota(name)])

    assert review.delete(made, name, has_pods=False) == Refusal("built_in_quota")


def test_a_forced_change_and_the_top_of_a_tree_need_not_fit_into_their_parent():
    made = Topology([parent(), leaf()])

    assert review.create(made, leaf("c", least=99)) == Refusal("siblings_over_parent", ("cpu",))
    assert review.create(made, leaf("c", least=99, force_update=True)) is None
    assert review.create(made, leaf("c", least=99, tree_root=True)) is None


def test_a_min_must_be_guaranteed_by_somebody_above_where_the_gate_is_on():
    made = Topology(
        [
            ElasticQuota("top", ROOT, CPU, CPU, is_parent=True, tree_id="t", tree_root=True),
            ElasticQuota("mid", "top", CPU, {"cpu": 6}, is_parent=True, tree_id="t"),
            ElasticQuota("low", "mid", CPU, {"cpu": 2}, tree_id="t"),
        ]
    )
    guaranteed = {"top": {"cpu": 6}, "mid": {"cpu": 6}, "low": {"cpu": 2}}
    gates = Gates(guaranteed=lambda name: guaranteed.get(name, {}))

    def create(least):
        quota = ElasticQuota("new", "mid", CPU, {"cpu": least}, tree_id="t")
        return review.create(made, quota, gates=gates)

    assert create(4) is None
    guaranteed["mid"] = guaranteed["top"] = {"cpu": 5}
    assert create(4) == Refusal("min_not_guaranteed")
    assert create(1) == Refusal("min_not_guaranteed"), "the parent's own min is not covered either"
    guaranteed["top"] = {"cpu": 10}
    assert create(4) is None


@pytest.mark.parametrize(
    ("namespace", "quota"),
    [
        ("team", "team"),
        ("listed", "c"),
        ("elsewhere", None),
        ("b", None),
        ("alone", "e"),
        ("several", None),
    ],
    ids=[
        "the quota that is called like its namespace",
        "the quota that lists the namespace",
        "else none",
        "a quota called like the namespace in another one does not count",
        "the only one that holds pods and lies in it",
        "of several none",
    ],
)
def test_the_quota_that_serves_a_namespace(namespace, quota):
    made = Topology(
        [
            ElasticQuota("b", namespace="team"),
            ElasticQuota("team", namespace="team", namespaces=("elsewhere-too",)),
            ElasticQuota("c", namespaces=("listed", "team")),
            ElasticQuota("d", namespaces=("listed",)),
            ElasticQuota("e", namespace="alone"),
            ElasticQuota("top", namespace="alone", is_parent=True),
            ElasticQuota("f", namespace="several"),
            ElasticQuota("g", namespace="several"),
        ]
    )

    assert made.serving(namespace) == quota


def test_a_dropped_quota_leaves_its_namespaces_and_its_parent():
    made = Topology([parent(), leaf(namespaces=("team",))])
    made.drop("b")

    assert (made.serving("team"), made.children("a"), made.get("b")) == (None, [], None)
