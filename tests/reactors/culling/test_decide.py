"""Which notebooks are warned, stopped, spared: stories over compressed days. Source: docs/culling.md; docs/reliability.md."""

import msgspec
import pytest

from bus.errors import RequestRefusedError
from bus.events.decisions import Restore, RestoreAsked
from bus.events.histories import HistoryRecovered
from bus.events.policies import PauseChanged
from reactors.culling.reactor import reactor
from reactors.engine.verify import rederive
from tests.factories import (
    CLUSTER,
    namespace_observed,
    owner,
    pod_observed,
    pod_vanished,
    pods_listed,
    said,
    stamp,
    us,
)
from tests.reactors.culling.scene import Notebooks, objects_listed

HOUR, DAY, YEAR = 3_600, 86_400, 365 * 86_400


async def test_an_idle_notebook_is_warned_and_then_stopped():
    at = Notebooks()
    await at.idle()
    await at.pass_time(HOUR)

    assert [
        (1800, "warn", "nb-1"), (1800, "done", ""), (2700, "cull", "nb-1"), (2700, "done", ""),
    ] == at.story  # fmt: skip


@pytest.mark.parametrize(
    "evidence",
    [
        {"busy": True, "active_us": None},
        {"outcome": "unreachable", "active_us": None},
        {"outcome": "refused", "active_us": None},
        {"outcome": "malformed", "active_us": None},
        {"source": "jupyter_terminals"},
        {"source": "gpu"},
        {"source": "pod_cpu"},
    ],
    ids=lambda fields: next(iter(fields.values())),
)
async def test_what_is_busy_or_unknown_is_never_stopped(evidence):
    at = Notebooks()
    await at.idle()
    at.kernels["nb-1"] = evidence
    await at.pass_time(3 * HOUR)

    assert [] == at.story


async def test_a_notebook_that_nobody_looks_at_is_never_stopped():
    at = Notebooks()
    await at.idle()
    at.kernels.clear()
    await at.pass_time(2 * HOUR)

    assert [] == at.story


async def test_evidence_older_than_two_periods_never_culls():
    at = Notebooks()
    await at.idle()
    await at.pass_time(1_800)
    at.kernels.clear()
    await at.pass_time(HOUR)

    assert ["warn", "done"] == [verb for _, verb, _ in at.story]


async def test_activity_after_the_warning_takes_it_back():
    at = Notebooks()
    await at.idle()
    await at.pass_time(2_000)
    at.kernels["nb-1"] = {"active_us": us(1_990)}
    await at.pass_time(1_500)

    assert [(1800, "warn"), (2010, "withdraw")] == [s[:2] for s in at.story if s[1] != "done"]


async def test_an_open_browser_has_the_longer_limit():
    at = Notebooks()
    await at.idle(presence_seconds=7_200)
    at.kernels["nb-1"] = {"connected": True}
    await at.pass_time(7_000)
    assert [] == at.story
    await at.pass_time(1_200)

    assert ["nb-1"] == at.culled()


@pytest.mark.parametrize(
    ("annotations", "second"),
    [
        ({"bursar.io/cull-idle-after": "10m"}, 1500),
        ({"bursar.io/do-not-cull": "true"}, None),
        ({"bursar.io/notebook-snoozed-until": stamp(3_500)}, 3_500),
        ({"bursar.io/notebook-snoozed-until": stamp(1_000_000)}, 2_700 + 1_000),
        ({"bursar.io/notebook-snoozed-until": "tomorrow"}, 2_700),
    ],
    ids=["its own limit", "exempt", "snoozed", "snoozed beyond the cap", "unreadable"],
)
@pytest.mark.parametrize("kind", ["Notebook", "Pod"])
async def test_the_owner_may_ask_for_more_time_on_the_object(kind, annotations, second):
    at = Notebooks()
    await at.policy(snooze_cap_seconds=1_000)
    await at.see(kind=kind, annotations=annotations)
    at.kernels["nb-1"] = {}
    await at.pass_time(5_000)

    assert [s for s, verb, _ in at.story if verb == "cull"] == ([second] if second else [])


@pytest.mark.parametrize(
    "rule",
    [{"namespace": "n*"}, {"team": "vision"}, {"image": "jupyter/*"}],
    ids=["namespace", "team", "image"],
)
async def test_a_rule_for_a_namespace_a_team_or_an_image_overrides_the_policy(rule):
    at = Notebooks()
    await at.say(namespace_observed("ns", team="vision"))
    await at.idle(rules=[{**rule, "idle_seconds": 600}])
    await at.pass_time(610)

    assert (600, "warn") == at.story[0][:2]


