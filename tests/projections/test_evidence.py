"""Up to when is it known what is open? Observations of a cluster say so, and nothing else does.

What a command, a tick, a decision or a credit says is said at some time, too; it shows no pod.
"""

import itertools

import pytest
import sqlalchemy as sa

from bus.envelope import Event
from bus.events import VOCABULARY
from bus.events.budgets import BudgetCredited
from bus.events.clock import ClockTicked
from bus.events.histories import HistoryRecovered
from bus.events.notebooks import NotebookSampled
from bus.events.observations import ObservationRefused, SourceHeard
from bus.events.policies import PauseChanged
from projections import evidence, reports
from projections.accounts import accounts
from projections.evidence import MOVING, moments_s
from projections.pod_runs import pod_runs
from tests import factories as f
from tests.projections.ledger import folded, tables

HOUR = 3600


def heard(at, version="", *, cluster=f.CLUSTER, resource="pods"):
    """The source is still being told."""
    body = SourceHeard(resource=resource, resource_version=version)
    return f.said(body, key=resource, id=f"source.heard/{resource}/{at}", at=at, cluster=cluster)


def moment(events):
    """Seconds after the start up to which each cluster is known."""
    found = moments_s(folded(f.numbered(events)).select)
    return {cluster: second - f.START_S for cluster, second in found.items()}


SEEN = [f.pod_observed("p", 1, 10), *f.pods_listed(["p"], 2, 60)]
UNSEEN = sorted(
    name for name, fact in VOCABULARY.items() if fact not in MOVING and fact is not NotebookSampled
)


@pytest.mark.parametrize("wire_type", UNSEEN)
def test_whatever_is_no_observation_moves_no_moment(wire_type):
    """Also one that cannot be read and is parked."""
    said = Event(f.CLUSTER, wire_type, "k", f"{wire_type}/1", "test", f.us(3 * HOUR), b"{}")

    assert moment([*SEEN, said]) == {"c": 60}


COMMANDS = [
    (PauseChanged(is_paused=True, author="ann"), "pause"),
    (PauseChanged(is_paused=False, author="ann"), "resume"),
    (ClockTicked(), "a tick"),
    (HistoryRecovered(incarnation=1, published=0, taken=0, altered=0), "recover"),
    (
        BudgetCredited(
            ref="r", quota="q", key="limits.cpu", amount=1, reason="r", author="a", since_us=1
        ),
        "a credit",
    ),
]


@pytest.mark.parametrize("said", [c[0] for c in COMMANDS], ids=[c[1] for c in COMMANDS])
def test_a_command_charges_nobody_for_the_time_in_which_nobody_watched(said):
    """On a recording of one day `pause` made 8,390 core-hours of 2,950, with no unknown time."""
    event = f.said(said, key="k", id="said/1", at=10 * HOUR)

    assert tables(f.numbered(SEEN)).items() <= {
        **tables(f.numbered([*SEEN, event])), "budget_entries": tables(f.numbered(SEEN))["budget_entries"],
    }.items()  # fmt: skip
    assert usage([*SEEN, event]) == usage(SEEN) == [("p", 60)]


def usage(events):
    """(pod, seconds charged) by the views' own moment."""
    store = folded(f.numbered(events))
    known = moments_s(store.select)
    found = accounts(store.select, as_of_s=max(known.values()), moments=known)
    return [(a.uid, sum(h.end_s - h.start_s for h in a.holdings)) for a in found]


def test_what_nobody_watched_is_unknown_and_said_beside_what_is_charged():
    waits = f.pod_observed("w", 3, 20, created=20, node=None)
    store = folded(f.numbered([*SEEN, waits]))
    known = moments_s(store.select)
    as_of_s = f.START_S + 1000
    found = {
        a.uid: (a.waiting_s, sum(h.end_s - h.start_s for h in a.holdings), a.unknown_s, a.is_open)
        for a in accounts(store.select, as_of_s=as_of_s, moments=known)
    }
    with store.engine.connect() as connection:
        (row,) = reports.report(connection, reports.Question(as_of_s=as_of_s, moments=known))
        (amounts,) = reports.sums(connection, reports.Question(as_of_s=as_of_s, moments=known))

    assert found == {"p": (0, 60, 940, True), "w": (40, 0, 940, True)}
    assert (row.sums.waiting_s, row.sums.held_s, row.sums.unknown_s) == (40, 60, 1880)
    assert amounts.sums.held_s == 60


