"""Waits as rows: the life of a queue, folded in whatever order."""

import random

import pytest

from bus.clock import SECOND_US
from projections.waits import waits
from tests.factories import numbered
from tests.projections.ledger import folded, rows
from tests.projections.waiting import lived

pytestmark = pytest.mark.simulated


@pytest.fixture
async def history(monkeypatch):
    return await lived(monkeypatch)


async def test_the_same_facts_in_any_order_give_the_same_rows(history):
    shuffled = [*history, *history]
    random.Random(7).shuffle(shuffled)

    def found(events, **options):
        return rows(folded(numbered(events), **options), waits, without=("sequence",))

    assert found(history) == found(shuffled, batch=3, restart_every=2)


async def test_who_waits_and_who_waited_how_long(history):
    found = {row["name"]: row for row in rows(folded(numbered(history)), waits)}
    start = found["first"]["created_us"]

    def after(stamp):
        return None if stamp is None else (stamp - start) // SECOND_US

    told = {
        name: (row["quota"], after(row["released_us"]), after(row["gone_us"]), row["releases"])
        for name, row in found.items()
    }
    assert told == {
        "first": ("team", 0, 6, 1),
        "head": ("team", 66, None, 1),
        "small": ("team", 1, None, 1),
        "gone": ("team", None, 6, 0),
    }
    assert [name for name, row in found.items() if row["waiting"]] == ["small"]
