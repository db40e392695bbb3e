"""Kubeflow's rules live: the cases of its culler driven through evidence, history, reactor and effectors; then its faults.

Each case becomes what sources would have said of it. What is asserted is what stands on the Notebook afterwards.
"""

import pytest

from bus.clock import SECOND_US
from bus.events.clock import LEADER, ClockTicked
from bus.events.decisions import Cull
from bus.events.notebooks import Evidence, NotebookSampled
from bus.go_time import Stamp
from bus.kube.crds.culling import CHECKED_AT, LAST_ACTIVITY, STOPPED
from bus.notebooks import kubeflow as kind
from bus.notebooks.prober import ProbeResponse, Unanswered
from reactors.culling.decide import overtaken
from reactors.culling.effectors.patches import stop
from reactors.culling.policy import CullingPolicy, KubeflowRules
from reactors.culling.reactor import reactor
from reactors.culling.stamps import changes, stampings
from reactors.engine.policies import policy_changed
from reactors.engine.replica import Replica
from reactors.engine.verify import rederive
from tests.bus.notebooks.notebooks import peer
from tests.cases.culling import reply
from tests.cases.files import FILES
from tests.factories import (
    CLUSTER,
    START_US,
    numbered,
    owner,
    pod_observed,
    said,
    stamp,
    us,
    workload_observed,
)
from tests.reactors.culling.scene import Notebooks

CASES = [c for c in FILES["culling"]["cases"] if c["rule"] == "reconcile_kubeflow_1_8"]
BEFORE = 120
UNUSABLE = Unanswered("no_connection")
RULES = {"idle_minutes": 10, "period_minutes": 1}


def evidence_of(probe):
    """What the prober would have said of an answer."""
    (found,) = kind.reads([reply(probe) or UNUSABLE], peer(), 0)
    return found


def now_us(given):
    """The case's moment. The history counts microseconds: an instant between two is the later one."""
    return -(-Stamp.parse(given["now"]).ns // 1_000)


def policy_of(given):
    rules = KubeflowRules(
        idle_minutes=given["idle_minutes"], period_minutes=given["check_period_minutes"]
    )
    period_s = max(given["check_period_minutes"] * 60, 1)
    return CullingPolicy(kubeflow=rules, check_period_seconds=period_s)


def history(given, mode="on"):
    """The case as events, its tick the last."""
    now = (now_us(given) - START_US) / SECOND_US
    then = {"at": now - BEFORE, "namespace": given["namespace"]}
    fact = policy_changed("culling", mode, policy_of(given), author="test")
    yield said(fact, key="culling", id="policy", at=now - BEFORE)
    if given["notebook_exists"]:
        yield workload_observed(
            "notebook", kind="Notebook", name=given["name"], annotations=given["annotations"] or {},
            **then,
        )  # fmt: skip
        yield workload_observed(
            "set", kind="StatefulSet", owner=owner("notebook", "Notebook", given["name"]), **then
        )
    if given["pod_exists"]:
        yield pod_observed(
            "pod", name=f"{given['name']}-0", owner=owner("set", "StatefulSet"),
            created=now - BEFORE, **then,
        )  # fmt: skip
        looked = NotebookSampled(uid="pod", evidence=(evidence_of(given["kernels_probe"]),))
        yield said(looked, key="pod", id="look", at=now)
    yield said(ClockTicked(), key=LEADER, id="tick", at=now)


def played(given, mode="on"):
    """The replica at the end of the case's history, and what it decides there."""
    events = numbered(history(given, mode))
    replica = Replica([reactor], CLUSTER)
    for event in events:
        replica.apply(event)
    return replica, replica.decide(events[-1])


def written(given, replica, decisions):
    """The Notebook's annotations once everything is done to it; None = there is no Notebook."""
    if not given["notebook_exists"]:
        return None
    found = dict(given["annotations"] or {})
    view = replica.states["culling"]
    for stamping in stampings(view, policy_of(given), now_us(given)):
        found = merged(found, changes(stamping, found))
    for decision in decisions:
        metadata = {"uid": "notebook", "resourceVersion": "1", "annotations": found}
        found = merged(found, stop(decision, {"metadata": metadata})["metadata"]["annotations"])
    return {key: text for key, text in found.items() if not key.startswith("bursar.io/")}


def merged(annotations, patch):
    kept = annotations | {key: text for key, text in patch.items() if text is not None}
    return {key: text for key, text in kept.items() if patch.get(key, text) is not None}


def instants(annotations):
    """Stamps compared as instants, as everybody reads them: in which zone they are written is the controller's affair."""
    return {k: getattr(Stamp.parse(v), "ns", v) for k, v in (annotations or {}).items()}


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES])
def test_every_case_of_kubeflows_culler_ends_the_same_on_the_notebook(case):
    given, expected = case["given"], case["expect"]
    replica, decisions = played(given)
    after = expected["annotations"] or {}
    if expected["decision"] == "cull":
        # Its next pass, which the write of the stop key starts, takes the stamps away.
        after = {key: text for key, text in after.items() if key not in (LAST_ACTIVITY, CHECKED_AT)}

    assert (expected["decision"] == "cull") == (len(decisions) == 1)
    assert instants(after) == instants(written(given, replica, decisions))