def test_each_cluster_is_valued_up_to_its_own_last_observation():
    other = f.pod_observed("o", 1, 500, cluster="d")
    store = folded(f.numbered([*SEEN, other]))
    known = moments_s(store.select)
    found = accounts(store.select, as_of_s=max(known.values()), moments=known)

    assert {a.uid: (a.holdings[-1].end_s - f.START_S, a.unknown_s) for a in found} == {
        "p": (60, 440), "o": (500, 0),
    }  # fmt: skip


@pytest.mark.parametrize(
    "event",
    [
        heard(300), heard(300, resource="nodes"), f.node_observed(at=300), f.pods_listed([], at=300)[0],
        f.namespace_observed(at=300), f.workload_observed(at=300), f.quota_observed(at=300),
    ],
    ids=lambda event: f"{event.type}-{event.key}",
)  # fmt: skip
def test_what_a_source_saw_moves_the_moment(event):
    assert moment([*SEEN, event]) == moment([event, *SEEN]) == {"c": 300}


def test_a_look_at_a_notebook_shows_no_other_pod():
    sampled = f.said(NotebookSampled(uid="p"), key="p", id="p/1/sampled", at=300)
    refused = f.said(
        ObservationRefused(resource="pods", reason="r", digest="d", size_bytes=1),
        key="d", id="observation.refused/pods/d", at=300,
    )  # fmt: skip

    assert moment([*SEEN, sampled, refused]) == {"c": 60}


UNSEEN_END = {
    "charged to the last proof before the list that missed it": (
        [f.pod_observed("p", 1, 10), heard(100), heard(160), *f.pods_listed([], 9, 500)], 160, 340),
    "one of another kind proves no pod": (
        [f.pod_observed("p", 1, 10), heard(160, resource="nodes"), *f.pods_listed([], 9, 500)], 10, 490),
    "one of another cluster proves nothing": (
        [f.pod_observed("p", 1, 10), heard(160, cluster="d"), *f.pods_listed([], 9, 500)], 10, 490),
    "what was said after the list that missed it proves nothing": (
        [f.pod_observed("p", 1, 10), *f.pods_listed([], 9, 500), heard(600)], 10, 490),
    "a list that had it goes on": (
        [f.pod_observed("p", 1, 10), heard(50), *f.pods_listed(["p"], 5, 80), *f.pods_listed([], 9, 500)],
        80, 420),
}  # fmt: skip


@pytest.mark.parametrize(("history", "end", "unknown"), UNSEEN_END.values(), ids=list(UNSEEN_END))
def test_a_quiet_pod_is_charged_to_the_last_proof_in_any_order(history, end, unknown):
    for order in itertools.permutations(history):
        for memory in ({}, {"ended_kept": 0, "parts_kept": 1}):
            store = folded(f.numbered(order), batch=1, restart_every=2, **memory)
            query = sa.select(pod_runs.c.end_s, pod_runs.c.unknown_s, pod_runs.c.flags)

            assert store.select(query) == [(f.START_S + end, unknown, '["vanished"]')]


def test_thousands_of_words_of_a_source_leave_the_last_proof_exact():
    """More than stay in memory, also after a restart, and late ones."""
    beats = [heard(10 * n) for n in range(1, 400)]
    late = [f.pod_observed("p", 1, 5), *f.pods_listed([], 9, 1_005)]

    for events in ([*beats, *late], [*late, *beats], [*beats[200:], *late, *beats[:200]]):
        store = folded(f.numbered(events), batch=7, restart_every=5)

        assert store.select(sa.select(pod_runs.c.end_s)) == [(f.START_S + 1_000,)]


def test_evidence_names_each_kind():
    store = folded(f.numbered([*SEEN, f.node_observed(at=5), heard(70)]))
    found = store.select(sa.select(evidence.evidence.c.kind, evidence.evidence.c.observed_us))

    assert dict(found) == {"pods": f.us(70), "nodes": f.us(5)}
