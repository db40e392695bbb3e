"""Entries of budgets."""

from bus.events.budgets import BudgetCredited
from tests import factories as f


def entry(ref="r1", at=0, **fields):
    """``budget.credited`` of quota ``q``: 100 on limits.cpu unless told otherwise."""
    fields = {
        "quota": "q", "key": "limits.cpu", "amount": 100, "reason": "promised", "author": "ann",
        "since_us": f.us(at), **fields,
    }  # fmt: skip
    body = BudgetCredited(ref=ref, **fields)
    return f.said(body, key=body.quota, id=f"budget.credited/{ref}/{at}", at=at)
