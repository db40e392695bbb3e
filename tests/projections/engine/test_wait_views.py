"""The views of queues, on both databases."""

from tests.projections.engine.archives import fill, sequenced
from tests.projections.waiting import lived


async def test_the_views_tell_the_queue_and_the_waits_by_team_and_month(store, monkeypatch):
    fill(store, sequenced(await lived(monkeypatch)))
    with store.engine.connect() as connection:
        queue = connection.exec_driver_sql("SELECT name, quota, team, waited_s FROM v1_queue")
        assert [("small", "team", "vision", 65)] == [tuple(row) for row in queue]
        by_team = connection.exec_driver_sql(
            "SELECT team, month, COUNT(*), SUM(waited_s) FROM v1_waits GROUP BY team, month"
        )
        assert [("vision", "2026-01", 4, 0 + 65 + 0 + 5)] == [tuple(row) for row in by_team]