def test_the_cases_cover_every_outcome():
    outcomes = {"gone", "already_stopped", "no_pod", "initialised", "too_soon", "keep", "cull"}

    assert outcomes == {case["expect"]["decision"] for case in CASES}


@pytest.mark.parametrize("mode", ["shadow", "on"])
def test_shadow_mode_decides_the_same_and_says_so(mode):
    case = next(c for c in CASES if c["id"].startswith("v1-29"))
    _, (decision,) = played(case["given"], mode)

    assert (Cull, mode == "shadow") == (type(decision), decision.is_shadow)
    assert ("kubeflow_idle", "Notebook", "nb1") == (
        decision.reason, decision.target.kind, decision.target.name,
    )  # fmt: skip


# stories


class Kubeflow(Notebooks):
    """One Notebook ``nb`` by Kubeflow's rules: idle after ten minutes, looked at each minute."""

    async def begin(self, mode="on", annotations=None, **evidence):
        await self.policy(mode, kubeflow=RULES, check_period_seconds=60)
        self.evidence = {"counters": {"kernels": 1}, "active_us": us(0), **evidence}
        await self.put(annotations or {})
        await self.start_pod()

    async def put(self, annotations):
        self.version += 1
        self.annotations = annotations
        await self.say(
            workload_observed(
                "nb", self.version, at=self.at(), kind="Notebook", annotations=annotations
            )
        )

    async def start_pod(self, uid="nb-0"):
        self.uid = uid
        self.version += 1
        pod = {"name": "nb-0", "created": self.at(), "owner": owner("set", "StatefulSet")}
        await self.say(pod_observed(uid, self.version, at=self.at(), **pod))

    async def minutes(self, count):
        """Looks and ticks; the stamps are written and seen, as the writer and the watch have it."""
        for _ in range(count):
            # Half a second after the minute, as answers come.
            await self.look(
                self.uid, at=self.at() + 0.5, **{"source": kind.SOURCE, **self.evidence}
            )
            for _ in range(6):
                await self.tick()
                await self.runner.work()
                await self.read()
                await self.stamp()

    async def stamp(self):
        current = self.runner.replica.policies.of("culling")
        if current.mode != "on":
            return
        view = self.runner.replica.states["culling"]
        for one in stampings(view, current.policy, self.clock.now_us()):
            await self.put(merged(self.annotations, changes(one, self.annotations)))


