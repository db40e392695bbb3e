"""The state of the cluster: a function of the set of facts, found by an index that equals a scan, and undone after trials."""

from itertools import permutations

import pytest

from bus.events import VOCABULARY
from bus.events.observations import ObjectsListed
from bus.events.vocabulary import read
from projections.cluster import ClusterState, objects
from projections.cluster.index import QuotaRef, named_quotas
from projections.cluster.rows import Namespace, Pod
from projections.quota_trees.shape import BUSINESS
from tests import factories as f
from tests.projections.cluster.worlds import World

SEEDS = range(150)


def folded(events):
    state = ClusterState()
    for event in events:
        for one in event if isinstance(event, list) else [event]:
            state.apply(read(one, VOCABULARY), one)
    return state


def known(state):
    """All that a state answers with."""
    index = state.index
    groups = (index.owned, index.on_node, index.in_namespace, index.naming)
    stores = (
        state._pods,
        state._workloads,
        state._nodes,
        state._quotas,
        state._classes,
        state._budgets,
        state._claims,
        state._volumes,
        state._claim_templates,
    )
    return (
        [(dict(store.rows), dict(store.gone)) for store in stores],
        dict(state.namespaces),
        [{key: set(uids) for key, uids in group.items()} for group in groups],
        {
            (*place, name): uid
            for place, found in index.names.items()
            for name, uid in found.items()
        },
    )


def every(state):
    """All rows by uid, but for namespaces."""
    return (
        state.pods | state.workloads | state.nodes | state.quotas | state.priority_classes
        | state.disruption_budgets | state.claims | state.volumes | state.claim_templates
    )  # fmt: skip


def scanned(state):
    """What the index has to say, by looking at every object."""
    owned, on_node, in_namespace, naming = {}, {}, {}, {}
    for row in (*state.pods.values(), *state.workloads.values()):
        in_namespace.setdefault(row.namespace, set()).add(row.uid)
        if row.owner is not None:
            owned.setdefault(row.owner.uid, set()).add(row.uid)
        if isinstance(row, Pod) and row.node:
            on_node.setdefault(row.node, set()).add(row.uid)
        for ref in named_quotas(row.labels):
            naming.setdefault(ref, set()).add(row.uid)
    names = {}
    for row in every(state).values():
        names.setdefault((row.kind, row.namespace, row.name), []).append(row)
    newest = {name: max(rows, key=lambda one: int(one.version)).uid for name, rows in names.items()}
    return [owned, on_node, in_namespace, naming], newest


@pytest.mark.parametrize("seed", SEEDS)
def test_any_order_of_facts_gives_the_same_state(seed):
    world = World(seed)

    assert known(folded(world.shuffled())) == known(folded(world.events))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_index_equals_a_full_scan_after_every_event(seed):
    state = ClusterState()
    for event in World(seed).shuffled():
        state.apply(read(event, VOCABULARY), event)
        _, _, groups, names = known(state)

        assert (groups, names) == scanned(state)


@pytest.mark.parametrize("seed", SEEDS)
def test_changes_say_what_each_event_did(seed):
    state, rows = ClusterState(), {}
    for event in World(seed).shuffled():
        state.apply(read(event, VOCABULARY), event)
        for change in state.changes(event):
            assert rows.pop(change.uid, None) is change.before
            assert (change.after is None) == (change.gone is not None)
            if change.after is not None:
                rows[change.uid] = change.after

    rows = {uid: row for uid, row in rows.items() if not isinstance(row, Namespace)}
    assert rows == every(state)


def test_a_deletion_is_certain_whatever_is_seen_later():
    state = folded([f.pod_vanished("p", 2, at=10), f.pod_observed("p", 3, at=20)])

    assert not state.pods
    assert state.gone("p").listed_us == 0


def test_a_list_may_be_wrong_so_what_is_seen_after_it_exists():
    facts = [f.pod_observed("p", 1, at=0), f.pods_listed([], 5, at=10)]

    assert not folded(facts).pods
    assert set(folded([*facts, f.pod_observed("p", 1, at=20)]).pods) == {"p"}
    assert set(folded([*facts, f.pods_listed(["p"], 6, at=20)]).pods) == {"p"}


