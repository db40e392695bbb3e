"""Metrics of forecasts: the times at which budgets will be used up and limits reached. Pure.

Source: docs/quotas.md ("Budget forecasts").
"""

from __future__ import annotations

from collections.abc import Iterator

from bus.metrics import Metric, Sample
from reactors.budgets import NAME
from reactors.budgets.state import BudgetState
from reactors.engine.replica import Replica


def figures(replica: Replica) -> Iterator[Metric]:
    """Metrics of the newest forecasts; a time after the period's end, or after 92 days, is left out."""
    state = replica.states[NAME]
    assert isinstance(state, BudgetState)
    known = sorted((place, one) for place, one in state.forecasts.items() if one is not None)
    yield Metric(
        "bursar_quota_exhausts_timestamp_seconds", "gauge",
        "When a budget (cash/) will be used up or a limit reached, in one of ten futures, in half, in nine of ten.",
        [
            Sample(at_s, {"quota": quota, "key": key, "bound": bound})
            for (quota, key), one in known
            for bound, at_s in (("earliest", one.earliest_s), ("likely", one.likely_s), ("latest", one.latest_s))
            if at_s is not None
        ],
    )  # fmt: skip
    yield Metric(
        "bursar_quota_exhausts_chance", "gauge",
        "In what share of all futures that happens before the period ends, or within 92 days.",
        [Sample(str(one.chance / 1_000), {"quota": quota, "key": key}) for (quota, key), one in known],
    )  # fmt: skip
    yield Metric(
        "bursar_quota_forecast_error_seconds", "gauge",
        "By how much half of the same forecasts of past weeks were wrong at most.",
        [
            Sample(one.off_s, {"quota": quota, "key": key})
            for (quota, key), one in known
            if one.off_s is not None
        ],
    )  # fmt: skip
