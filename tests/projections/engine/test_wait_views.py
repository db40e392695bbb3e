"""The views of queues, on both databases."""

import re

import msgspec
import pytest

from tests.projections.engine.archives import fill, sequenced
from tests.projections.waiting import lived

pytestmark = pytest.mark.simulated


async def test_the_views_tell_the_queue_and_the_waits_by_team_and_month(store, monkeypatch):
    fill(store, sequenced(await lived(monkeypatch)))
    with store.engine.connect() as connection:
        queue = connection.exec_driver_sql("SELECT name, quota, team, waited_s FROM v1_queue")
        assert [("small", "team", "vision", 65)] == [tuple(row) for row in queue]
        by_team = connection.exec_driver_sql(
            "SELECT team, month, COUNT(*), SUM(waited_s) FROM v1_waits GROUP BY team, month"
        )
        assert [("vision", "2026-01", 4, 0 + 65 + 0 + 5)] == [tuple(row) for row in by_team]


async def test_no_wait_is_negative_where_the_api_servers_clock_is_ahead(store, monkeypatch):
    events = [
        msgspec.structs.replace(one, body=one.body.replace(b"2026-01-01T00:", b"2026-01-01T09:"))
        for one in await lived(monkeypatch)
    ]
    fill(store, sequenced(events))
    with store.engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT MIN(waited_s), MAX(waited_s) FROM v1_waits")
        assert [(0, 0)] == [tuple(row) for row in rows]
        queue = connection.exec_driver_sql("SELECT name, waited_s FROM v1_queue")
        assert [("small", 0)] == [tuple(row) for row in queue]


async def test_the_month_is_that_of_the_creation_in_utc(store, monkeypatch):
    """The last second of a year, and the first of the next."""
    stamps = {b'"name":"first"': b"2025-12-31T23:59:59Z", b'"name":"head"': b"2026-01-01T00:00:00Z"}
    events = []
    for one in await lived(monkeypatch):
        for name, stamp in stamps.items():
            if one.type == "workload.observed" and name in one.body:
                body = re.sub(rb'"created":"[^"]+"', b'"created":"' + stamp + b'"', one.body)
                one = msgspec.structs.replace(one, body=body)
        events.append(one)
    fill(store, sequenced(events))
    with store.engine.connect() as connection:
        rows = connection.exec_driver_sql(
            "SELECT name, month FROM v1_waits WHERE name IN ('first', 'head') ORDER BY name"
        )
        assert [("first", "2025-12"), ("head", "2026-01")] == [tuple(row) for row in rows]
