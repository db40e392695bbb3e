"""Every review has an answer: none raises, whatever stands in it, and none refuses what no quota governs."""

import asyncio
import copy
import random

import msgspec
import pytest

from bus.kube.kinds import GOVERNED
from reactors.admission.reviewing.governing import names_quota
from reactors.admission.reviewing.questions import CLAIMS, TEMPLATES
from reactors.admitting import failing
from reactors.queue.hold import Hold
from reactors.webhook.application import Application
from reactors.webhook.review import Answer, parse
from tests.reactors.admission.below import CONTROLLER
from tests.reactors.admission.reviewing.ungoverned import (
    BY_NAME,
    addressed,
    of_owner,
    sample,
    scale,
)
from tests.reactors.cluster import QUOTA, Cluster, demand, job
from tests.reactors.outages import response

pytestmark = pytest.mark.simulated

#: Creates of the issue, each with one pod of its controller.
CREATES = 1_000
MUTATED = 4_000

ODD = (
    None, True, -1, 0, 2**31, 2**63 - 1, 1.5, "", "x" * 300, "1e99", "-5", "\u2028<&", [], {}, [None], [[]], {"": {}},
    {"a": None}, "free", "team", [{"controller": True}], {"requests": {"cpu": []}},
)  # fmt: skip
#: What the API server itself writes, and what says whether a quota governs.
KEPT = ("name", "namespace", "uid", "labels")
AUTOSCALER = {
    "group": "autoscaling", "version": "v2", "resource": "horizontalpodautoscalers",
    "kind": "HorizontalPodAutoscaler",
}  # fmt: skip


@pytest.fixture
async def cluster():
    """Things of every kind that were seen, half of them without a quota."""
    async with Cluster() as running:
        await running.see_quota("team", {"limits.cpu": 100_000, "requests.example.org/gpu": 4})
        for kind in GOVERNED[1:]:
            for namespace, quota in (("free", ""), ("ns", "team")):
                await running.see(
                    f"{namespace}-{kind.kind}", 2, kind=kind.kind, quota=quota, namespace=namespace,
                    per_replica=demand(2), replicas=1, settles=False,
                )  # fmt: skip
        await running.settled()
        yield running


def reviewed(item, how, **fields):
    """The body of a review, as an API server sends it."""
    named = (item or fields.get("oldObject"))["metadata"]
    kind = {"group": how["group"], "version": how["version"]}
    request = {
        "uid": "r", "operation": "CREATE", "namespace": named["namespace"], "name": named["name"],
        "kind": {**kind, "kind": how["kind"]}, "resource": {**kind, "resource": how["resource"]},
        "userInfo": {"username": "amy"}, "object": item, "oldObject": None, "dryRun": False,
    }  # fmt: skip
    whole = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return msgspec.json.encode({**whole, "request": request | fields})


