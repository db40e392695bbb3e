"""What an ElasticQuota governs by its namespace alone stands under it in reports and views, on both databases."""

from projections.catalogue import MODEL
from projections.engine.folder import Folder
from projections.reports import Question, report
from tests import factories as f
from tests.projections.elastic import elastic, gone, pod
from tests.projections.ledger import remembering

HISTORY = [
    pod("runs", cpu="1", at=0),
    pod("never", node=None, phase="Pending", scheduled=None, created=50, at=50),
    pod("before", "other", cpu="2", phase="Succeeded", finished=(60,), at=60),
    elastic("team", at=70, created=20),
    elastic("others", "other", at=80, created=None),
    gone("team", at=100),
]


def kept(store, events):
    """The history in the ledger, each event by a folder that knows only what is stored."""
    checkpoint = store.checkpoint(MODEL.version)
    for event in f.numbered(events):
        folder = Folder(remembering(ended_kept=0), store)
        folder.open()
        checkpoint = store.commit([event], folder.fold([event]), checkpoint)


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
