"""Which quota each pod spends, as a small ledger has it: pods that name a quota, and what their segments say."""

from projections.pod_runs import held_segments
from tests import factories as f
from tests.projections.ledger import folded, rows

BIZ = "biz.group.resource.quota"


def pod(uid, named, namespace="ns", **fields):
    labels = {BIZ: named} if named else {}
    return f.pod_observed(uid, namespace=namespace, labels=labels, created=0, scheduled=0, **fields)


def spent(events, **options):
    """(pod, from, until, quota) of every segment."""
    store = folded(f.numbered(events), **options)
    return [
        (r["uid"], r["start_s"] - f.START_S, r["end_s"] and r["end_s"] - f.START_S, r["quota"])
        for r in rows(store, held_segments)
    ]
