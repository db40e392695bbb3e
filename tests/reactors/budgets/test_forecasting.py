"""Forecasts beside who keeps quotas: one at a time, each once an hour, told by metrics and by the status of quotas."""

import pytest

from bus.clock import SECOND_US
from bus.events.quotas import Budget
from projections.budgets.forecasts import Forecast
from reactors.budgets import forecasting
from reactors.budgets.metrics import figures
from reactors.budgets.status import sentence
from tests import factories as f
from tests.deploy.metered import living

DAY = 86_400
ONE = Forecast(10 * DAY, 12 * DAY, 20 * DAY, 850, 24, 20, DAY // 2, DAY)


@pytest.fixture
def asked(monkeypatch):
    found = []

    def said(select, cluster, quota, key, **fields):
        found.append((quota, key, fields["now_s"]))
        return ONE

    monkeypatch.setattr(forecasting, "forecast_budget", said)
    monkeypatch.setattr(forecasting, "forecast_limit", said)
    return found


async def test_each_is_worked_out_once_an_hour_and_one_in_a_round(tmp_path, asked):
    ledger = await living(tmp_path, Budget())
    await ledger.publish(
        f.quota_observed("other", 1, 0, hard={"limits.cpu": 5, "limits.x.io/y": 5})
    )
    process = ledger.process()
    for at in (30, 40, 50, 3_629, 3_630, 3_640):
        await ledger.round(process, at)

    begin_s = f.us(0) // SECOND_US
    assert [
        ("q", "limits.cpu", 30), ("other", "limits.cpu", 40),
        ("q", "limits.cpu", 3_630), ("other", "limits.cpu", 3_640),
    ] == [(quota, key, at - begin_s) for quota, key, at in asked]  # fmt: skip
    state = process._replica.states["budgets"]
    assert {("q", "cash/limits.cpu"): ONE, ("other", "limits.cpu"): ONE} == state.forecasts


async def test_a_limit_that_quotas_below_claim_from_has_no_forecast(tmp_path, asked):
    ledger = await living(tmp_path, Budget())
    above = f.quota_observed("above", 1, 0, hard={"limits.cpu": 9})
    await ledger.publish(
        [above, f.quota_observed("below", 1, 0, hard={"limits.cpu": 5}, parent="above")]
    )
    process = ledger.process()
    for at in (30, 40, 50):
        await ledger.round(process, at)

    assert ["q", "below"] == [quota for quota, _, _ in asked]


def test_a_sentence_says_day_interval_and_error():
    assert (
        sentence(ONE) == "likely 1970-01-13, 1970-01-11 to 1970-01-21; chance 85 %; off by 0.5 days"
    )
    never = Forecast(None, None, None, 30)
    assert sentence(never) == "likely not; chance 3 %"


def test_metrics_leave_out_what_is_not_known():
    class Known:
        states = {"budgets": None}

    from reactors.budgets.state import BudgetState

    state = BudgetState(None, None)
    state.forecasts = {
        ("team", "cash/limits.cpu"): ONE,
        ("team", "limits.cpu"): Forecast(5 * DAY, None, None, 100),
        ("new", "limits.cpu"): None,
    }
    Known.states = {"budgets": state}
    found = {one.name: list(one.samples) for one in figures(Known)}

    bounds = [(s.labels["key"], s.labels["bound"], s.value) for s in found["bursar_quota_exhausts_timestamp_seconds"]]  # fmt: skip
    assert [
        ("cash/limits.cpu", "earliest", 10 * DAY), ("cash/limits.cpu", "likely", 12 * DAY),
        ("cash/limits.cpu", "latest", 20 * DAY), ("limits.cpu", "earliest", 5 * DAY),
    ] == bounds  # fmt: skip
    assert ["0.85", "0.1"] == [s.value for s in found["bursar_quota_exhausts_chance"]]
    assert [DAY // 2] == [s.value for s in found["bursar_quota_forecast_error_seconds"]]
