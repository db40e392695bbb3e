"""Credits and refunds as rows: entries that are never edited, whatever order they come in."""

import itertools

import pytest

from bus.errors import EnvelopeError
from bus.events.budgets import MOST
from projections.budgets import Period
from projections.budgets.entries import BudgetEntry, budget_entries, credited
from projections.engine.reading import fact_in
from projections.engine.tables import parked
from tests import factories as f
from tests.projections.entries import entry
from tests.projections.ledger import folded, rows


def stored(events, **options):
    return rows(folded(f.numbered(events), **options), budget_entries, without=("sequence",))


def test_an_entry_is_a_row_with_all_that_was_said():
    (row,) = stored([entry(amount=-5, at=7)])

    assert {
        "cluster": "c", "ref": "r1", "quota": "q", "key": "limits.cpu", "amount": -5,
        "reason": "promised", "author": "ann", "since_us": f.us(7), "time_us": f.us(7),
    } == row  # fmt: skip


def test_an_entry_said_twice_is_one_and_one_said_otherwise_does_not_edit_it():
    history = [entry(), entry(at=5, amount=999), entry("r2", at=6, amount=-40)]
    orders = [stored(order) for order in itertools.permutations([*history, history[0]])]
    alone = [stored(order, batch=1, restart_every=1) for order in itertools.permutations(history)]

    assert [100, -40] == [row["amount"] for row in orders[0]]
    assert all(found == orders[0] for found in (*orders, *alone))


@pytest.mark.parametrize("amount", [MOST + 1, -MOST - 1, 10**30, 1.5, "100"])
def test_an_amount_that_sums_could_not_hold_is_parked(amount):
    body = entry().body.replace(b'"amount":100', f'"amount":{amount!r}'.replace("'", '"').encode())
    event = f.msgspec.structs.replace(entry(), body=body)

    with pytest.raises(EnvelopeError):
        fact_in(event)
    assert 1 == len(rows(folded(f.numbered([event])), parked))


@pytest.mark.parametrize(
    ("period", "expected"),
    [
        (Period(f.START_S, f.START_S + 10), 100),
        (Period(f.START_S + 1, f.START_S + 11), -40),
        (Period(f.START_S, f.START_S + 11), 60),
        (Period(0, None), 60),
        (Period(f.START_S + 11, None), 0),
    ],
)
def test_an_entry_counts_in_the_period_it_belongs_to_and_for_its_key_alone(period, expected):
    said = [entry(), entry("r2", since_us=f.us(10.5), amount=-40), entry("r3", key="limits.memory")]
    entries = [BudgetEntry("c", fact_in(event), event.time_us) for event in said]

    assert expected == credited(entries, "limits.cpu", period)
