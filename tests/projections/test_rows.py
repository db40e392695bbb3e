"""Namespaces, nodes and workloads as rows: whose, which GPU, below what. The three rules of a total fold for each."""

import itertools
import json

import pytest
import sqlalchemy as sa

from bus.events.quotas import Budget
from projections import quotas, workloads
from projections.catalogue import MODEL
from projections.engine.tables import parked
from tests import factories as f
from tests.projections.ledger import folded, rows, tables

TABLES = {projection.name: projection.table for projection in MODEL.projections}

SEEN = {
    "namespaces": (f.namespace_observed, f.namespace_vanished),
    "nodes": (f.node_observed, f.node_vanished),
    "workloads": (f.workload_observed, f.workload_vanished),
    "quotas": (f.quota_observed, f.quota_vanished),
}


def row(kind, events):
    """The one row of a table, and how many events were parked."""
    store = folded(f.numbered(events))
    (found,) = rows(store, TABLES[kind])
    return found, len(rows(store, parked))


@pytest.mark.parametrize("kind", SEEN)
def test_a_delete_without_an_observation_is_a_row_and_no_poison(kind):
    found, poison = row(kind, [SEEN[kind][1]()])

    assert (1, 0) == (found["vanished"], poison)


@pytest.mark.parametrize("kind", SEEN)
def test_a_late_observation_of_something_deleted_leaves_it_deleted(kind):
    observed, vanished = SEEN[kind]

    assert 1 == row(kind, [vanished(version=9), observed(version=1)])[0]["vanished"]


@pytest.mark.parametrize("kind", SEEN)
def test_a_namesake_created_again_is_there(kind):
    observed, vanished = SEEN[kind]

    assert (
        0
        == row(kind, [observed(version=1), observed(version=10), vanished(version=9)])[0][
            "vanished"
        ]
    )


@pytest.mark.parametrize("kind", SEEN)
def test_the_same_event_twice_gives_the_same_row_with_the_same_sequence(kind):
    observed, vanished = SEEN[kind]
    history = [observed(version=1), vanished(version=9)]

    assert row(kind, history) == row(kind, history + history)


@pytest.mark.parametrize("kind", SEEN)
def test_order_does_not_matter(kind):
    observed, vanished = SEEN[kind]
    history = [
        observed(version=1, at=5),
        observed(version=3, at=2),
        vanished(version=2),
        observed(version="x"),
    ]
    dumps = [
        tables(f.numbered(order), without=("sequence",))
        for order in itertools.permutations(history[:3])
    ]

    assert dumps[:1] * 6 == dumps


def test_a_namespace_shows_the_newest_names():
    found, _ = row(
        "namespaces",
        [
            f.namespace_observed(version=2, team="b", user="y"),
            f.namespace_observed(version=1, team="a"),
        ],
    )

    assert ("b", "y") == (found["team"], found["user_name"])


def test_a_node_shows_what_it_offers_now():
    found, _ = row(
        "nodes",
        [
            f.node_observed(version=1, model="A", ready=False),
            f.node_observed(version=2, model="B", allocatable={"cpu": "8"}, unschedulable=True),
        ],
    )

    assert ("B", {"cpu": "8"}, 1, 1) == (
        found["model"], json.loads(found["allocatable"]), found["ready"], found["unschedulable"],
    )  # fmt: skip


def test_a_quota_shows_what_it_allows_now_and_why_it_may_not_be_usable():
    said = [
        f.quota_observed(
            version=2, parent="dept", hard={"limits.cpu": 2_000}, cash={"limits.cpu": 7}
        ),
        f.quota_observed(version=1, hard={"limits.cpu": 1_000}),
    ]
    found, _ = row("quotas", said)
    broken, _ = row("quotas", [*said, f.quota_observed(version=3, problem="spec.hard: x")])

    assert ("dept", {"limits.cpu": 2_000}, {"limits.cpu": 7}, "Total", "") == (
        found["parent"], json.loads(found["hard"]), json.loads(found["cash"]), found["period"],
        found["problem"],
    )  # fmt: skip
    assert ("{}", "spec.hard: x") == (broken["hard"], broken["problem"])


def test_a_quota_read_back_is_the_quota_that_was_stored():
    said = f.quota_observed(weight={"cpu": 1}, budget=Budget("Windows", windows=((1, 2),)))
    store = folded(f.numbered([said, f.quota_vanished()]))
    (columns,) = store.select(sa.select(quotas.quotas))
    found = quotas.codec.row(columns)

    assert quotas.codec.columns(found) == tuple(columns)
    assert (found.observed.budget, found.observed.weight, found.gone) == (
        Budget("Windows", windows=((1, 2),)),
        {"cpu": 1},
        ("9", f.us(100)),
    )


# --- owner chains ---------------------------------------------------------------------------------------


def workload_of(events, **options):
    (found,) = tables(f.numbered(events), **options)["pod_runs"]
    return found["workload"]


POD = f.pod_observed(at=1, owner=f.owner("rs"))
RS = f.workload_observed("rs", owner=f.owner("d", "Deployment"))
D = f.workload_observed("d", kind="Deployment", owner=f.owner("app", "Application"))

CHAINS = {
    "a pod without a controller is its own workload": ([f.pod_observed(at=1)], "Pod/p"),
    "a controller that was never seen still names it": ([POD], "ReplicaSet/rs"),
    "the top of the chain, as far as it was seen": ([POD, RS], "Deployment/d"),
    "three links": ([POD, RS, D], "Application/app"),
    "a cycle ends where it closes": (
        [POD, RS, f.workload_observed("d", owner=f.owner("rs"))], "ReplicaSet/rs"),
    "a deleted controller keeps naming its pods": (
        [POD, RS, f.workload_vanished("rs")], "Deployment/d"),
}  # fmt: skip


@pytest.mark.parametrize(("history", "expected"), CHAINS.values(), ids=list(CHAINS))
def test_a_workload_is_the_top_of_the_chain_of_controllers_in_any_order(history, expected):
    orders = [workload_of(order) for order in itertools.permutations(history)]
    alone = [
        workload_of(order, batch=1, restart_every=1, ended_kept=0)
        for order in itertools.permutations(history)
    ]

    assert {expected} == {*orders, *alone}


def test_a_chain_is_followed_eight_links_and_no_further():
    chain = [f.workload_observed(f"w{n}", owner=f.owner(f"w{n + 1}")) for n in range(12)]
    events = [f.pod_observed(at=1, owner=f.owner("w0")), *chain]

    assert 8 == workloads.DEPTH
    assert {"ReplicaSet/w8"} == {workload_of(order) for order in (events, events[::-1])}


def test_a_link_learned_late_restates_the_usage_of_ended_pods():
    end = f.pod_vanished(at=51, deletion=50, owner=f.owner("rs"))
    found = tables(f.numbered([POD, end, RS]))["usage_hours"]

    assert [("Deployment/d", 50, 3)] == [(r["workload"], r["held_s"], r["sequence"]) for r in found]
