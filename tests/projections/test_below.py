"""Controllers that are observed late: their pods are found, and the stored rows are not asked for each of them."""

from contextlib import contextmanager

from projections.catalogue import MODEL
from projections.engine.folder import Folder
from projections.pod_runs import below
from projections.pod_runs.shape import pod_runs
from tests.factories import numbered, owner, pod_observed, workload_observed
from tests.projections.ledger import folded, rows, tables

PODS = [
    pod_observed(f"p{n}", n + 1, n, owner=owner(f"rs{n}"), scheduled=n, node="n") for n in range(9)
]
#: Each ReplicaSet comes after its pod, and each Deployment after its ReplicaSet.
SETS = [
    workload_observed(f"rs{n}", 20 + n, 20 + n, kind="ReplicaSet", owner=owner(f"d{n}", "Deployment"))
    for n in range(9)
]  # fmt: skip
DEPLOYMENTS = [workload_observed(f"d{n}", 40 + n, 40 + n, kind="Deployment") for n in range(9)]


@contextmanager
def counted(store):
    """The queries that are asked of a store."""
    queries, select = [], store.select
    store.select = lambda *query: queries.append(query) or select(*query)
    try:
        yield queries
    finally:
        del store.select


def tops(store):
    return [row["workload"] for row in rows(store, pod_runs)]


def test_controllers_of_one_batch_ask_the_stored_rows_once():
    events = numbered([*PODS, *SETS, *DEPLOYMENTS])
    store = folded(events[:9])
    folder = Folder(MODEL, store)
    folder.open()
    with counted(store) as queries:
        folder.apply(events[9:])

    # One for the workloads below any of them, one for the pods.
    assert 2 == len(queries)


def test_late_controllers_are_found_in_any_batches(monkeypatch):
    events = numbered([*PODS, *SETS, *DEPLOYMENTS])
    whole = tables(events)

    monkeypatch.setattr(below, "MOST", 2)
    assert all(whole == tables(events, batch=batch, restart_every=1) for batch in (1, 4, 10, 27))
    assert [f"Deployment/d{n}" for n in range(9)] == tops(folded(events, batch=10))
