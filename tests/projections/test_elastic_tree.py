"""Whole trees: what always holds of the plain function, and that the tree kept up to date says the same."""

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.quota_trees.elastic import (
    DEFAULT,
    ROOT,
    SYSTEM,
    ElasticQuota,
    Mode,
    PodSums,
    largest_remainder,
    refusal,
)
from tests.elastic_plainly import Kept, half_up, refreshed

NAMES = ("a", "b", "c", "d", "e", "f")
KEYS = ("cpu", "gpu")

amounts = st.dictionaries(st.sampled_from(KEYS), st.integers(0, 40))
modes = st.builds(
    Mode,
    scale_min=st.booleans(),
    guarantee=st.booleans(),
    rounding=st.sampled_from((largest_remainder, half_up)),
)


def pod_sums():
    return st.builds(PodSums, amounts, amounts, amounts)


@st.composite
def quotas(draw, names=(*NAMES, DEFAULT, SYSTEM, ROOT), parents=(*NAMES, ROOT, SYSTEM)):
    limit = draw(amounts)
    least = {key: draw(st.integers(0, value)) for key, value in limit.items()}
    return ElasticQuota(
        name=draw(st.sampled_from(names)),
        parent=draw(st.sampled_from(parents)),
        max=limit,
        min=least,
        weight=draw(st.none() | amounts),
        lends=draw(st.booleans()),
    )


steps = st.lists(
    st.one_of(
        st.tuples(st.just("set_quota"), quotas()),
        st.tuples(st.just("remove_quota"), st.sampled_from(NAMES)),
        st.tuples(st.just("set_pods"), st.sampled_from((*NAMES, DEFAULT)), pod_sums()),
        st.tuples(st.just("add_pods"), st.sampled_from((*NAMES, SYSTEM)), pod_sums()),
        st.tuples(st.just("set_cluster"), amounts),
    ),
    max_size=25,
)


class Plain:
    """The same changes, kept as they were said; everything is worked out when it is asked."""

    def __init__(self, mode):
        self.mode, self.quotas, self.cluster, self.pods = mode, {}, {}, {}

    def set_quota(self, quota):
        self.quotas[quota.name] = quota

    def remove_quota(self, name):
        self.quotas.pop(name, None)

    def set_cluster(self, allocatable):
        self.cluster = allocatable

    def set_pods(self, name, sums):
        self.pods[name] = sums

    def add_pods(self, name, change):
        old = self.pods.get(name, PodSums())
        self.pods[name] = PodSums(
            *(
                {key: was.get(key, 0) + more.get(key, 0) for key in {*was, *more}}
                for was, more in zip(
                    msgspec.structs.astuple(old), msgspec.structs.astuple(change), strict=True
                )
            )
        )

    def runtime(self, name):
        found = self.figures().get(name)
        return found.runtime if found else {}

    def figures(self):
        return refreshed(
            self.quotas.values(),
            self.cluster,
            {name: sums.request for name, sums in self.pods.items()},
            {name: sums.used for name, sums in self.pods.items()},
            self.mode,
        )


def all_figures(kept):
    """What the tree says of every quota that hangs on the root, and of the built-in ones."""
    told = {name: kept.figures(name) for name in (*NAMES, DEFAULT, SYSTEM, ROOT)}
    return {name: one for name, one in told.items() if one is not None}


@given(modes, steps)
def test_the_tree_kept_up_to_date_says_after_every_change_what_the_plain_function_says(mode, said):
    kept, scratch = Kept(mode), Plain(mode)
    for method, *given_ in said:
        getattr(kept, method)(*given_)
        getattr(scratch, method)(*given_)

        assert scratch.figures() == all_figures(kept)


@pytest.mark.parametrize("seed", range(8))
def test_after_a_long_life_the_tree_still_says_what_the_plain_function_says(seed):
    """Denser than what hypothesis draws: few names, so that parents move, go and form circles."""
    rng = random.Random(seed)
    mode = Mode(scale_min=bool(seed & 1), guarantee=bool(seed & 2))
    kept, scratch = Kept(mode), Plain(mode)
    for _ in range(400):
        method, *given_ = some_step(rng)
        getattr(kept, method)(*given_)
        getattr(scratch, method)(*given_)
        asked_first = rng.sample((*NAMES, SYSTEM), 2)

        assert [scratch.runtime(name) for name in asked_first] == [
            kept.runtime(name) for name in asked_first
        ]
        assert scratch.figures() == all_figures(kept)


