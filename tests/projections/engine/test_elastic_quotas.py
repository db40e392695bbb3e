"""What an ElasticQuota governs by its namespace alone stands under it in reports and views, on both databases."""

from projections.books import Books
from projections.catalogue import VERSION
from projections.reports import Question, report
from tests import factories as f
from tests.projections.elastic import elastic, gone, pod

HISTORY = [
    pod("runs", cpu="1", at=0),
    pod("never", node=None, phase="Pending", scheduled=None, created=50, at=50),
    pod("before", "other", cpu="2", phase="Succeeded", finished=(60,), at=60),
    elastic("team", at=70, created=20),
    elastic("others", "other", at=80, created=None),
    gone("team", at=100),
]


def kept(store, events):
    """The history in the ledger, each event by books that know only what is stored."""
    checkpoint = store.checkpoint(VERSION)
    for event in f.numbered(events):
        books = Books(store, ended_kept=0)
        books.open()
        checkpoint = store.commit([event], books.fold([event]), checkpoint)


def by_quota(store):
    question = Question(by=("quota",), as_of_s=f.START_S + 200)
    with store.engine.connect() as connection:
        return {
            r.key[0]: (r.sums.cpu_milli_s, r.sums.waiting_s) for r in report(connection, question)
        }


def test_a_report_by_quota_names_the_elastic_quota_of_a_namespace(store):
    kept(store, [*HISTORY, f.pods_listed(["runs", "never"], at=120)])

    found = by_quota(store)

    # From 20 to 100; what was never bound waits for the quota of its creation.
    assert found["team"] == (80 * 1000, 150)
    assert found["others"] == (60 * 2000, 0)
    assert found[None] == ((20 + 100) * 1000, 0)
    with store.engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT DISTINCT quota FROM v1_held_segments").fetchall()
    assert {row[0] for row in rows} == {"", "team", "others"}
