"""What is asked of a quota object and of a pod, where the case files say nothing of it."""

import pytest

from projections.elastic import (
    DEFAULT,
    ROOT,
    SYSTEM,
    Gates,
    Level,
    Quota,
    Refusal,
    Topology,
    refusal,
    review,
    rules,
    shared_weight,
)
from projections.elastic.profile import fnv1a_64, tree_id, tree_root, tree_total

CPU = {"cpu": 10}


def parent(name="a", above=ROOT, **fields):
    return Quota(name, above, {"cpu": 100}, {"cpu": 50}, is_parent=True, **fields)


def leaf(name="b", above="a", least=10, **fields):
    return Quota(name, above, {"cpu": 100}, {"cpu": least}, **fields)


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
        (Quota("a", ROOT, {"cpu": 100}, {"cpu": 9}, is_parent=True), "children_over_self"),
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
    made = Topology([Quota(name)])

    assert review.delete(made, name, has_pods=False) == Refusal("built_in_quota")


def test_a_forced_change_and_the_top_of_a_tree_need_not_fit_into_their_parent():
    made = Topology([parent(), leaf()])

    assert review.create(made, leaf("c", least=99)) == Refusal("siblings_over_parent", ("cpu",))
    assert review.create(made, leaf("c", least=99, force_update=True)) is None
    assert review.create(made, leaf("c", least=99, tree_root=True)) is None


def test_a_min_must_be_guaranteed_by_somebody_above_where_the_gate_is_on():
    made = Topology(
        [
            Quota("top", ROOT, CPU, CPU, is_parent=True, tree_id="t", tree_root=True),
            Quota("mid", "top", CPU, {"cpu": 6}, is_parent=True, tree_id="t"),
            Quota("low", "mid", CPU, {"cpu": 2}, tree_id="t"),
        ]
    )
    guaranteed = {"top": {"cpu": 6}, "mid": {"cpu": 6}, "low": {"cpu": 2}}
    gates = Gates(guaranteed=lambda name: guaranteed.get(name, {}))

    def create(least):
        quota = Quota("new", "mid", CPU, {"cpu": least}, tree_id="t")
        return review.create(made, quota, gates=gates)

    assert create(4) is None
    guaranteed["mid"] = guaranteed["top"] = {"cpu": 5}
    assert create(4) == Refusal("min_not_guaranteed")
    assert create(1) == Refusal("min_not_guaranteed"), "the parent's own min is not covered either"
    guaranteed["top"] = {"cpu": 10}
    assert create(4) is None


def test_pods_may_use_a_parent_quota_only_where_the_gate_is_on():
    made = Topology([parent(), leaf()])

    assert review.pod(made, "a") == Refusal("quota_is_parent")
    assert review.pod(made, "a", gates=Gates(parents_hold_pods=True)) is None
    assert review.pod(made, "b") is None


@pytest.mark.parametrize(
    ("namespace", "label", "quota"),
    [
        ("team", "b", "b"),
        ("team", "nobody", DEFAULT),
        ("team", None, "team"),
        ("listed", None, "c"),
        ("listed", "", "c"),
        ("elsewhere", None, DEFAULT),
        ("b", None, DEFAULT),
    ],
    ids=[
        "the label says it",
        "a label that names no quota: the default",
        "the quota that is called like its namespace",
        "the quota that lists the namespace",
        "an empty label is none",
        "else the default",
        "a quota called like the namespace in another one does not count",
    ],
)
def test_the_quota_of_a_pod(namespace, label, quota):
    made = Topology(
        [
            Quota("b", namespace="team"),
            Quota("team", namespace="team", namespaces=("elsewhere-too",)),
            Quota("c", namespaces=("listed", "team")),
            Quota("d", namespaces=("listed",)),
        ]
    )

    assert made.of_pod(namespace, label) == quota


def test_a_dropped_quota_leaves_its_namespaces_and_its_parent():
    made = Topology([parent(), leaf(namespaces=("team",))])
    made.drop("b")

    assert (made.of_pod("team", None), made.children("a"), made.get("b")) == (DEFAULT, [], None)


def test_a_min_whose_key_the_parents_min_lacks_is_refused():
    quota = Quota("b", "a", {"cpu": 1, "gpu": 1}, {"gpu": 1})
    above = Quota("a", ROOT, {"cpu": 1, "gpu": 1}, {"cpu": 1}, is_parent=True)

    assert rules.check_keys(quota, above, []) == Refusal("min_keys", ("gpu",))
    assert rules.check_min_sum(quota, above, [], []) == Refusal("siblings_over_parent", ("gpu",))


@pytest.mark.parametrize(
    ("weight", "shared"),
    [(None, CPU), ({"cpu": 0}, CPU), ({}, CPU), ({"cpu": 3}, {"cpu": 3})],
)
def test_a_weight_that_is_missing_or_zero_is_max(weight, shared):
    assert shared_weight(Quota("a", max=CPU, weight=weight)) == shared


def test_parents_are_asked_only_when_they_are_given():
    own = Level(max=CPU, used={"cpu": 1}, limit={"cpu": 5})
    above = Level(max={}, used={"cpu": 9}, limit=CPU)

    assert refusal({"cpu": 2}, [own]) is None
    assert refusal({"cpu": 2}, [own, above]) == Refusal("insufficient_parent_quota", ("cpu",))


def test_what_a_pod_does_not_ask_may_be_over_its_limit():
    own = Level(max={"cpu": 1, "gpu": 1}, used={"gpu": 9}, limit={"cpu": 5, "gpu": 1})

    assert refusal({"cpu": 2}, [own]) is None


def test_a_request_is_cut_to_the_keys_of_the_quotas_max():
    own = Level(max={"cpu": 1}, used={}, limit={"cpu": 5, "gpu": 1})

    assert refusal({"cpu": 2, "gpu": 2}, [own]) is None


def test_the_tree_of_a_profile_takes_its_part_of_the_nodes():
    total = tree_total({"cpu": 10_001, "gpu": 7}, 0.5)
    top = tree_root("gpu-pool", "t", total, ("cpu", "gpu"))

    assert total == {"cpu": 5000, "gpu": 3}
    assert tree_total(total, 1.5) == tree_total(total, 0) == total
    assert (top.min, top.tree_root, top.parent) == (total, True, ROOT)
    assert rules.check_self(top, {}) is None


def test_the_id_of_a_profiles_tree_is_the_hash_of_its_name():
    """The value of "hello" is the published one of FNV-1a."""
    assert fnv1a_64(b"hello") == 0xA430D84680AABD0B
    assert tree_id("ns", "name") == str(fnv1a_64(b"ns/name"))