def test_a_list_says_nothing_of_a_version_behind_it():
    """A list that a cache answered may be older than what the watch showed before it was asked for."""
    facts = [f.pod_observed("p", 7, at=0), f.pods_listed([], 5, at=10)]

    assert set(folded(facts).pods) == {"p"}


def test_a_late_observation_does_not_bring_back_what_a_list_is_without():
    state = folded([f.pods_listed([], 5, at=10), f.pod_observed("p", 1, at=0)])

    assert not state.pods


def test_a_list_of_another_kind_or_range_ends_nothing():
    body = ObjectsListed(kind="Job", resource_version="5", uids=())
    jobs = f.said(body, key="k", id="i", at=10)
    ranged = f.pods_listed(["a", "b", "x", "y"], 5, at=10, per_part=2)[0]
    state = folded([f.workload_observed("w", 1), f.pod_observed("p", 1), jobs, ranged])

    assert set(state.workloads) == {"w"}
    # The first part speaks of what comes before "x".
    assert not state.pods


def test_an_older_namesake_gives_the_name_back():
    older, newer = f.pod_observed("p1", 1, name="p"), f.pod_observed("p2", 5, name="p")
    state = folded([newer, older])

    assert state.named("Pod", "ns", "p") == "p2"
    assert folded([older, newer, f.pod_vanished("p2", 6, name="p")]).named("Pod", "ns", "p") == "p1"


def test_a_chain_is_followed_to_its_end_and_no_circle_for_ever():
    pod = f.pod_observed("p", owner=f.owner("set"))
    facts = [pod, f.workload_observed("set", owner=f.owner("top", "Deployment"))]

    assert folded(facts).top(f.owner("set")) is None
    state = folded([*facts, f.workload_observed("top", kind="Deployment")])
    assert [one.uid for one in state.chain(f.owner("set"))] == ["set", "top"]
    circle = folded([f.workload_observed("set", owner=f.owner("set"))])
    assert circle.chain(f.owner("set")) is None


def test_what_names_a_quota_is_found_by_it():
    labels = {"biz.group.resource.quota": "q"}
    state = folded([f.pod_observed("p", 1, labels=labels), f.pod_observed("other", 1)])

    assert state.index.naming[QuotaRef(BUSINESS, "q")] == {"p"}
    assert (
        folded([f.pod_observed("p", 1, labels=labels), f.pod_observed("p", 2)]).index.naming[
            QuotaRef(BUSINESS, "q")
        ]
        == set()
    )


def test_of_very_many_deleted_objects_the_oldest_are_forgotten(monkeypatch):
    monkeypatch.setattr(objects, "GONE_KEPT", 3)
    seen = [f.pod_observed(f"p{n}", 1) for n in range(9)]
    state = folded(
        [*seen, *(f.pod_vanished(f"p{n}", 2) for n in range(5)), f.pods_listed([], 5, at=200)]
    )

    assert not state.pods
    assert [uid for uid in ("p4", "p5", "p6", "p7", "p8") if state.gone(uid)] == ["p6", "p7", "p8"]


def test_what_is_gone_says_whose_it_was_whenever_that_was_observed():
    """Pods land below owners that are gone, and are somebody's."""
    labels = {"biz.group.resource.quota": "q", "app": "web"}
    by = f.owner("top", "Deployment")
    facts = [
        f.workload_observed("set", 1),
        f.workload_observed("set", 3, 3, owner=by, labels=labels),
        f.workload_vanished("set", 4, 4),
    ]
    for order in permutations([*facts, f.workload_observed("set", 2, 2)]):
        gone = folded(order).gone("set")

        assert (gone.version, gone.owner, gone.at_us) == ("3", by, f.us(4))
        assert gone.labels == {"biz.group.resource.quota": "q"}
    state = folded(reversed(facts[1:]))
    [change] = state.changes(facts[1])
    assert (change.before, change.after, change.gone) == (None, None, state.gone("set"))
    assert not folded([facts[2]]).gone("set").was_seen