def some_step(rng):
    def some(most):
        return {key: rng.randint(0, most) for key in rng.sample(KEYS, rng.choice((1, 2, 2)))}

    sums = PodSums(some(20), some(20), some(20))
    name = rng.choice((*NAMES, *NAMES, DEFAULT, SYSTEM))
    limit = some(40)
    least = {key: rng.randint(0, value) // rng.choice((1, 4)) for key, value in limit.items()}
    above = rng.choice((ROOT, ROOT, *NAMES, *NAMES, SYSTEM))
    quota = ElasticQuota(name, above, limit, least, rng.choice((None, some(9))), rng.random() < 0.5)
    return rng.choice(
        [("set_quota", quota)] * 3
        + [("set_pods", name, sums), ("add_pods", name, sums)] * 2
        + [("remove_quota", rng.choice(NAMES)), ("set_cluster", some(90))]
    )


@given(modes, steps, st.randoms(use_true_random=False))
def test_what_is_asked_between_changes_changes_nothing(mode, said, rng):
    asked, silent = Kept(mode), Kept(mode)
    for method, *given_ in said:
        getattr(asked, method)(*given_)
        getattr(silent, method)(*given_)
        asked.runtime(rng.choice(NAMES))

    assert [asked.figures(name) for name in NAMES] == [silent.figures(name) for name in NAMES]


@given(modes, steps, st.randoms(use_true_random=False))
def test_quotas_and_pods_may_be_said_in_any_order(mode, said, rng):
    last = {(step[0].partition("_")[2], step[1].name if step[0] == "set_quota" else step[1]): step
            for step in said if step[0] in ("set_quota", "set_pods")}  # fmt: skip
    forward, mixed = Kept(mode), Kept(mode)
    for method, *given_ in last.values():
        getattr(forward, method)(*given_)
    for method, *given_ in rng.sample(list(last.values()), len(last)):
        getattr(mixed, method)(*given_)

    assert [forward.figures(name) for name in NAMES] == [mixed.figures(name) for name in NAMES]


trees = st.lists(quotas(NAMES), unique_by=lambda quota: quota.name)
asked = st.dictionaries(st.sampled_from(NAMES), amounts)


def children(figures, known, parent):
    return [name for name in figures if name in NAMES and known[name].parent == parent]


@given(trees, amounts, asked)
def test_children_never_get_more_than_their_parent_has_once_mins_are_scaled(
    made, cluster, requests
):
    known = {quota.name: quota for quota in made}
    figures = refreshed(made, cluster, requests)

    for parent in (ROOT, *figures):
        total = cluster if parent == ROOT else figures[parent].runtime
        for key in KEYS:
            handed = [figures[n].runtime.get(key, 0) for n in children(figures, known, parent)]
            assert sum(handed) <= total.get(key, 0)


@given(trees, amounts, asked)
def test_no_quota_of_a_tree_gets_more_than_it_asks_below_its_max(made, cluster, requests):
    known = {quota.name: quota for quota in made}

    for name, told in refreshed(made, cluster, requests).items():
        assert all(told.runtime[key] <= told.limited[key] for key in known[name].max)
        assert all(told.limited[key] <= known[name].max[key] for key in known[name].max)


@given(trees, amounts, asked, st.randoms(use_true_random=False))
def test_the_order_of_the_quotas_does_not_matter(made, cluster, requests, rng):
    mixed = rng.sample(made, len(made))

    assert refreshed(made, cluster, requests) == refreshed(mixed, cluster, requests)


def counted():
    """A rounding that notes who it was asked for."""
    calls = []

    def rounding(pool, weights, borrowers):
        calls.append({one.name for one in borrowers})
        return largest_remainder(pool, weights, borrowers)

    return calls, Kept(Mode(rounding=rounding))


def two_branches(kept):
    kept.set_cluster({"cpu": 100})
    for name, parent, limit in [
        ("a", ROOT, 60), ("b", ROOT, 60), ("c", "a", 40), ("d", "a", 40), ("e", "b", 40),
    ]:  # fmt: skip
        kept.set_quota(ElasticQuota(name, parent, {"cpu": limit}))
    for name in "cde":
        kept.set_pods(name, PodSums({"cpu": 50}))
    return [kept.runtime(name)["cpu"] for name in "abcde"]


def test_nothing_is_divided_twice_without_a_change():
    calls, kept = counted()
    first = two_branches(kept)
    calls.clear()

    assert [kept.runtime(name)["cpu"] for name in "abcde"] == first == [60, 40, 30, 30, 40]
    assert calls == []


def test_a_change_divides_again_only_on_the_path_that_is_asked():
    calls, kept = counted()
    two_branches(kept)
    calls.clear()
    kept.add_pods("e", PodSums({"cpu": -30}))

    assert kept.runtime("e") == {"cpu": 20}
    assert calls == [{"a", "b"}, {"a"}, {"e"}]


def test_a_quota_at_its_max_hides_what_its_pods_ask_beyond_it():
    calls, kept = counted()
    two_branches(kept)
    calls.clear()
    kept.add_pods("c", PodSums({"cpu": 7}))

    assert kept.runtime("c") == {"cpu": 30}
    assert calls == []


def test_a_quota_whose_parents_do_not_lead_to_the_root_gets_nothing_and_asks_for_nothing():
    kept = Kept()
    kept.set_cluster({"cpu": 10})
    kept.set_quota(ElasticQuota("a", "b", {"cpu": 5}))
    kept.set_quota(ElasticQuota("b", "a", {"cpu": 5}))
    kept.set_quota(ElasticQuota("c", "nobody", {"cpu": 5}))
    kept.set_quota(ElasticQuota("d", ROOT, {"cpu": 50}))
    for name in "abcd":
        kept.set_pods(name, PodSums({"cpu": 20}))

    assert [kept.runtime(name) for name in "abcd"] == [{}, {}, {}, {"cpu": 10}]
    assert [kept.levels(name) for name in "abc"] == [[], [], []]

    kept.set_quota(ElasticQuota("b", ROOT, {"cpu": 5}))

    assert [kept.runtime(name) for name in "abcd"] == [{"cpu": 1}, {"cpu": 1}, {}, {"cpu": 9}]


def test_what_the_built_in_quotas_use_is_taken_off_the_total():
    kept = Kept()
    kept.set_cluster({"cpu": 10})
    kept.set_quota(ElasticQuota("a", ROOT, {"cpu": 50}))
    kept.set_quota(ElasticQuota(DEFAULT, ROOT, {"cpu": 99}))
    kept.set_pods("a", PodSums({"cpu": 50}))
    kept.add_pods(DEFAULT, PodSums({"cpu": 4}, {"cpu": 4}))
    kept.add_pods(SYSTEM, PodSums({"cpu": 1}, {"cpu": 1}))

    assert kept.runtime("a") == {"cpu": 5}
    assert kept.runtime(DEFAULT) == {"cpu": 99}


def test_the_levels_of_a_quota_say_what_all_below_use():
    kept = Kept()
    kept.set_cluster({"cpu": 100})
    kept.set_quota(ElasticQuota("a", ROOT, {"cpu": 10}, is_parent=True))
    kept.set_quota(ElasticQuota("b", "a", {"cpu": 8}))
    kept.set_quota(ElasticQuota("c", "a", {"cpu": 8}))
    kept.set_pods("b", PodSums({"cpu": 9}, {"cpu": 5}, {"cpu": 1}))
    kept.set_pods("c", PodSums({"cpu": 9}, {"cpu": 5}))
    own, above = kept.levels("b")

    assert (own.used, own.limit, own.non_preemptible_used) == ({"cpu": 5}, {"cpu": 5}, {"cpu": 1})
    assert (above.used, above.limit) == ({"cpu": 10}, {"cpu": 10})
    assert refusal({"cpu": 1}, [own, above]).reason == "insufficient_quota"


def test_the_built_in_quotas_hold_no_quotas():
    kept = Kept()
    kept.set_cluster({"cpu": 10})
    kept.set_quota(ElasticQuota(SYSTEM, "a", {"cpu": 9}))
    kept.set_quota(ElasticQuota("a", SYSTEM, {"cpu": 9}))
    kept.set_pods("a", PodSums({"cpu": 5}))

    assert kept.runtime("a") == {}
    assert kept.figures(SYSTEM).request == {"cpu": 0}
