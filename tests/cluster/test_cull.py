"""Warning, stopping and giving back on a real API server: once, and never another object. Source: docs/reliability.md."""

import itertools

import msgspec
import pytest

from bus import crashpoints
from bus.clock import SECOND_US, SystemClock
from bus.events.decisions import Cull, EffectSettled, Restore, Target, Warn, Withdraw
from bus.kube.client import Access, connect
from reactors.culling.effectors import CullEffector
from reactors.engine.contract import decision_id
from reactors.engine.policies import policy_changed
from tests.cluster import notebooks
from tests.cluster.api import ApiError, eventually
from tests.factories import CLUSTER, said
from tests.reactors.engine.toys import Scene, ToyPolicy

pytestmark = pytest.mark.kube

KINDS = ("Notebook", "StatefulSet", "Deployment", "Pod")
YEAR_US = 365 * 86_400 * SECOND_US
PREFIX = "bursar.io/notebook-"
_numbers = itertools.count(1)


class OffClock:
    """The machine's clock, so much ahead."""

    def __init__(self, ahead_us=0):
        self.ahead_us = ahead_us

    def now_us(self):
        return SystemClock().now_us() + self.ahead_us


@pytest.fixture(scope="module")
def installed(plane):
    notebooks.install(plane)
    return plane


@pytest.fixture
async def cluster(installed):
    opened = await connect(Access(str(installed.kubeconfig)))
    yield opened
    await opened.close()


@pytest.fixture
async def act(cluster):
    """Has a decision done by a runner of its own, as after a restart; gives its outcome, None while there is none."""
    scene = Scene(clock=OffClock(), effector=CullEffector(cluster, OffClock()))
    policy = policy_changed("toy", "on", ToyPolicy(), author="test")
    await scene.say(said(policy, key="toy", id="policy", at=0))

    async def act(decision, ahead_us=0, look=None):
        digest = scene.runner.replica.policies.of("toy").digest
        decision = msgspec.structs.replace(decision, policy=digest)
        event = decision.event(
            cluster=CLUSTER, key=decision.key, id=decision.id, source="t", time_us=decision.at_us
        )
        await scene.transport.publish([event])
        scene.clock = OffClock(ahead_us)
        effector = CullEffector(cluster, scene.clock, look)
        scene.effectors = dict.fromkeys(scene.effectors, effector)
        scene.runner = scene.new_runner(scene.reactor)
        await scene.read()
        await scene.runner.work()
        await scene.read()
        settled = [e for e in scene.transport.events if e.key == decision.id]
        facts = [EffectSettled.read(e) for e in settled if e.type == EffectSettled.wire_type]
        return (facts[-1].result, facts[-1].message) if facts else None

    return act


def decision(verb, found, key="nb", ahead_us=0, **fields):
    """``verb`` on the object ``found``."""
    meta, now_us = found["metadata"], SystemClock().now_us() + ahead_us
    number = next(_numbers)
    return verb(
        id=decision_id("toy", number, key), reactor="toy", rules=1, key=key, trigger=number,
        at_us=now_us, policy="", is_shadow=False, reason="idle",
        target=Target(found["kind"], meta["namespace"], meta["name"], meta["uid"]),
        numbers={"last_activity_us": now_us, "idle_seconds": 60, "warning_seconds": 60},
        expires_us=now_us + 300 * SECOND_US, **fields,
    )  # fmt: skip


def annotations(found):
    kept = ("kubeflow", PREFIX)
    said = found["metadata"].get("annotations", {})
    return {key.removeprefix(PREFIX): text for key, text in said.items() if key.startswith(kept)}


def is_stopped(found):
    if found["kind"] == "Notebook":
        return "kubeflow-resource-stopped" in annotations(found)
    return found["spec"].get("replicas") == 0