async def test_in_quiet_hours_nothing_is_warned_or_stopped():
    at = Notebooks()
    await at.idle(quiet=[{"start": "08:00", "end": "10:00"}])
    await at.pass_time(2 * HOUR - 10)
    assert [] == at.story
    await at.pass_time(1_010)

    assert [(7_200, "warn"), (8_100, "cull")] == [s[:2] for s in at.story if s[1] != "done"]


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        ("Notebook", ("Notebook", "Notebook-nb-1")),
        ("StatefulSet", ("StatefulSet", "StatefulSet-nb-1")),
        ("Deployment", ("Deployment", "Deployment-nb-1")),
        ("Pod", ("Pod", "nb-1")),
    ],
)
async def test_what_is_stopped_is_the_end_of_the_chain(kind, target):
    at = Notebooks()
    await at.idle(kind=kind)
    await at.pass_time(2_710)
    (cull,) = at.decisions()

    assert target == (cull.target.kind, cull.target.uid)


async def test_a_pod_of_a_kind_that_is_not_stopped_is_left_alone():
    at = Notebooks()
    await at.idle(kind="Job")
    await at.pass_time(HOUR)

    assert [] == at.story


async def test_a_pod_whose_controller_was_not_seen_is_left_alone():
    at = Notebooks()
    await at.idle()
    await at.say(objects_listed("Notebook", [], at=5), objects_listed("Notebook", [], at=6))
    await at.pass_time(2 * HOUR)

    assert [] == at.culled()


async def test_a_controller_that_has_other_pods_is_left_alone():
    at = Notebooks()
    await at.idle(kind="StatefulSet")
    other = pod_observed("nb-2", at=1, owner=owner("StatefulSet-nb-1", "StatefulSet"))
    await at.say(other)
    await at.pass_time(HOUR)

    assert [] == at.story


async def test_a_new_pod_inherits_nothing():
    at = Notebooks()
    await at.idle()
    await at.pass_time(1_800)
    await at.say(pod_vanished("nb-1", version=50, at=1_800))
    await at.see("nb-1b", pod={"created": 1_800, "owner": None})
    at.kernels = {"nb-1b": {"active_us": None}}
    await at.pass_time(1_700)

    assert ["nb-1"] == [key for _, verb, key in at.story if verb == "warn"]


async def test_a_refused_warning_rests_ten_minutes():
    at = Notebooks()
    await at.idle()
    at.effector.fails = RequestRefusedError("no")
    await at.pass_time(1_800 + 1_210)

    assert [1800, 2400, 3000] == [s for s, verb, _ in at.story if verb == "warn"]


async def test_shadow_decides_the_same_and_does_nothing():
    real, shadow = Notebooks(), Notebooks()
    await real.idle(3)
    await shadow.idle(3, mode="shadow")
    for at in (real, shadow):
        await at.pass_time(HOUR)
    told = [[s for s in at.story if s[1] != "done"] for at in (real, shadow)]

    assert (told[0], []) == (told[1], shadow.effector.done)


async def test_from_shadow_to_on_everybody_is_warned_first():
    at = Notebooks()
    await at.idle(mode="shadow")
    await at.pass_time(HOUR)
    await at.policy("on")
    await at.pass_time(HOUR / 2)

    assert [(3610, "warn"), (4510, "cull")] == [
        s[:2] for s in at.story if s[0] >= 3600 and s[1] in ("warn", "cull")
    ]


async def test_a_stop_that_had_no_effect_is_not_repeated():
    at = Notebooks()
    await at.idle()
    await at.pass_time(3 * HOUR)

    assert 1 == len(at.culled())


async def newer_activity(at):
    await at.look(active_us=us(2_695))


async def exempted(at):
    await at.see(annotations={"bursar.io/do-not-cull": "true"})


async def snoozed(at):
    await at.see(annotations={"bursar.io/notebook-snoozed-until": stamp(9_000)})


async def gone(at):
    await at.say(pod_vanished("nb-1", version=50, at=at.at()))


@pytest.mark.parametrize(
    ("happens", "result", "why"),
    [
        (newer_activity, "stale", "active"),
        (exempted, "stale", "exempt"),
        (snoozed, "stale", "snoozed"),
        (gone, "gone", "not_found"),
    ],
    ids=lambda value: "" if isinstance(value, str) else value.__name__,
)
async def test_what_happens_between_decision_and_act_overtakes_it(happens, result, why):
    at = Notebooks()
    await at.idle()
    await at.pass_time(2_690)
    await at.pass_time(10, acts=False)
    await happens(at)
    await at.runner.work()

    assert (2700, result, why) == at.story[-1]


