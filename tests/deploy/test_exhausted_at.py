"""When a budget was used up, as every command says it: not the moment of the question."""

import json

import pytest

from bus.clock import format_stamp
from bus.events.quotas import Budget
from tests import factories as f
from tests.deploy.ledgers import bursar, make_ledger
from tests.deploy.metered import living

#: Two cores spend the core for 50 s of the budget in 25 s; the first judgement is made at second 30.
SPENT, JUDGED, LATER = 25, 30, 5_000


def at(second):
    return format_stamp(f.us(second))


@pytest.fixture
def told(capsys, tmp_path):
    def run(*arguments):
        assert bursar(*arguments, "--data", tmp_path, "-o", "json") == 0
        return json.loads(capsys.readouterr().out)

    return run


async def spent(folder, *, is_judged):
    ledger = await living(folder, Budget("Total"))
    if is_judged:
        await ledger.round(ledger.process(), JUDGED)
    await ledger.transport.publish([f.node_observed("n", 9, LATER)])
    return ledger.transport.events


@pytest.mark.parametrize(("is_judged", "since"), [(True, JUDGED), (False, SPENT)])
async def test_after_exhaustion_every_command_says_when_it_was_exhausted(
    told, tmp_path, is_judged, since
):
    make_ledger(tmp_path, await spent(tmp_path, is_judged=is_judged))

    assert told("get", "quotas")[0]["exhausts_at"] == at(since)
    assert told("budget", "list")[0]["exhausts_at"] == at(since)
    (key,) = [row for row in told("quota", "tree") if row["budget_left"] is not None]
    assert key["exhausts_at"] == at(since)