@pytest.mark.parametrize("mode", ["shadow", "on"])
async def test_an_idle_notebook_is_stopped_without_a_warning_when_the_limit_is_over(mode):
    at = Kubeflow()
    await at.begin(mode)
    await at.minutes(14)
    found = [(second // 60, verb) for second, verb, _ in at.story if verb in ("warn", "cull")]

    # The first tick after the first look that is past ten minutes.
    assert [(10, "cull")] == found


@pytest.mark.parametrize("before", ["shadow", "off"])
async def test_what_a_shadow_or_an_older_policy_would_have_stamped_stops_nobody(before):
    at = Kubeflow()
    await at.begin("shadow", outcome="unreachable", active_us=None)
    await at.minutes(30)
    await at.policy(before)
    await at.minutes(30)
    shadowed = len(at.culled())
    await at.policy("on", kubeflow=RULES, check_period_seconds=60)
    await at.minutes(9)
    early = at.culled()[shadowed:]
    await at.minutes(5)

    assert ([], ["nb-0"]) == (early, at.culled()[shadowed:])


async def test_a_replay_decides_the_same():
    at = Kubeflow()
    await at.begin()
    await at.minutes(14)
    found = rederive(lambda: at.transport.events, (reactor,), CLUSTER)

    assert (1, ()) == (found.same, found.mismatches)


@pytest.mark.parametrize(
    "evidence",
    [
        {"busy": True, "active_us": None},
        {"counters": {"kernels": 1}, "active_us": us(10_000)},
        {"source": "jupyter_kernels"},
    ],
    ids=["busy", "a stamp ahead of the clock", "nobody asked as the culler does"],
)
async def test_what_keeps_a_notebook_from_being_stopped(evidence):
    at = Kubeflow()
    await at.begin(**evidence)
    await at.minutes(30)

    assert [] == at.culled()


@pytest.mark.parametrize(
    "evidence",
    [
        {"outcome": "unreachable", "active_us": None},
        {"outcome": "refused", "active_us": None},
        {"outcome": "malformed", "active_us": None},
        {"counters": {"kernels": 0}, "active_us": None},
    ],
    ids=["unreachable", "refused", "another server", "no kernels, a busy terminal"],
)
async def test_the_known_fault_a_notebook_in_use_that_cannot_be_read_is_stopped(evidence):
    at = Kubeflow()
    await at.begin(**evidence)
    await at.minutes(14)

    assert ["nb-0"] == at.culled()


async def test_without_a_look_there_is_no_pass_and_no_stop():
    at = Kubeflow()
    await at.begin()
    await at.minutes(5)
    await at.pass_time(7_200)

    assert [] == at.culled()


async def test_where_bursars_own_rules_decide_this_evidence_alone_stops_nobody():
    at = Notebooks()
    await at.idle()
    at.kernels["nb-1"] = {"source": kind.SOURCE, "counters": {"kernels": 1}}
    await at.pass_time(7_200)

    assert [] == at.story


async def test_an_owner_may_exempt_a_notebook_here_too():
    at = Kubeflow()
    await at.begin(annotations={"bursar.io/do-not-cull": "true"})
    await at.minutes(30)

    assert [] == at.culled()


async def test_a_restart_by_kubeflows_web_ui_starts_a_fresh_idle_period():
    at = Kubeflow()
    await at.begin()
    await at.minutes(5)
    await at.put({**at.annotations, STOPPED: stamp(at.at())})
    await at.stamp()
    stopped = dict(at.annotations)
    await at.put({key: text for key, text in at.annotations.items() if key != STOPPED})
    await at.start_pod("nb-0-again")
    began = at.at()
    at.evidence["active_us"] = us(began)
    await at.minutes(9)
    early = at.culled()
    await at.minutes(5)
    (second,) = [second for second, verb, _ in at.story if verb == "cull"]

    assert ({STOPPED}, []) == (set(stopped), early)
    assert second > began + 600


async def test_an_answer_after_the_decision_that_shows_activity_voids_it():
    at = Kubeflow()
    await at.begin()
    await at.minutes(12)
    (cull,) = at.decisions(Cull)
    await at.look(at.uid, at=at.at() + 60, source=kind.SOURCE, busy=True, counters={"kernels": 1})
    replica = at.runner.replica
    policy = replica.policies.of("culling").policy

    assert "active" == overtaken(replica.states["culling"], cull, policy)


async def test_a_warning_of_bursars_own_rules_is_taken_back():
    at = Notebooks()
    await at.idle()
    await at.pass_time(1_900)
    await at.policy(kubeflow=RULES)
    await at.pass_time(100)

    assert ["warn", "withdraw"] == [verb for _, verb, _ in at.story if verb != "done"]


# what is read


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (ProbeResponse(403, b""), Evidence(source=kind.SOURCE, outcome="refused", fault="http_403")),
        (ProbeResponse(404, b""), Evidence(source=kind.SOURCE, outcome="unreachable", fault="http_404")),
        (UNUSABLE, Evidence(source=kind.SOURCE, outcome="unreachable", fault="no_connection")),
        (ProbeResponse(200, b"<html>"), Evidence(source=kind.SOURCE, outcome="malformed", fault="not_kernels")),
        (ProbeResponse(200, b"[]"), Evidence(source=kind.SOURCE, counters={"kernels": 0})),
    ],
    ids=["refused", "no such path", "unreachable", "another server", "no kernels"],
)  # fmt: skip
def test_what_is_published_of_an_answer(answer, expected):
    assert (expected,) == kind.reads([answer], peer(), 0)


def test_only_the_culler_s_own_path_is_asked_and_without_a_token():
    found = peer(labels={"notebook-name": "nb"}, token="secret", base_path="/elsewhere/")
    (target,) = kind.asks(found)

    assert (f"/notebook/{found.namespace}/nb/api/kernels?no_track_activity=1", "") == (
        target.path, target.token,
    )  # fmt: skip
    assert () == kind.asks(peer())
