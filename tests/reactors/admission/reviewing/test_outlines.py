"""Reviews that cannot be read exactly: refused where a quota governs the object, and a neighbor without a quota is let alone."""

import pytest

from bus.events.namespaces import NamespaceObserved
from reactors.admitting import failing, outlining
from reactors.webhook.application import Application
from reactors.webhook.failure import UNAVAILABLE, UNREADABLE
from reactors.webhook.outline import Outline, outline_of
from tests.reactors.admission.reviewing.claimed import HARD, Devices
from tests.reactors.cluster import QUOTA, Cluster, job
from tests.reactors.webhook.asking import ask
from tests.reactors.webhook.forms import FORMS
from tests.reactors.webhook.reviews import encoded

pytestmark = pytest.mark.simulated

JOBS = {"group": "batch", "version": "v1", "resource": "jobs"}
#: What strict JSON refuses, and the API server keeps as it is where it keeps any bytes.
ODD = b'"\\ud800"'
FREE = {"metadata": {"name": "a"}, "spec": {"odd": "HERE"}}


@pytest.fixture
async def cluster():
    async with Cluster() as running:
        await running.see_quota("team", {"limits.cpu": 4000})
        labels = {QUOTA: "team"}
        mapped = NamespaceObserved(uid="m", name="mapped", resource_version="9", labels=labels)
        await running.say(mapped, "m")
        await running.see("owner", 1)
        await running.see("free-owner", 1, quota="")
        yield running


def answer(cluster, object=FREE, *, is_shadow=False, reason="malformed", **request):
    known = {"resource": JOBS, "namespace": "free", "object": object, **request}
    outline = outline_of(encoded(**known).replace(b'"HERE"', ODD))
    return outlining(cluster.admission, is_shadow=is_shadow)(outline, reason)


def below(uid):
    references = [{"uid": "another"}, {"uid": uid, "kind": "Job", "controller": True}]
    return {"metadata": {"name": "a", "ownerReferences": references}, "spec": {"odd": "HERE"}}


def labelled(where):
    metadata = {"metadata": {"labels": {QUOTA: "team"}}}
    return {"metadata": {}, "spec": {"odd": "HERE"}} | (
        metadata if where == "own" else {"spec": {"odd": "HERE", "templates": [metadata]}}
    )


def resource(group, plural):
    return {"group": group, "version": "v1", "resource": plural}


GOVERNED = {
    "its own label": {"object": labelled("own")},
    "a template's label": {"object": labelled("template")},
    "a label that goes": {"operation": "UPDATE", "oldObject": labelled("own")},
    "a mapped namespace": {"namespace": "mapped"},
    "a governed owner": {"object": below("owner")},
    "a charge of its own": {"object": {"metadata": {"name": "a", "uid": "owner"}, "spec": "HERE"}},
    "an owner that it had": {"operation": "UPDATE", "oldObject": below("owner")},
    "too many owners to read": {
        "object": {"metadata": {"ownerReferences": [{"uid": "x" * 500}] * 60}, "spec": "HERE"}
    },
    "a claim in a mapped namespace": {
        "resource": resource("resource.k8s.io", "resourceclaims"), "namespace": "mapped",
    },
    "a quota": {"resource": resource("bursar.io", "bizgroupresourcequotas"), "namespace": ""},
}  # fmt: skip
FREE_ONES = {
    "a namespace without a quota": {},
    "an owner without a quota": {"object": below("free-owner")},
    "an owner that was not seen": {"object": below("unknown")},
    "a quota in a text": {"object": {"metadata": {}, "spec": {"note": f'{{"{QUOTA}":"team"}}'}}},
    "an update": {"operation": "UPDATE", "oldObject": FREE},
    "another kind, in a mapped namespace": {
        "resource": resource("", "configmaps"), "namespace": "mapped", "object": labelled("own"),
    },
    "an autoscaler": {
        "resource": resource("autoscaling", "horizontalpodautoscalers"), "namespace": "mapped",
    },
    "a claim": {"resource": resource("resource.k8s.io", "resourceclaims")},
    "a template of claims": {"resource": resource("resource.k8s.io", "resourceclaimtemplates")},
    "a deletion, whatever governs it": {
        "operation": "DELETE", "namespace": "mapped", "object": None, "oldObject": labelled("own"),
    },
}  # fmt: skip


@pytest.mark.parametrize("request_", GOVERNED.values(), ids=GOVERNED)
async def test_what_a_quota_governs_is_refused(cluster, request_):
    found = answer(cluster, **request_)

    assert (found.allowed, found.reason) == (False, UNREADABLE)


@pytest.mark.parametrize("request_", FREE_ONES.values(), ids=FREE_ONES)
async def test_a_neighbor_without_a_quota_is_allowed(cluster, request_):
    assert answer(cluster, **request_).allowed


