"""Judgements of budgets: said once for each phase, over restarts and changes of the rule."""

from bus.events.quotas import Budget
from projections.catalogue import MODEL
from tests.deploy.metered import living

GRACE = Budget(exhaustion="GraceThenEvict", grace_seconds=60)


async def test_a_restart_does_not_begin_the_grace_anew(tmp_path):
    ledger = await living(tmp_path, GRACE)
    first = ledger.process()
    assert [("Exhausted", 30)] == await ledger.round(first, 30)
    assert [] == await ledger.round(first, 40)
    second = ledger.process()

    assert [] == await ledger.round(second, 80)
    assert [("GraceOver", 30)] == await ledger.round(second, 95)
    assert [] == await ledger.round(ledger.process(), 100)


async def test_who_takes_grace_then_evict_back_is_judged_anew(tmp_path):
    ledger = await living(tmp_path, GRACE)
    process = ledger.process()
    await ledger.round(process, 30)
    assert [("GraceOver", 30)] == await ledger.round(process, 95)
    await ledger.rule(Budget(exhaustion="DenyNew"))
    assert [("Exhausted", 30)] == await ledger.round(process, 100)
    await ledger.rule(GRACE)

    assert [("GraceOver", 30)] == await ledger.round(process, 110)


async def test_a_budget_that_was_taken_away_and_comes_back_begins_anew(tmp_path):
    ledger = await living(tmp_path, GRACE)
    process = ledger.process()
    await ledger.round(process, 30)
    await ledger.round(process, 95)
    await ledger.rule(GRACE, cash={})
    assert [] == await ledger.round(process, 100)
    await ledger.rule(GRACE)

    assert [("Exhausted", 110)] == await ledger.round(process, 110)


async def test_of_two_processes_that_judge_at_once_one_is_recorded(tmp_path):
    ledger = await living(tmp_path, GRACE)
    first, second = ledger.process(), ledger.process()
    assert [("Exhausted", 30)] == await ledger.round(first, 30)

    assert [] == await ledger.round(second, 31, hears=False)
    assert [] == await ledger.round(second, 41)
    assert [("GraceOver", 30)] == await ledger.round(second, 95)


async def test_nothing_is_judged_by_rows_that_are_being_filled(tmp_path, caplog):
    ledger = await living(tmp_path, GRACE)
    process = ledger.process()
    older = MODEL.version.replace("pod_runs=", "pod_runs=0")

    assert [] == await ledger.round(process, 30, version=older)
    assert [] == await ledger.round(process, 35, version=older)
    assert caplog.text.count("budgets wait until budget_spends are filled") == 1
    assert [("Exhausted", 40)] == await ledger.round(process, 40)
