"""Telling of budgets that run out: an Event on the quota, a call, and a fact of the history for each, once."""

import pytest

from bus.errors import BusUnavailableError, ConflictError, PermissionDeniedError
from bus.events import VOCABULARY
from bus.events.admissions import QuotaSpec
from bus.events.budgets import BudgetJudged
from bus.events.decisions import NoticeSettled
from bus.events.vocabulary import read
from bus.memory import MemoryTransport
from bus.notify import Delivery
from projections.budgets import BudgetStatus, Exhaustion, Period, Spend
from projections.cluster import ClusterState
from projections.quota_trees.forest import QuotaTrees
from projections.quota_trees.shape import BUSINESS, TreeNode
from projections.quota_trees.tree import Tree
from reactors.budgets.notices import EVENTS_PATH, BudgetNotices
from reactors.budgets.state import FRESH_US, BudgetState
from reactors.budgets.status import status_of
from reactors.effectors.quota_status import content
from tests.reactors.cluster import START_US
from tests.scenario import Clock, History

HOUR = 3_600_000
START_S = START_US // 1_000_000


class Objects:
    """A cluster that takes Events, or answers with ``error``."""

    def __init__(self, error=None):
        self.made, self.error = [], error

    async def create(self, path, body):
        self.made.append((path, body))
        if self.error is not None:
            raise self.error


class Outside:
    """Takes what is told; ``fault`` is what it answers."""

    def __init__(self, fault=""):
        self.got, self.fault = [], fault

    async def __call__(self, body):
        self.got.append(body)
        return Delivery(self.fault, 1)


def judged(phase="Exhausted", at_s=START_S, **fields):
    fact = BudgetJudged(
        quota="team", key="limits.cpu", phase=phase, at_s=at_s, exhausted_s=at_s - 60,
        period_start_s=at_s - 7200, period_end_s=at_s + 7200, spent=10 * HOUR, limit=10 * HOUR,
        rule="DenyNew", based_on=9, **fields,
    )  # fmt: skip
    id = f"budget.judged/team/limits.cpu/{phase}/{at_s}"
    return fact.event(cluster="c1", key="team", id=id, source="keeper", time_us=at_s * 1_000_000)


class Scene(History):
    """One history, and the processes that tell of what is in it."""

    def __init__(self, objects=None, outside=None):
        super().__init__("c1", clock=Clock(START_US))
        self.objects, self.outside = objects or Objects(), outside or Outside()

    def process(self, transport=None):
        state = BudgetState(ClusterState(), QuotaTrees())
        for event in self.transport.events:
            state.apply(read(event, VOCABULARY), event)
        return BudgetNotices(
            self.objects, transport or self.transport, self.clock, state,
            name="c1", instance="node", tell=self.outside,
        )  # fmt: skip

    def settled(self):
        return [(f.result, f.message) for f in self.facts(NoticeSettled)]


UIDS = {"team": "uid-team"}


async def test_a_spent_budget_gives_an_event_on_the_quota_and_one_call():
    scene = Scene()
    await scene.transport.publish([judged()])
    notices = scene.process()
    await notices.round(UIDS)
    await notices.round(UIDS)
    await scene.process().round(UIDS)

    ((path, made),) = scene.objects.made
    (said,) = scene.outside.got
    assert (path, made["reason"], made["type"]) == (EVENTS_PATH, "BudgetExhausted", "Warning")
    assert made["regarding"]["uid"] == "uid-team"
    assert (
        "10 of 10 hours of limits.cpu are spent, the last at 2025-12-31T23:59:00Z" in made["note"]
    )
    assert said["message"] == f"quota team: {made['note']}"
    assert (said["phase"], said["exhausted_at"]) == ("Exhausted", "2025-12-31T23:59:00Z")
    assert scene.settled() == [("told", "")]


async def test_what_is_well_or_old_or_of_a_quota_that_is_gone_is_no_news():
    scene = Scene()
    old_s = START_S - FRESH_US // 1_000_000 - 1
    await scene.transport.publish([judged("Ok"), judged(at_s=old_s)])
    await scene.process().round(UIDS)
    await scene.transport.publish([judged()])
    await scene.process().round({})

    assert scene.objects.made == [] == scene.outside.got == scene.settled()


@pytest.mark.parametrize("error", [PermissionDeniedError(), ConflictError()])
async def test_without_the_right_to_write_events_or_after_a_crash_the_call_is_made_all_the_same(
    error,
):
    scene = Scene(Objects(error), Outside("http_500"))
    await scene.transport.publish([judged("Warned"), judged("GraceOver")])
    await scene.process().round(UIDS)

    assert [body["phase"] for body in scene.outside.got] == ["Warned", "GraceOver"]
    assert scene.settled() == [("failed", "http_500")] * 2


async def test_what_could_not_be_recorded_is_told_again_with_the_same_id():
    class Away(MemoryTransport):
        async def publish(self, events, *, expect=None):
            raise BusUnavailableError(reason="a test")

    scene = Scene()
    await scene.transport.publish([judged()])
    with pytest.raises(BusUnavailableError):
        await scene.process(Away()).round(UIDS)
    await scene.process().round(UIDS)

    first, second = scene.outside.got
    assert first["decision"] == second["decision"]
    names = {body["metadata"]["name"] for _, body in scene.objects.made}
    assert len(names) == 1
    assert scene.settled() == [("told", "")]


def test_budgets_stand_in_hard_and_used_and_a_spent_one_says_since_when():
    period = Period(START_S, START_S + 86_400)
    standing = BudgetStatus(period, 10 * HOUR, Spend(11 * HOUR), credits=HOUR)
    node = TreeNode("team", "u", BUSINESS, "")
    node.observed = QuotaSpec(hard={"limits.cpu": 4000}, cash={"limits.cpu": 10 * HOUR})
    phases = {"limits.cpu": Exhaustion(period, START_S + 900, exhausted_s=START_S + 600)}
    status = status_of(
        Tree("biz/team"), node, {"limits.cpu": standing}, phases,
        at_s=START_S + 900, sequence=7, generation=1,
    )  # fmt: skip
    said = content(status)

    assert said["hard"] == {"cash/limits.cpu": "11", "limits.cpu": "4"}
    assert said["used"] == {"cash/limits.cpu": "11", "limits.cpu": "0"}
    assert said["exhaustsAt"] == "2026-01-01T00:10:00Z"
    # The columns of limits stay those of limits.
    assert (said["shown"]["hard"], said["shown"]["budgetLeft"]) == (
        "limits.cpu: 4", "limits.cpu: 0",
    )  # fmt: skip
