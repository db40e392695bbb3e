"""The rows that the benchmark of reports makes in bulk are those of a ledger that was told of every pod."""

from migrations.schema import upgrade
from projections.catalogue import MODEL
from projections.engine.store import Store, engine
from projections.pod_runs import held_segments, pod_runs
from tests import factories as said
from tests.benchmarks import reports
from tests.projections.ledger import folded, rows

PODS, SPANS = 120, 3


def test_rows_made_in_bulk_are_those_of_the_whole_ledger():
    sums = [table for part in MODEL.sums if part.of == "pod_runs" for table, _ in part.tables]
    # What was observed stays as it was in a copy.
    unequal = ("sequence", "state")
    events = [
        event for span in range(SPANS) for n in range(PODS) for event in reports.life(n, PODS, span)
    ]
    events.sort(key=lambda event: event.time_us)
    store = folded(said.numbered([*reports.surroundings(), *events]))
    expected = {t.name: rows(store, t, without=unequal) for t in (pod_runs, held_segments, *sums)}

    made = Store(engine("sqlite://"))
    upgrade(made.engine)
    reports.fill(made, PODS, SPANS)
    assert expected == {
        t.name: rows(made, t, without=unequal) for t in (pod_runs, held_segments, *sums)
    }
    made.close()