class Bodies:
    """Reviews of what may be in a cluster, each with something else in the place of a few of its values."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.number = 0

    def next(self):
        chance, namespace = self.random, self.random.choice(("free", "ns"))
        labels = {QUOTA: "team"} if namespace == "ns" else {}
        kind = chance.choice(GOVERNED)
        self.number += 1
        uid = chance.choice((f"{namespace}-{kind.kind}", f"new-{self.number}"))
        by = chance.choice([None, *GOVERNED[1:]])
        above = chance.choice((f"{namespace}-{by.kind}", "unseen")) if by else ""
        made = {"by": (by.kind, above) if by else None, "version": chance.randint(1, 99)}
        item, how = sample(kind, uid, namespace, **made, **labels), addressed(kind)
        old, fields = None, {}
        if chance.random() < 0.15:
            item, how = self._other(item, namespace, kind)
        if chance.random() < 0.5 or "subResource" in how:
            fields["operation"] = "UPDATE"
            old = self.odd(item)
        if chance.random() < 0.4:
            groups = list(CONTROLLER["groups"])
            fields["userInfo"] = {"username": CONTROLLER["user"], "groups": groups}
        fields["dryRun"] = chance.random() < 0.2
        fields |= {k: how[k] for k in ("subResource",) if k in how}
        return reviewed(self.odd(item), how, oldObject=old, **fields)

    def _other(self, item, namespace, kind):
        metadata, what = item["metadata"], self.random.randrange(4)
        if what == 0:
            target = {
                "kind": kind.kind,
                "name": f"{namespace}-{kind.kind}",
                "apiVersion": "apps/v1",
            }
            return {
                "metadata": metadata,
                "spec": {"scaleTargetRef": target, "maxReplicas": 3},
            }, AUTOSCALER
        if what == 1 and kind.scales:
            sized = scale(metadata["uid"], 9, 1, namespace)["item"]
            return sized, {**addressed(kind), "subResource": "scale"}
        asks = {"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": "gpu"}}]}}
        (group, resource), spec = (CLAIMS, asks) if what == 2 else (TEMPLATES, {"spec": asks})
        how = {"group": group, "version": "v1", "resource": resource, "kind": "ResourceClaim"}
        return {"metadata": metadata, "spec": spec}, how

    def odd(self, item):
        """The item with up to three values exchanged or taken away; its name and place stay."""
        item = copy.deepcopy(item)
        for _ in range(self.random.choice((0, 1, 1, 3))):
            at = self.random.choice(list(_places(item)))
            if len(at) < 2 or (at[0] == "metadata" and at[1] in KEPT):
                continue
            inner = item
            for step in at[:-1]:
                inner = inner[step]
            if self.random.random() < 0.2:
                del inner[at[-1]]
            else:
                inner[at[-1]] = copy.deepcopy(self.random.choice(ODD))
        return item


def _places(value, at=()):
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*at, key)
        if isinstance(inner, dict | list):
            yield from _places(inner, (*at, key))


@pytest.mark.parametrize("seed", range(3))
async def test_no_review_raises_and_none_refuses_what_no_quota_governs(cluster, seed):
    bodies, refused = Bodies(seed), 0
    handler = cluster.admission.handler
    hold = Hold(cluster.admission.journals, cluster.admission.view)
    failure = failing(cluster.admission)
    for _ in range(MUTATED // 3):
        raw = bodies.next()
        review = parse(raw)
        answer = await handler(review)
        assert isinstance(answer, Answer), raw
        assert (await hold(review)).allowed
        failed = failure(review, RuntimeError("a bug"))
        refused += not answer.allowed
        if review.namespace == "free" and not names_quota(review.object):
            assert answer.allowed and failed.allowed, (answer, raw)
    assert refused > 50


async def test_two_thousand_ungoverned_creates_in_enforce_fail_nowhere(cluster):
    """Half of them are pods of a Job, a ReplicaSet or a StatefulSet that was seen, or not yet."""
    handler, failure = cluster.admission.handler, failing(cluster.admission)
    application = Application(handler, failure)
    kinds = [BY_NAME[name] for name in ("Job", "ReplicaSet", "StatefulSet", "DaemonSet")]
    controller = {"username": CONTROLLER["user"], "groups": list(CONTROLLER["groups"])}

    async def create(number):
        kind = kinds[number % len(kinds)]
        uid, pod = f"top-{number}", BY_NAME["Pod"]
        first = await response(application, reviewed(sample(kind, uid), addressed(kind)))
        if number % 3:
            owner = of_owner(None)
            await cluster.see(
                uid, 2, kind=kind.kind, quota="", namespace="free", owner=owner, settles=False
            )
            await asyncio.sleep(0)
        below = reviewed(
            sample(pod, f"pod-{number}", by=(kind.kind, uid)), addressed(pod), userInfo=controller
        )
        return [first, await response(application, below)]

    answers = [one for number in range(CREATES) for one in await create(number)]

    state = application.state
    assert (len(answers), state.failed, state.late, state.allowed) == (
        2 * CREATES,
        0,
        0,
        2 * CREATES,
    )
    assert not state.denied and all("warnings" not in one for one in answers)


async def test_a_decision_that_no_message_holds_is_refused_alone(cluster):
    """Long names of resources, and a model of many parts: the bus refused the whole batch, neighbors and all."""
    names = {"cpu": "1"} | {f"n{n}.{'.'.join(['b' * 60] * 4)}/{'c' * 63}": "1" for n in range(62)}
    long, typed = job("long", 1), job("typed", 1)
    container = {"name": "main", "resources": {"limits": names, "requests": names}}
    long["spec"]["template"]["spec"]["containers"] = [container]
    cards = {"cpu": "1"} | {f"n{n}.io/gpu": "1" for n in range(62)}
    container = {"name": "main", "resources": {"limits": cards, "requests": cards}}
    typed["spec"]["template"]["spec"]["containers"] = [container]
    typed["metadata"]["labels"][f"{QUOTA}/gpu-type"] = ".".join("a" * 32)

    asked = [cluster.ask("good", 1), cluster.review(long), cluster.review(typed)]
    found = await asyncio.gather(*asked, cluster.ask("fine", 1))

    assert [one.reason for one in found] == ["fits", *["demand-unreadable"] * 2, "fits"]
    assert "61440 bytes" in found[1].message and found[1].code == 422
    assert max(len(event.body) for event in cluster.transport.events) < 64 * 1024


async def test_an_object_that_no_message_holds_stays_uncharged_alone(cluster, caplog):
    """It passed while nothing was refused. Charging it ended `bursar up`, and each start after it."""
    demand_of = {f"{part}.n{n}.io/gpu": 1 for n in range(62) for part in ("limits", "requests")}
    labels = {QUOTA: "team", f"{QUOTA}/gpu-type": ".".join("a" * 32)}
    before = cluster.used()
    await cluster.see("large", 0, demand=demand_of, labels=labels, settles=False)
    await cluster.see("last", 1)

    assert cluster.used() == before + 1000
    assert "Job ns/large is not charged until it changes" in caplog.text
    await cluster.see("large", 2)
    assert cluster.used() == before + 3000


async def test_a_question_that_fails_is_answered_alone(cluster, monkeypatch):
    """Reviews that wait together are decided together: the fault of one was everybody's refusal."""
    from reactors.admission.reviewing import charges as module

    decide = module.decide_review

    def faulty(draft, request, now_us):
        if request.uid == "bad":
            raise RuntimeError("a bug")
        return decide(draft, request, now_us)

    monkeypatch.setattr(module, "decide_review", faulty)
    asked = [cluster.ask(uid, 1) for uid in ("good", "bad", "fine")]
    found = await asyncio.gather(*asked, return_exceptions=True)

    assert [getattr(one, "reason", str(one)) for one in found] == ["fits", "a bug", "fits"]