async def test_a_cull_that_a_person_wants_undone_is_undone_also_while_paused():
    at = Notebooks()
    await at.idle()
    await at.pass_time(2_710)
    (cull,) = at.decisions()
    await at.say(pod_vanished("nb-1", version=50, at=at.at()))
    await at.say(
        said(PauseChanged(is_paused=True, author="me"), key="reactors", id="p", at=2_720),
        said(RestoreAsked(decision=cull.id, author="me"), key=cull.id, id="u", at=2_720),
    )
    await at.pass_time(20)
    (restore,) = at.decisions(Restore)

    assert (cull.target, cull.id, restore.id) == (restore.target, restore.key, at.effector.done[-1])


@pytest.mark.parametrize("mode", ["off", "shadow", "on"])
async def test_a_cull_is_undone_whatever_the_mode_is(mode):
    at = Notebooks()
    await at.idle()
    await at.pass_time(2_710)
    (cull,) = at.decisions()
    await at.policy(mode)
    await at.say(said(RestoreAsked(decision=cull.id, author="me"), key=cull.id, id="u", at=2_720))
    await at.pass_time(20)
    (restore,) = at.decisions(Restore)
    found = rederive(lambda: at.transport.events, (reactor,), CLUSTER)

    assert (False, restore.id) == (restore.is_shadow, at.effector.done[-1])
    assert () == found.mismatches


async def test_what_was_never_stopped_cannot_be_undone():
    at = Notebooks()
    await at.idle()
    await at.say(said(RestoreAsked(decision="0" * 32, author="me"), key="x", id="u", at=1))
    await at.pass_time(20)

    assert [] == at.decisions(Restore)


async def emptied(at):
    await at.say(pods_listed([], version=9, at=at.at()))


async def a_year_ahead(at):
    at.clock.after(YEAR)


async def a_year_back(at):
    at.clock.after(-YEAR)


async def regressed(at):
    fact = HistoryRecovered(incarnation=2, published=5)
    await at.say(said(fact, key="history", id="recovered", at=at.at()))


@pytest.mark.parametrize("happens", [emptied, a_year_ahead, a_year_back, regressed])
@pytest.mark.parametrize("second", [0, 1_700, 2_690])
async def test_an_emptied_list_a_jumped_clock_and_a_lost_log_stop_nobody(happens, second):
    at = Notebooks()
    await at.idle(5)
    # In use all the time, but for what the accident does to it.
    await at.pass_time(second)
    before = len(at.culled())
    await happens(at)
    await at.pass_time(590)

    assert before == len(at.culled())


async def test_the_limit_is_two_percent_in_five_minutes():
    at = Notebooks()
    await at.idle(100)
    at.kernels = {f"nb-{n}": {"active_us": us(n)} for n in range(1, 101)}
    await at.pass_time(3_400)

    assert [f"nb-{n}" for n in range(1, len(at.culled()) + 1)] == at.culled()
    assert 2 * 3 == len(at.culled())


async def test_a_warning_does_not_use_up_the_limit_of_stops():
    """Ten notebooks share a limit of one stop in five minutes; nine are warned just before the stop of the first is due."""
    at = Notebooks()
    await at.idle(10, pace={"per_minute": 1, "per_namespace": 1})
    at.kernels |= {f"nb-{n}": {"active_us": us(800)} for n in range(2, 11)}
    await at.pass_time(3_290)

    verbs = [(second, verb) for second, verb, _ in at.story if verb != "done"]
    assert [(1800, "warn"), *[(2600, "warn")] * 9, (2700, "cull")] == verbs

    # Stops do use it up: of the nine that are due from second 3500 on, one goes in five minutes.
    await at.pass_time(710)
    assert [2700, 3500, 3800] == [second for second, verb, _ in at.story if verb == "cull"]


async def test_deriving_the_decisions_of_a_day_again_gives_the_same_bytes():
    at = Notebooks()
    await at.idle(20)
    for number in range(1, 11):
        at.kernels[f"nb-{number}"] = {"active_us": us(number * 150)}
    await at.pass_time(2 * HOUR)
    at.clock.after(700)
    await at.pass_time(HOUR)
    found = rederive(lambda: at.transport.events, [reactor], CLUSTER)
    decided = [e for e in at.transport.events if e.type.startswith("decision.")]

    assert (len(decided), 0, ()) == (found.same, found.passed_over, found.mismatches)
    assert len(at.culled()) > 5
    assert msgspec.json.decode(decided[0].body)["numbers"]["idle_seconds"] == 1_800
