"""Whose quota a workload is charged to: a label that any tenant may write does not choose it.

Covers reviews of creates, what exists all the same (the webhook was away, or only watches), quotas below others, mapped and
unmapped namespaces, changes of a quota's namespaces, selectors, and the ledger, which says the same.
"""

from itertools import product

import pytest

from bus.events.namespaces import NamespaceObserved
from bus.events.quotas import NamespaceRequirement, Serves
from projections.attribution import AttributionRule, attributed, names
from reactors.admission.deciding.mapping import LABEL, counted, place
from reactors.admitting import following
from tests.reactors.cluster import Cluster, job

pytestmark = pytest.mark.simulated

HARD = {"limits.cpu": 10_000}
ANY, OURS = Serves(), Serves(("lab",))
TIER = "bursar.io/tier"
GOLD = Serves(("lab",), (NamespaceRequirement(TIER, "In", ("gold",)),))


@pytest.fixture
async def cluster():
    async with Cluster() as running:
        await running.see_quota("ours", HARD, serves=OURS)
        await running.see_quota("below", {"limits.cpu": 2000}, parent="ours", serves=ANY)
        await running.see_quota("theirs", HARD, serves=ANY)
        await running.see_quota("shared", HARD, serves=Serves(("lab", "shop")))
        await see_namespace(running, "shop", "theirs")
        yield running


async def see_namespace(cluster, name, mapped="", tier=""):
    labels = ({LABEL: mapped} if mapped else {}) | ({TIER: tier} if tier else {})
    version = str(next(cluster._versions))
    fact = NamespaceObserved(uid=name, name=name, resource_version=version, labels=labels)
    await cluster.say(fact, name)


def held(cluster, quota):
    """What the quota's own workloads hold."""
    return cluster.used(quota) - sum(
        c["limits.cpu"] for c in node(cluster, quota).children.values()
    )


def node(cluster, quota):
    journals = cluster.admission.journals
    return journals.tree(journals.places[("BizGroupResourceQuota", quota)]).nodes[quota]


async def create(cluster, quota, namespace, uid="a", cpu=1):
    return await cluster.review(job(uid, cpu, quota, namespace))


@pytest.mark.parametrize(
    ("quota", "namespace", "reason"),
    [
        ("ours", "lab", "fits"),
        ("below", "lab", "fits"),
        ("ours", "elsewhere", "quota-not-yours"),
        ("below", "elsewhere", "quota-not-yours"),
        ("theirs", "elsewhere", "fits"),
        ("theirs", "shop", "fits"),
        ("shared", "shop", "fits"),
        ("ours", "shop", "quota-not-yours"),
        ("below", "shop", "quota-not-yours"),
    ],
)
async def test_a_label_charges_only_quotas_that_serve_the_namespace(
    cluster, quota, namespace, reason
):
    answer = await create(cluster, quota, namespace)

    assert answer.reason == reason
    if reason != "fits":
        assert f"workloads of namespace {namespace!r} may not use quota {quota!r}" in answer.message


async def test_what_exists_all_the_same_is_charged_to_its_namespace_and_to_nobody_else(cluster):
    await cluster.see("escaped", 3, quota="ours", namespace="shop")
    await cluster.see("stranger", 2, quota="ours", namespace="elsewhere")

    assert (held(cluster, "ours"), held(cluster, "theirs")) == (0, 3000)


async def test_a_quota_that_begins_to_serve_a_namespace_takes_what_is_there(cluster):
    await cluster.see("stranger", 2, quota="ours", namespace="elsewhere")
    assert held(cluster, "ours") == 0
    await cluster.see_quota("ours", HARD, serves=Serves(("lab", "elsewhere")))

    assert held(cluster, "ours") == 2000
    assert (await create(cluster, "ours", "elsewhere")).allowed


async def test_where_namespaces_are_required_an_open_quota_serves_mapped_ones_only(cluster):
    beside = following(
        cluster.transport, cluster.clock, cluster="c1", source="webhook/2", keeps=False,
        requires_namespaces=True,
    )  # fmt: skip
    async with beside as cluster.admission:
        assert (await create(cluster, "theirs", "elsewhere")).reason == "quota-not-yours"
        assert (await create(cluster, "theirs", "shop", "b")).allowed
        assert (await create(cluster, "ours", "lab", "c")).allowed
        assert (await create(cluster, "below", "lab", "d")).allowed


