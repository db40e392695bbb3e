"""Placements as rows, and what the view says of each: bound, refused, gone, elsewhere, overtaken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections import bind_decisions
from tests.factories import numbered
from tests.projections.bound import EVENTS, passed
from tests.projections.engine.archives import fill, ledger
from tests.projections.ledger import folded, rows


def test_the_view_says_what_became_of_each_and_how_it_compares(tmp_path):
    store = ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    fill(store, numbered(EVENTS))
    with store.engine.begin() as connection:
        found = connection.exec_driver_sql(
            "SELECT name, outcome, agreement, waited_s, feasible FROM v1_bind_decisions ORDER BY decided_s"
        ).all()
    store.close()

    told = {name: (outcome, agreement) for name, outcome, agreement, *_ in found}
    assert told == {
        "same": ("bound", "same"), "equal": ("elsewhere", "equal"), "lower": ("elsewhere", "lower"),
        "refused": ("elsewhere", "refused"), "rest": ("elsewhere", "unrecorded"),
        "unplaced": ("elsewhere", "unplaced"), "stuck": ("waiting", None), "waits": ("waiting", None),
        "goes": ("gone", None), "twice": ("bound", "same"), "bound": ("bound", None),
        "failed": ("refused", None), "stale": ("elsewhere", None), "unsaid": ("waiting", None),
    }  # fmt: skip
    assert [one[1] for one in found if one[0] == "twice"] == ["bound"]


OWN = [event for event in EVENTS if event.type in ("scheduling.passed", "bind.settled")]


def table(events, **options):
    return rows(
        folded(numbered(events), **options), bind_decisions.bind_decisions, without=("sequence",)
    )


@given(st.permutations([*OWN, *OWN]), st.integers(1, 5))
def test_the_same_words_in_any_order_and_any_batches_give_the_same_rows(events, batch):
    assert table(OWN) == table(events, batch=batch, restart_every=2)


@pytest.mark.parametrize(("is_shadow", "rows"), [(True, 1), (False, 100)])
def test_a_pod_that_nobody_binds_has_one_row_of_its_newest_shadow(is_shadow, rows):
    events = [passed(n, "p", at=300 * n, node=n % 3 - 1, is_shadow=is_shadow) for n in range(150)]
    found = table(events)

    assert len(found) == rows
    assert (found[-1]["node"], found[-1]["shadow_pass"]) == ("b", "pass/149" if is_shadow else "")


@pytest.mark.parametrize("is_shadow", [False, True])
def test_only_a_shadow_keeps_the_best_nodes_and_who_was_refused(is_shadow):
    found = table(
        [passed(1, "p", is_shadow=is_shadow), passed(2, "q", node=-1, is_shadow=is_shadow)]
    )

    assert [(one["uid"], one["top"]) for one in found] == (
        [("p", '{"a":9,"b":9,"c":5}'), ("q", "{}")] if is_shadow else [("p", "{}")]
    )