@pytest.mark.parametrize("inner", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("namespace", ["mapped", "free"])
async def test_every_form_is_refused_where_a_quota_governs_and_allowed_elsewhere(
    cluster, namespace, inner
):
    """By the whole way of a review: 9 cores in a quota of 4, beside the same without a quota."""
    odd = job("a", 9, "", namespace)
    odd["metadata"]["annotations"] = "HERE"
    admission = cluster.admission
    app = Application(admission.handler, failing(admission), unread=outlining(admission))
    raw = encoded(resource=JOBS, namespace=namespace, object=odd).replace(b'"HERE"', inner)
    pieces = [raw[at : at + 65_536] for at in range(0, len(raw), 65_536)]
    asker = await ask(app, *pieces)

    assert asker.status == 200
    assert asker.response["allowed"] == (namespace == "free")


async def deleted(cluster, name, plural="bizgroupresourcequotas", namespace=""):
    """The answer to the deletion of a quota whose object is large, and its reason, by the whole way of a review."""
    group = "bursar.io" if plural.startswith("biz") else "scheduling.sigs.k8s.io"
    large = {
        "metadata": {"annotations": {"note": "x" * 70_000}, "name": name},
        "spec": {"hard": {}},
    }
    raw = encoded(
        resource=resource(group, plural), namespace=namespace, name=name, operation="DELETE", object=None,
        oldObject=large,
    )  # fmt: skip
    admission = cluster.admission
    app = Application(admission.handler, failing(admission), unread=outlining(admission))
    asker = await ask(app, *(raw[at : at + 65_536] for at in range(0, len(raw), 65_536)))
    return asker.response["allowed"], asker.response.get("status", {}).get("reason")


async def test_a_quota_in_use_is_not_deleted_whatever_it_carries_and_its_neighbors_are(cluster):
    await cluster.see_quota("parent", {"limits.cpu": 4000})
    await cluster.see_quota("idle", {"limits.cpu": 1000}, parent="parent")

    assert await deleted(cluster, "team") == (False, "in-use")
    assert await deleted(cluster, "parent") == (False, "has-children")
    assert await deleted(cluster, "idle") == (True, None)
    assert await deleted(cluster, "unseen") == (True, None)
    assert await deleted(cluster, "team", "elasticquotas", "ns") == (True, None)


async def test_the_deletion_of_a_collection_is_refused_where_one_of_its_quotas_is_in_use(cluster):
    assert await deleted(cluster, "") == (False, "in-use")
    assert await deleted(cluster, "", "elasticquotas", "ns") == (True, None)
    await cluster.lose("owner")
    await cluster.lose_quota("team")

    assert await deleted(cluster, "") == (True, None)


async def test_what_was_not_read_to_its_end_may_name_a_quota(cluster):
    begun = Outline("review-1", "CREATE", "batch", "jobs", namespace="free")
    outlines = outlining(cluster.admission)

    assert outlines(begun, None).reason == UNAVAILABLE
    assert not outlines(Outline("review-1"), None).allowed
    assert outlines(Outline("review-1", "CREATE", "", "configmaps"), None).allowed


async def test_shadow_mode_refuses_nothing(cluster):
    found = answer(cluster, namespace="mapped", is_shadow=True)

    assert found.allowed
    assert "would refuse" in found.warnings[0]


async def test_a_template_of_claims_that_a_charged_workload_names_is_refused():
    async with Devices() as cluster:
        await cluster.see_quota("team", HARD)
        await cluster.see_job("job", "named")
        of_template = {"resource": resource("resource.k8s.io", "resourceclaimtemplates")}

        named = answer(cluster, namespace="ns", name="named", **of_template)
        other = answer(cluster, namespace="ns", name="other", **of_template)
        assert (named.allowed, other.allowed) == (False, True)


async def test_a_scale_of_an_unseen_object_passes_in_time_where_nothing_near_is_charged(cluster):
    """The process was behind when another one admitted the object: its labels are in no scale."""
    scaled = {"metadata": {"uid": "elsewhere", "name": "a"}, "spec": {"replicas": 5}}
    of_scale = {"resource": resource("apps", "deployments"), "subResource": "scale", "reason": None}

    assert answer(cluster, scaled, **of_scale | {"reason": "malformed"}).allowed
    assert not answer(cluster, scaled, **of_scale).allowed
    near = job("near", 1)
    near["metadata"]["namespace"] = "free"
    assert (await cluster.review(near)).allowed
    await cluster.see("near", 1, namespace="free")
    assert not answer(cluster, scaled, **of_scale | {"reason": "malformed"}).allowed


async def test_a_late_create_without_a_quota_passes_although_the_object_is_new(cluster):
    """The API server sends a new object with its uid, which no process has seen."""
    new = {"metadata": {"uid": "new", "name": "a"}, "spec": {}}

    assert answer(cluster, new, reason=None).allowed
    assert not answer(cluster, below("unseen"), reason=None).allowed