@pytest.mark.parametrize("kind", KINDS[:3])
async def test_a_cull_stops_it_and_says_by_which_decision_and_why(installed, namespace, act, kind):
    found = notebooks.create(installed, namespace, kind)
    cull = decision(Cull, found)

    assert ("done", "") == await act(cull)
    after = notebooks.get(installed, namespace, kind)
    assert (True, cull.id) == (is_stopped(after), annotations(after)["culled-by"])
    assert annotations(after)["cull-reason"].startswith("Nobody used it since 2")
    events = installed.api.request("GET", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
    ours = [e for e in events["items"] if e["metadata"]["name"] == f"bursar.{cull.id}"]
    assert [("Culled", kind)] == [(e["reason"], e["regarding"]["kind"]) for e in ours]


async def test_a_pod_without_a_controller_is_evicted(installed, namespace, act):
    found = notebooks.create(installed, namespace, "Pod")

    assert ("done", "") == await act(decision(Cull, found))
    eventually(lambda: not exists(installed, namespace, "Pod"))


def exists(plane, namespace, kind):
    try:
        return notebooks.get(plane, namespace, kind)
    except ApiError as error:
        assert error.status == 404
        return None


@pytest.mark.parametrize("kind", KINDS[:3])
async def test_undoing_a_cull_gives_back_what_was_there(installed, namespace, act, kind):
    found = notebooks.create(installed, namespace, kind)
    cull = decision(Cull, found)
    await act(cull)
    restore = decision(Restore, found, key=cull.id)

    assert ("done", "") == await act(restore)
    after = notebooks.get(installed, namespace, kind)
    assert found["spec"] == after["spec"]
    assert {"restored-by": restore.id} == annotations(after)


@pytest.mark.parametrize("kind", KINDS[:3])
async def test_what_its_owner_started_meanwhile_is_not_undone(installed, namespace, act, kind):
    found = notebooks.create(installed, namespace, kind)
    cull = decision(Cull, found)
    await act(cull)
    start(installed, namespace, kind)
    before = notebooks.get(installed, namespace, kind)

    assert "stale" == (await act(decision(Restore, found, key=cull.id)))[0]
    assert annotations(before) == annotations(notebooks.get(installed, namespace, kind))


def start(plane, namespace, kind):
    """As its owner does."""
    body = {"spec": {"replicas": 1}}
    if kind == "Notebook":
        body = {"metadata": {"annotations": {"kubeflow-resource-stopped": None}}}
    path = f"{notebooks.PATHS[kind].format(namespace)}/nb"
    plane.api.request("PATCH", path, body, content_type="application/merge-patch+json")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_warning_is_seen_on_the_object_and_taken_back(installed, namespace, act, kind):
    found = notebooks.create(installed, namespace, kind)
    warn = decision(Warn, found)

    assert ("done", "") == await act(warn)
    warned = annotations(notebooks.get(installed, namespace, kind))
    assert (warn.id, {"culls-at", "warned-by"}) == (warned["warned-by"], set(warned))
    assert ("done", "") == await act(decision(Withdraw, found))
    assert {} == annotations(notebooks.get(installed, namespace, kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verb", [Cull, Warn])
async def test_a_namesake_is_left_alone(installed, namespace, act, kind, verb):
    found = notebooks.create(installed, namespace, kind)
    path = f"{notebooks.PATHS[kind].format(namespace)}/nb"
    installed.api.request("DELETE", path)
    eventually(lambda: not exists(installed, namespace, kind))
    assert ("gone", "not_found") == await act(decision(verb, found))
    namesake = notebooks.create(installed, namespace, kind)

    assert "gone" == (await act(decision(verb, found)))[0]
    after = notebooks.get(installed, namespace, kind)
    assert (namesake["metadata"]["uid"], {}) == (after["metadata"]["uid"], annotations(after))
    assert not is_stopped(after)


@pytest.mark.parametrize("ahead_us", [YEAR_US, -YEAR_US], ids=["a year ahead", "a year back"])
@pytest.mark.parametrize("verb", [Cull, Warn])
@pytest.mark.parametrize("kind", ["Notebook", "Pod"])
async def test_where_the_api_servers_clock_disagrees_nothing_is_done(
    installed, namespace, act, kind, verb, ahead_us
):
    found = notebooks.create(installed, namespace, kind)

    assert ("refused", "clocks_disagree") == await act(
        decision(verb, found, ahead_us=ahead_us), ahead_us
    )
    after = notebooks.get(installed, namespace, kind)
    assert ({}, False) == (annotations(after), "deletionTimestamp" in after["metadata"])


LABELS = [one for one in crashpoints.LABELS if one.startswith(("effect.", "cull."))]


class Killed(BaseException):
    """Ends a process as a signal does."""


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("kind", KINDS)
async def test_killed_at_any_label_it_is_stopped_once_and_never_after_its_owner_started_it(
    installed, namespace, act, kind, label
):
    found = notebooks.create(installed, namespace, kind)
    cull = decision(Cull, found)
    reached = await killed_at(label, act(cull))
    kinds = {"evict": ("Pod",), "restore": (), "scale": ("StatefulSet", "Deployment")}
    wanted = [kind in found for word, found in kinds.items() if word in label]
    assert reached == all(wanted)
    if kind == "Pod":
        assert (await act(cull))[0] in ("done", "gone")
        return eventually(lambda: not exists(installed, namespace, kind))
    after = notebooks.get(installed, namespace, kind)
    was_stopped = is_stopped(after)
    if was_stopped:
        start(installed, namespace, kind)

    # Killed between the scale and the end of its mark, it may be the owner who changed it.
    is_unsure = label == "cull.after_scale" and kind in kinds["scale"]
    assert (("stale", "changed meanwhile") if is_unsure else ("done", "")) == await act(cull)
    assert is_stopped(notebooks.get(installed, namespace, kind)) is not was_stopped


async def killed_at(label, work):
    """Whether the label was reached, and the process ended there."""

    def hook(reached):
        if reached == label:
            crashpoints.install(None)
            raise Killed(label)

    crashpoints.install(hook)
    try:
        await work
    except Killed:
        return True
    finally:
        crashpoints.install(None)
    return False


@pytest.mark.parametrize("kind", KINDS[1:3])
@pytest.mark.parametrize(
    "label", ["cull.before_restore", "cull.before_scale", "cull.after_scale", "cull.after_restore"]
)
async def test_killed_while_giving_back_it_is_given_back_once(
    installed, namespace, act, kind, label
):
    found = notebooks.create(installed, namespace, kind)
    cull = decision(Cull, found)
    assert ("done", "") == await act(cull)
    restore = decision(Restore, found, key=cull.id)

    assert await killed_at(label, act(restore))
    assert ("done", "") == await act(restore)
    after = notebooks.get(installed, namespace, kind)
    assert (1, {"restored-by": restore.id}) == (after["spec"]["replicas"], annotations(after))


async def test_an_object_that_changed_meanwhile_is_looked_at_again(installed, namespace, act):
    found = notebooks.create(installed, namespace, "Notebook")
    cull = decision(Cull, found)

    def changed(label):
        if label == "cull.before_stop":
            crashpoints.install(None)
            path = f"{notebooks.PATHS['Notebook'].format(namespace)}/nb"
            body = {"metadata": {"annotations": {"kubeflow-resource-stopped": "by its owner"}}}
            installed.api.request("PATCH", path, body, content_type="application/merge-patch+json")

    crashpoints.install(changed)
    assert ("stale", "stopped already") == await act(cull)
    after = annotations(notebooks.get(installed, namespace, "Notebook"))
    assert {"kubeflow-resource-stopped": "by its owner"} == after


@pytest.mark.parametrize("kind", KINDS)
async def test_what_a_last_look_finds_in_use_is_not_stopped(installed, namespace, act, kind):
    found = notebooks.create(installed, namespace, kind)

    async def look(decision):
        return "active"

    assert ("stale", "active at the last look") == await act(decision(Cull, found), look=look)
    after = notebooks.get(installed, namespace, kind)
    assert ({}, False) == (annotations(after), is_stopped(after))
