"""Quotas on a real API server: a bad one is refused with words to act on, a good one is told to the history."""

import asyncio
import json

import pytest

from bus.clock import SystemClock
from bus.events import VOCABULARY
from bus.events.quotas import NamespaceRequirement
from bus.events.vocabulary import read
from bus.kube.client import Access, connect
from bus.kube.crds.quotas import PATH
from bus.kube.watch.contract import ReflectorSettings
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Record
from bus.kube.watch.reflector import Reflector
from bus.memory import MemoryTransport
from bus.sources.catalogue import BUSINESS_QUOTAS
from bus.sources.quotas import PREFIX, translate
from tests.cluster.quotas import installed, name, quota

__all__ = ["installed", "name"]

pytestmark = pytest.mark.kube

QUICK = ReflectorSettings(apart_seconds=0.0, wait_seconds=0.05, longest_wait_seconds=0.5)
ELASTIC_PATH = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces"


def complaint(plane, text):
    """What kubectl apply says of an object that it must not take."""
    with pytest.raises(RuntimeError) as caught:
        plane.kubectl("apply", "-f", "-", input=text)
    return str(caught.value)


def window(begin, end):
    return {"from": f"{begin}T00:00:00Z", "until": f"{end}T00:00:00Z"}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"hard": {"limits.cpu": "-1"}}, "spec.hard[limits.cpu]: Invalid value: \"-1\": a quantity is not negative"),
        ({"hard": {"limits.cpu": -1}}, "spec.hard[limits.cpu]: Invalid value: -1: a quantity is not negative"),
        ({"hard": {"limits.cpu": "１２"}}, "a quantity is not negative and at most 32 characters: 10, 500m, 64Gi"),
        ({"hard": {"limits.cpu": "1" * 33}}, "spec.hard.limits.cpu: Too long: may not be"),
        ({"hard": {"cpu": "1"}}, "spec.hard: Invalid value: keys are requests.<resource> or limits.<resource>"),
        ({"hard": {"cash/limits.rdma/hca": "1"}}, "cash/ for a budget of cpu, memory or <vendor>/gpu"),
        ({"parentBizGroup": "Dept"}, "spec.parentBizGroup: Invalid value: \"Dept\": a name is at most 63"),
        ({"elastic": {"min": {"cpu": "1"}}}, "every resource of min must be in max too"),
        ({"elastic": {"min": {"cpu": "2Ki"}, "max": {"cpu": "2k"}}}, "min must not be above max"),
        ({"elastic": {"max": {"CPU": "1"}}}, "resources are cpu, memory"),
        ({"budget": {"period": "Year"}}, 'supported values: "Day", "Week", "Month", "Total"'),
        ({"budget": {"period": "Day", "windows": [window("2026-01-01", "2026-02-01")]}},
         "give either a period or windows"),
        ({"budget": {"windows": [window("2026-02-01", "2026-01-01")]}}, "a window must end after it starts"),
        ({"budget": {"windows": [window("2026-01-01", "2026-02-01"), window("2026-03-01", "2026-04-01")]}},
         "no gaps, no overlaps"),
        ({"budget": {"windows": [window("2026-01-01", "2026-03-01"), window("2026-02-01", "2026-04-01")]}},
         "no gaps, no overlaps"),
        ({"budget": {"windows": [window("2026-01-01", "3026-01-01")]}}, "ten years at most"),
        ({"queue": {"maxHeadDelaySeconds": -1}}, "greater than or equal to 0"),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}},
         "namespaces are selected by labels that every history keeps: kubernetes.io/metadata.name"),
        ({"namespaceSelector": {"matchExpressions": [{"key": "example.com/a", "operator": "Exists"}]}},
         "give the namespaces such a label, or name them in spec.namespaces"),
        ({"namespaceSelector": {"matchExpressions": [{"key": "bursar.io/a", "operator": "In"}]}},
         "In and NotIn need values, Exists and DoesNotExist take none"),
        ({"namespaceSelector": {}}, "a selector without requirements would select every namespace"),
        ({"spare": 1}, 'unknown field "spec.spare"'),
    ],
    ids=lambda part: str(part)[:60],
)  # fmt: skip
def test_a_bad_quota_is_refused_with_words_to_act_on(installed, name, spec, said):
    assert said in complaint(installed, quota(name, **spec))


@pytest.mark.parametrize("bad", ["a.b", "x" * 64])
def test_a_name_must_be_a_label(installed, bad):
    assert "metadata.name: a name is at most 63" in complaint(installed, quota(bad))


def test_a_quota_cannot_be_its_own_parent(installed, name):
    assert "cannot be its own parent" in complaint(installed, quota(name, parentBizGroup=name))


def test_a_quota_cannot_be_moved(installed, name):
    installed.kubectl("apply", "-f", "-", input=quota(name))

    assert "a quota cannot be moved" in complaint(installed, quota(name, parentBizGroup="dept"))


