"""Which quota pods spend, where labels and the namespaces of quotas disagree; over time, in any order, and in old histories."""

import itertools

import pytest

from bus.events.quotas import Serves
from tests import factories as f
from tests.projections.ledger import tables
from tests.projections.spending import BIZ, pod, spent


def quota(name, *namespaces, version=1, at=0, **fields):
    return f.quota_observed(name, version, at, hard={}, serves=Serves(namespaces), **fields)


def mapped(namespace="ns", to="mine"):
    return f.namespace_observed(namespace, labels={BIZ: to})


def test_a_mapped_namespace_spends_its_own_quota_whatever_a_label_says():
    events = [mapped(), quota("mine"), quota("other"), pod("p", "other"), f.node_observed(at=9)]

    assert spent(events) == [("p", 0, None, "mine")]


def test_a_quota_that_names_the_namespace_or_stands_below_is_spent():
    events = [
        mapped(), quota("mine"), quota("guest", "ns"), quota("child", parent="mine"),
        pod("p", "guest"), pod("c", "child"),
    ]  # fmt: skip

    assert spent(events) == [("c", 0, None, "child"), ("p", 0, None, "guest")]


def test_a_namespace_that_is_mapped_to_a_quota_that_is_not_there_spends_no_others():
    events = [mapped(to="typo"), quota("vault", "safe"), pod("p", "vault"), f.node_observed(at=9)]

    assert spent(events) == [("p", 0, None, "")]


def test_a_quota_that_names_other_namespaces_is_spent_by_nobody_else():
    events = [
        quota("vault", "safe"),
        quota("below", parent="vault"),
        pod("p", "vault"),
        pod("b", "below"),
    ]

    assert spent(events) == [("b", 0, None, ""), ("p", 0, None, "")]


def test_a_change_of_the_namespaces_cuts_and_touches_nothing_before():
    events = [
        quota("vault"), pod("p", "vault"), quota("vault", "safe", version=2, at=100),
        quota("vault", "safe", "ns", version=3, at=200), f.node_observed(at=300),
    ]  # fmt: skip

    assert spent(events) == [
        ("p", 0, 100, "vault"), ("p", 100, 200, ""), ("p", 200, None, "vault"),
    ]  # fmt: skip


def test_old_histories_are_attributed_as_they_were():
    """Their quotas do not say what they serve: the label of the workload decides, though its namespace is mapped."""
    old = f.quota_observed("mine", 1, hard={}, namespaces=("elsewhere",))
    events = [mapped(), old, f.quota_observed("other", 1, hard={}), pod("p", "other")]

    assert spent(events) == [("p", 0, None, "other")]


WORLD = [
    mapped(), quota("mine", at=3), quota("mine", "a", version=2, at=50), quota("guest", "ns", at=5),
    quota("guest", version=2, at=60), pod("p", "guest"), pod("q", "mine", at=40),
    f.pod_vanished("q", 7, 80, namespace="ns", labels={BIZ: "mine"}, deletion=80, created=0, scheduled=0),
]  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_the_order_of_facts_and_the_size_of_batches_change_nothing(seed):
    orders = list(itertools.islice(itertools.permutations(WORLD), seed * 3301, seed * 3301 + 3))
    want = tables(f.numbered(WORLD), without=("sequence",))

    for events in orders:
        assert want == tables(f.numbered(events), without=("sequence",))
        options = {"batch": 1 + seed % 3, "restart_every": 1, "ended_kept": 0}
        assert want == tables(f.numbered(events), without=("sequence",), **options)
