"""What the lab of evictions takes from the record: who runs on that was evicted there, who goes, and until when."""

import msgspec
import pytest

from bus.events.clock import LEADER, ClockTicked
from bus.events.decisions import EffectSettled, Evict, Target
from reactors.engine.contract import decision_id
from reactors.engine.replica import decision_event
from reactors.evictions.settings import EvictionPolicy
from reactors.lab.evictions import outcome
from tests.factories import CLUSTER, owner, pod_observed, pod_vanished, pods_listed, said, us
from tests.factories import workload_vanished as gone
from tests.reactors.evictions.scene import CARD, FAST, QUOTA, Evicting, ask, preempting
from tests.reactors.lab.eviction_worlds import played
from tests.reactors.lab.worlds import seconds

SET = owner("rs")


class History:
    """Events of a cluster, each at its second."""

    def __init__(self):
        self.events = []

    def say(self, *events):
        for event in events:
            event = msgspec.structs.replace(event, cluster="c1", sequence=len(self.events) + 1)
            self.events.append(event)
        return self

    def pod(self, uid, at, version=1, **fields):
        return self.say(
            pod_observed(uid, version, at=at, **{"created": at, "owner": SET, "gpu": 1} | fields)
        )

    def end(self, uid, at, **fields):
        return self.say(pod_vanished(uid, 9, at=at, **{"owner": SET} | fields))

    def evict(self, uid, at, result="done", *, is_shadow=False):
        decision = Evict(
            id=decision_id("evictions", at, uid), reactor="evictions", rules=7, key=uid, trigger=1, at_us=us(at), policy=32 * "0",
            is_shadow=is_shadow, target=Target("Pod", "ns", uid, uid, "n"), quota="team", reason="budget-grace-over",
            numbers={}, expires_us=us(at + 300),
        )  # fmt: skip
        self.say(decision_event(decision, CLUSTER))
        settled = EffectSettled(decision=decision.id, reactor="evictions", result=result)
        if not is_shadow:
            self.say(said(settled, key=decision.id, id=f"{decision.id}/settled", at=at + 1))
        return self

    def tick(self, at):
        return self.say(said(ClockTicked(), key=LEADER, id=f"tick/{at}", at=at))


def kept(history):
    """(uid, from, least, likely, most) of the times that the record is without, where nobody is evicted under trial."""
    found = played(history.events, "off", EvictionPolicy())
    assert not found.decided and not any(span.is_saved for span in found.spans)
    return [
        (span.uid, *map(seconds, (span.from_us, span.least_us, span.until_us, span.most_us)))
        for span in found.spans
    ]


def test_who_was_evicted_runs_on_until_its_controller_has_another_pod_in_its_place():
    history = History().pod("a", 0).pod("sibling", 0).evict("a", 50).end("a", 60)
    # A sibling that was there before takes nobody's place, nor does a pod of others.
    history.pod("sibling", 70, 2, created=0).pod("c", 80, owner=owner("other"))
    history.pod("b", 90, node=None).pod("b", 100, 2, created=90).end("b", 400).tick(500)
    assert kept(history) == [("a", 50, 50, 100, 100)]
    total = outcome(played(history.events, "off", EvictionPolicy()), by="namespace").total
    assert (total.recorded, total.tried, total.removed) == (1, 0, 1)
    assert total.gpu_milli_s.likely == -50_000
    assert total.gpu_milli_s.low == -90_000 and total.gpu_milli_s.high == 40_000


def test_it_runs_on_until_its_controller_is_gone_or_else_to_the_end():
    history = History().pod("a", 0).evict("a", 50).end("a", 60)
    assert kept(History().say(*history.events).tick(300)) == [("a", 50, 50, 300, 300)]
    assert kept(history.say(gone("rs", at=200)).tick(300)) == [("a", 50, 50, 200, 200)]


def test_a_bare_one_runs_for_the_median_of_its_namespace():
    history = History()
    for number, length in enumerate((100, 200, 900)):
        history.pod(f"p{number}", 0, owner=None).end(f"p{number}", length, owner=None, scheduled=0)
    history.pod("a", 1_000, owner=None).evict("a", 1_050).end("a", 1_060, owner=None)
    history.tick(1_150).tick(1_300)
    assert kept(history) == [("a", 1_050, 1_050, 1_200, 1_300)]


@pytest.mark.parametrize("result", ["refused", "stale"])
def test_an_eviction_that_came_to_nothing_and_one_of_a_shadow_are_none(result):
    history = History().pod("a", 0).evict("a", 20, is_shadow=True).evict("a", 50, result)
    assert kept(history.end("a", 60).tick(100)) == []
    assert played(history.events, "off", EvictionPolicy()).recorded == ()


def test_a_complete_list_ends_nobody_who_runs_on():
    history = History().pod("a", 0).evict("a", 50).end("a", 60)
    history.say(*pods_listed((), at=80)).say(gone("rs", at=200)).tick(300)
    assert kept(history) == [("a", 50, 50, 200, 200)]


def test_who_was_evicted_and_is_missing_in_a_complete_list_runs_on():
    history = History().pod("a", 0).evict("a", 50)
    history.say(*pods_listed((), at=80)).say(gone("rs", at=200)).tick(300)
    assert kept(history) == [("a", 50, 50, 200, 200)]


@pytest.mark.simulated
@pytest.mark.parametrize("is_seen", [True, False])
async def test_who_goes_is_gone_until_its_budget_begins_anew_or_it_ends_on_record(is_seen):
    async with Evicting() as cluster:
        begin = cluster.clock.us
        await cluster.see_paid("team", {f"limits.{CARD}": 4})
        await cluster.policy("off")
        for number in range(100):
            await cluster.run_pod(f"else-{number}", quota="nobody", gpu=0)
        await cluster.run_pod("a", quota="team", label=QUOTA)
        await cluster.run_pod("b", quota="team", label=QUOTA, priority=1)
        await cluster.judge("team", f"limits.{CARD}", "GraceOver")
        for _ in range(5):
            await cluster.tick()
        others = {uid for uid in cluster.pods.values() if uid != "uid-b"}
        listed = pods_listed(others, at=cluster.at(), cluster="c1")
        end = pod_vanished("uid-b", 90, cluster.at(), cluster="c1", name="b")
        await cluster.transport.publish([end] if is_seen else listed)
        await cluster.judge("team", f"limits.{CARD}", "Ok")
        for _ in range(5):
            await cluster.tick()
        found = played(cluster.transport.events, "shadow", EvictionPolicy(pace=FAST))
    assert [one.key for one in found.decided] == ["uid-a", "uid-b"]
    times = {
        span.uid: [
            (us_ - begin) // 10**6
            for us_ in (span.from_us, span.least_us, span.until_us, span.most_us)
        ]
        for span in found.spans
    }
    assert times == {"uid-a": [10, 60, 60, 100], "uid-b": [10, 50, 50, 50]}


@pytest.mark.simulated
@pytest.mark.parametrize(("preemption", "who"), [("on", ["p0", "p1"]), ("off", [])])
async def test_room_for_a_more_important_workload_is_tried_where_the_policy_says_on(
    preemption, who
):
    async with preempting() as cluster:
        await cluster.policy("off")
        assert await ask(cluster, "urgent", 2) == "over-quota"
        await cluster.tick()
        events = cluster.transport.events
    found = played(events, "shadow", EvictionPolicy(pace=FAST, preemption=preemption))
    assert [one.target.name for one in found.decided] == who
    made = outcome(found, by="team")
    assert made.total.preempted == len(who) == made.total.added
    assert {one.beneficiary for one in made.changes} == ({"Job ns/urgent"} if who else set())