async def test_quotas_of_older_histories_serve_as_they_did(cluster):
    await cluster.see_quota("old", HARD)
    await see_namespace(cluster, "museum", "old")
    await cluster.see("escaped", 3, quota="theirs", namespace="museum")

    assert (await create(cluster, "old", "elsewhere")).allowed
    assert (await create(cluster, "theirs", "museum", "b")).reason == "quota-not-yours"
    assert held(cluster, "theirs") == 3000


async def test_a_selector_opens_a_quota_to_the_namespaces_with_its_labels(cluster):
    await cluster.see_quota("vault", HARD, serves=GOLD)
    await see_namespace(cluster, "rich", tier="gold")
    await see_namespace(cluster, "poor", tier="tin")

    assert (await create(cluster, "vault", "rich")).reason == "fits"
    assert (await create(cluster, "vault", "lab", "b")).reason == "fits"
    refused = await create(cluster, "vault", "poor", "c")
    assert refused.reason == "quota-not-yours"
    assert "spec.namespaceSelector" in refused.message
    assert (await create(cluster, "vault", "unseen", "d")).reason == "quota-not-yours"


async def test_another_label_of_a_namespace_moves_what_is_there(cluster):
    await cluster.see_quota("vault", HARD, serves=GOLD)
    await cluster.see("a", 2, quota="vault", namespace="rich")
    assert held(cluster, "vault") == 0, "the namespace was not seen"
    await see_namespace(cluster, "rich", tier="gold")
    assert held(cluster, "vault") == 2000
    await see_namespace(cluster, "rich", tier="tin")
    assert held(cluster, "vault") == 0

    assert (await create(cluster, "vault", "rich", "b")).reason == "quota-not-yours"


async def test_a_selector_counts_where_namespaces_are_required_and_below(cluster):
    await cluster.see_quota("vault", HARD, serves=GOLD)
    await cluster.see_quota("inner", {"limits.cpu": 2000}, parent="vault", serves=ANY)
    await see_namespace(cluster, "rich", tier="gold")
    cluster.admission.view.requires_namespaces = True

    assert (await create(cluster, "inner", "rich")).reason == "fits"
    assert (await create(cluster, "inner", "elsewhere", "b")).reason == "quota-not-yours"


async def test_a_quota_that_becomes_unusable_is_charged_for_nobody_else(cluster):
    await cluster.see_quota("vault", HARD, serves=OURS)
    await cluster.see_quota("vault", {}, problem="spec.hard: bad")
    await cluster.see("stranger", 2, quota="vault", namespace="elsewhere")

    assert held(cluster, "vault") == 0
    assert (await create(cluster, "vault", "lab")).reason == "quota-invalid"


RULES = {
    "ours": AttributionRule("", ("lab",)), "below": AttributionRule("ours"), "theirs": AttributionRule(),
    "loop": AttributionRule("pool"), "pool": AttributionRule("loop"),
}  # fmt: skip
NAMED = ["", *RULES, "unknown"]


@pytest.mark.parametrize("namespace", ["lab", "shop"])
@pytest.mark.parametrize(("own", "mapped"), list(product(NAMED, NAMED)))
def test_the_ledger_and_admission_charge_the_same_quota(own, mapped, namespace):
    labels, mapping = ({LABEL: name} if name else {} for name in (own, mapped))
    where = counted(place(labels, namespace, mapping, RULES.get))
    sources = (names(labels), None, names(mapping))
    spends = attributed(*sources, namespace=namespace, rules=RULES.get)[0]

    assert (where.quota if where else "") == spends


@pytest.mark.parametrize("named", NAMED)
def test_nobody_escapes_a_mapped_namespace_but_to_who_names_it(named):
    mapping = {LABEL: "theirs"}
    charged = counted(place({LABEL: named}, "shop", mapping, RULES.get))

    assert charged.quota == "theirs"
