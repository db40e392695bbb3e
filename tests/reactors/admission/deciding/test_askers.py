"""What one asker can do to everybody's webhook: his rate is his own, and names that he invents leave nothing behind.

Covers workloads that name business and elastic quotas which do not exist, dry runs, quotas below parents or in trees
which do not exist, and service accounts that a tenant makes to ask as many.
"""

import asyncio

import msgspec
import pytest

from bus.events.admissions import entries
from reactors.admission.deciding import rate
from reactors.admission.deciding.rate import Buckets, Rate
from tests.reactors.cluster import Cluster, job

pytestmark = pytest.mark.simulated

NAMES = 10_000
ELASTIC = "quota.scheduling.koordinator.sh/name"
OF_QUOTA = {
    "group": "bursar.io", "version": "v1alpha1", "resource": "bizgroupresourcequotas",
    "kind": "BizGroupResourceQuota",
}  # fmt: skip
OF_ELASTIC = {
    "group": "scheduling.sigs.k8s.io", "version": "v1alpha1", "resource": "elasticquotas",
    "kind": "ElasticQuota",
}  # fmt: skip


@pytest.fixture
async def cluster():
    async with Cluster() as running:
        await running.see_quota("team", {"limits.cpu": 4_000_000})
        yield running


def subjects(cluster):
    return {(event.type, event.key) for event in cluster.transport.events}


async def invent(cluster, number):
    user, name = f"tenant-{number % 10}", f"invented-{number}"
    return await cluster.ask(name, 1, quota=name, user=user, dry_run=number % 3 == 0)


async def test_ten_thousand_invented_quotas_make_no_tree_no_desk_and_one_subject(cluster):
    journals, handler = cluster.admission.journals, cluster.admission.handler
    before, said = set(journals.trees), subjects(cluster)
    reasons = set()
    for first in range(0, NAMES, 500):
        answers = await asyncio.gather(*(invent(cluster, first + n) for n in range(500)))
        reasons.update(answer.reason for answer in answers)

    assert reasons == {"quota-unknown"}
    assert set(journals.trees) - before == {"unknown"}
    assert {type for type, _ in subjects(cluster) - said} <= {
        "admission.decided", "admission.grouped",
    }  # fmt: skip
    assert {key for _, key in subjects(cluster) - said} == {"unknown"}
    assert len(handler._context.decisions._batchers) == 1
    assert len(handler._buckets) == 10


async def test_invented_elastic_quotas_parents_and_trees_leave_nothing_either(cluster):
    journals = cluster.admission.journals
    before = set(journals.trees)
    for number in range(20):
        name = f"invented-{number}"
        named = job(name, 1, quota="")
        named["metadata"]["labels"][ELASTIC] = name
        assert (await cluster.review(named)).reason == "quota-unknown"
        spec = {"parentBizGroup": name, "hard": {"limits.cpu": "1"}}
        child = {"metadata": {"name": "child", "uid": name}, "spec": spec}
        assert (await cluster.review(child, **OF_QUOTA)).reason == "parent-unknown"
        labels = {
            "quota.scheduling.koordinator.sh/tree-id": name,
            "quota.scheduling.koordinator.sh/parent": name,
        }
        metadata = {"name": "shares", "uid": name, "namespace": "ns", "labels": labels}
        bad = {"metadata": metadata, "spec": {"min": {"cpu": "2"}, "max": {"cpu": "1"}}}
        assert not (await cluster.review(bad, **OF_ELASTIC)).allowed

    assert set(journals.trees) - before == {"unknown"}


async def test_the_refusal_of_an_invented_quota_is_recorded_with_its_name(cluster):
    await cluster.ask("a", 1, quota="nobody")

    decided = [
        msgspec.json.decode(one.body)
        for event in cluster.transport.events
        for one in entries(event)
        if one.type == "admission.decided"
    ]
    assert [(one["quota"], one["reason"]) for one in decided] == [("nobody", "quota-unknown")]


async def test_one_asker_cannot_use_up_the_rate_of_another(cluster):
    cluster.admission.handler._buckets = Buckets(Rate(per_second=1, burst=3))
    mine = [await cluster.ask(f"a{n}", 1, user="amy") for n in range(5)]
    invented = [await cluster.ask(f"b{n}", 1, quota=f"b{n}", user="amy") for n in range(5)]
    other = await cluster.ask("c", 1, user="bob")

    assert [a.reason for a in mine] == ["fits"] * 3 + ["too-many-requests"] * 2
    assert [a.reason for a in invented] == ["quota-unknown"] * 3 + ["too-many-requests"] * 2
    assert other.reason == "fits"


async def test_service_accounts_that_a_tenant_makes_have_one_rate_together(cluster):
    """Whoever may edit a namespace may make accounts there without end, and ask as each of them."""
    cluster.admission.handler._buckets = Buckets(Rate(per_second=1, burst=3))
    bots = [
        await cluster.ask(f"a{n}", 1, user=f"system:serviceaccount:ns:bot-{n}") for n in range(5)
    ]
    over = [
        await cluster.ask(f"b{n}", 10_000, user=f"system:serviceaccount:ns:late-{n}")
        for n in range(5)
    ]
    other = await cluster.ask("c", 1, user="system:serviceaccount:other:bot-0")
    amy = await cluster.ask("d", 1, user="amy")

    assert [a.reason for a in bots] == ["fits"] * 3 + ["too-many-requests"] * 2
    assert {a.reason for a in over} == {"too-many-requests"}
    assert (other.reason, amy.reason) == ("fits", "fits")
    assert len(cluster.admission.handler._buckets) == 3


async def test_controllers_of_one_namespace_do_not_use_up_the_rate_of_each_other(cluster):
    cluster.admission.handler._buckets = Buckets(Rate(per_second=1, burst=1))
    groups = ("system:serviceaccounts", "system:serviceaccounts:kube-system")
    answers = [
        await cluster.ask(f"a{n}", 1, user=f"system:serviceaccount:kube-system:{n}", groups=groups)
        for n in range(3)
    ]

    assert {a.reason for a in answers} == {"fits"}


@pytest.mark.parametrize(
    ("user", "asker"),
    [
        ("system:serviceaccount:ns:bot", "system:serviceaccount:ns"),
        ("system:serviceaccount:ns", "system:serviceaccount:ns"),
        ("system:serviceaccounts:ns:bot", "system:serviceaccounts:ns:bot"),
        ("oidc:system:serviceaccount:ns:bot", "oidc:system:serviceaccount:ns:bot"),
        ("amy", "amy"),
        ("", ""),
    ],
)
def test_only_a_service_account_goes_by_its_namespace(user, asker):
    assert rate.asker_of(user, is_controller=False) == asker
    assert rate.asker_of(user, is_controller=True) == user


def test_buckets_are_bounded_and_the_longest_unused_gives_way(monkeypatch):
    monkeypatch.setattr(rate, "MOST_BUCKETS", 3)
    buckets = Buckets(Rate(per_second=1, burst=1))
    for name in ("a", "b", "c"):
        assert buckets.takes(name, 0)
    assert not buckets.takes("a", 0)
    assert buckets.takes("d", 0)

    assert len(buckets) == 3
    assert not buckets.takes("a", 0)
    assert buckets.takes("b", 0)