def test_an_unknown_version_is_refused(installed, name):
    assert "no matches for kind" in complaint(installed, quota(name, version="v9"))


def test_c14_a_change_of_an_older_version_is_a_conflict(installed, name):
    installed.kubectl("apply", "-f", "-", input=quota(name))
    stale = json.loads(quota(name))
    stale["metadata"]["resourceVersion"] = "1"

    with pytest.raises(RuntimeError, match=r"Conflict|modified"):
        installed.kubectl("replace", "-f", "-", input=json.dumps(stale))


async def test_a_stored_quota_is_told_with_its_defaults(installed, name):
    spec = {
        "hard": {"limits.cpu": 10, "limits.cpu.A4": "4", "cash/limits.cpu": "100"},
        "elastic": {"max": {"cpu": "10"}},
        "budget": {"windows": [window("2026-01-01", "2026-02-01")]},
        "queue": {},
        "namespaceSelector": {"matchLabels": {"bursar.io/tier": "gold"}},
    }
    installed.kubectl("apply", "-f", "-", input=quota(name, **spec))
    fact = await told(installed, f"{PATH}/{name}", "BizGroupResourceQuota")

    assert (fact.problem, fact.hard, fact.cash, fact.max, fact.generation) == (
        "",
        {"limits.cpu": 10_000, "limits.cpu.A4": 4_000},
        {"limits.cpu": 360_000_000},
        {"cpu": 10_000},
        1,
    )
    assert fact.serves.selector == (NamespaceRequirement("bursar.io/tier", "In", ("gold",)),)
    assert (fact.budget.period, fact.budget.exhaustion, fact.queue.order) == (
        "Windows",
        "DenyNew",
        "BackFill",
    )


async def test_koordinators_quota_is_told_alike(installed, namespace):
    path = f"{ELASTIC_PATH}/{namespace}/elasticquotas"
    body = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "a", "labels": {f"{PREFIX}parent": "dept"}},
        "spec": {"min": {"cpu": 2}, "max": {"cpu": "4"}},
    }
    installed.api.request("POST", path, body)
    fact = await told(installed, f"{path}/a", "ElasticQuota")

    assert (fact.namespace, fact.parent, fact.min, fact.max) == (
        namespace,
        "dept",
        {"cpu": 2_000},
        {"cpu": 4_000},
    )


async def test_a_status_that_is_written_is_not_said_again(installed, name):
    transport = MemoryTransport()
    installed.kubectl("apply", "-f", "-", input=quota(name, hard={"limits.cpu": 1}))
    cluster = await connect(Access(str(installed.kubeconfig)))
    follower = Reflector(BUSINESS_QUOTAS, cluster, transport, SystemClock(), settings=QUICK)
    task = asyncio.create_task(follower.run())
    try:
        await _until(lambda: follower.state.listed_us)
        uid = (await cluster.get(f"{PATH}/{name}"))["metadata"]["uid"]
        await cluster.merge(f"{PATH}/{name}/status", {"status": {"used": {"limits.cpu": "1"}}})
        await cluster.merge(f"{PATH}/{name}", {"spec": {"hard": {"limits.cpu": 2}}})
        await _until(lambda: len(said(transport, uid)) == 2)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await cluster.close()

    assert [fact.hard for fact in said(transport, uid)] == [
        {"limits.cpu": 1_000},
        {"limits.cpu": 2_000},
    ]


def said(transport, uid):
    """What the history says of one quota."""
    return [read(event, VOCABULARY) for event in transport.events if event.key == uid]


async def _until(is_so):
    async with asyncio.timeout(30):
        while not is_so():
            await asyncio.sleep(0.02)


async def told(plane, path, kind):
    """The fact of the object at a path."""
    cluster = await connect(Access(str(plane.kubeconfig)))
    try:
        raw = json.dumps(await cluster.get(path)).encode()
    finally:
        await cluster.close()
    return read(translate(Record("LISTED", raw, 5, "c", "s"), LabelPolicy(), kind=kind), VOCABULARY)


def test_c16_a_tenant_cannot_edit_the_quota_of_any_group(installed, name, namespace):
    """docs/wrong-input.md C16: quotas belong to the cluster, so a role in a namespace says nothing of them."""
    installed.kubectl("apply", "-f", "-", input=quota(name, hard={"limits.cpu": "1"}))
    installed.kubectl(
        "create",
        "rolebinding",
        "tenant",
        "--clusterrole=admin",
        "--user=tenant",
        f"--namespace={namespace}",
    )

    with pytest.raises(RuntimeError) as caught:
        installed.kubectl(
            "apply", "--as=tenant", "-f", "-", input=quota(name, hard={"limits.cpu": "100"})
        )

    assert "Forbidden" in str(caught.value) or "forbidden" in str(caught.value)
