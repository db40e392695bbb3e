"""Decisions and outcomes as rows, whatever their order."""

from hypothesis import given
from hypothesis import strategies as st

from bus.events.decisions import Cull, EffectSettled, Target
from projections import decisions
from tests.factories import numbered, said, us
from tests.projections.decided import EVENTS
from tests.projections.ledger import folded, rows

OWN = [e for e in EVENTS if e.type.startswith(("decision.", "effect."))]


def table(events, **options):
    return rows(folded(numbered(events), **options), decisions.decisions, without=("sequence",))


@given(st.permutations([*OWN, *OWN]), st.integers(1, 5))
def test_the_same_words_in_any_order_and_any_batches_give_the_same_rows(events, batch):
    assert table(OWN) == table(events, batch=batch, restart_every=2)


def test_a_row_tells_what_was_decided_and_what_became_of_it():
    found = {(row["type"], row["key"]): row for row in table(EVENTS)}
    row = found[("decision.cull", "nb-1")]

    assert ("culling", "Notebook", "idle", 0, "done") == (
        row["reactor"], row["kind"], row["reason"], row["is_shadow"], row["result"],
    )  # fmt: skip
    assert us(2_700) == row["settled_us"]


def test_a_stored_row_is_read_back_equal():
    for event in numbered(OWN):
        fact = (decisions.VERBS | {EffectSettled.wire_type: EffectSettled})[event.type].read(event)
        row = decisions.fold(None, fact, event)

        assert row == decisions.codec.row(decisions.codec.columns(row))


def test_an_outcome_without_its_decision_is_kept():
    fact = EffectSettled(decision="0" * 32, reactor="culling", result="done")
    (row,) = table([said(fact, key=fact.decision, id="o", at=1)])

    assert (None, "done") == (row["type"], row["result"])


def test_of_two_decisions_that_claim_one_id_one_counts_whichever_came_first():
    target = Target("Pod", "ns", "p", "p")
    both = [
        said(
            Cull(
                id="1" * 32, reactor="culling", rules=1, key=key, trigger=1, at_us=us(0), policy="",
                is_shadow=False, target=target, reason="idle", expires_us=us(9),
            ),
            key=key, id=f"e-{key}", at=0,
        )
        for key in ("a", "b")
    ]  # fmt: skip

    assert table(both) == table(both[::-1])
