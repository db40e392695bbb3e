"""Work that no quota governs passes, whatever its kind, its owners and its order, beside a quota that refuses."""

import pytest

from bus.errors import BusUnavailableError
from bus.kube.kinds import GOVERNED
from reactors.admitting import failing, shadowed
from reactors.webhook.review import Answer, Review
from tests.reactors.admission.below import CONTROLLER, OF
from tests.reactors.admission.reviewing.ungoverned import (
    BY_NAME,
    COLLECTOR,
    addressed,
    of_owner,
    sample,
    scale,
)
from tests.reactors.cluster import QUOTA, Cluster, demand

pytestmark = pytest.mark.simulated

KINDS = [kind for kind in GOVERNED if kind.kind != "Pod"]
POD = BY_NAME["Pod"]


@pytest.fixture
async def cluster():
    """A quota of which nothing is left, and namespaces that are mapped to none."""
    async with Cluster() as running:
        await running.see_quota("team", {"limits.cpu": 4000})
        assert (await running.ask("full", 4)).allowed
        running.skip_versions(10)
        yield running
        assert (await running.ask("more", 1)).reason == "over-quota"
        assert running.used() >= 4000


def modes(cluster):
    """The answers of `enforce` and of `shadow` to one review."""
    handler = cluster.admission.handler
    return {"enforce": handler, "shadow": shadowed(handler)}


async def passes(cluster, mode, item, kind, **fields):
    """The review is answered, allowed, and warned of nothing."""
    review = {**addressed(kind), **fields}
    asked = type("At", (), {"handler": staticmethod(modes(cluster)[mode])})
    answer = await cluster.review(item, at=asked, **review)
    assert (answer.allowed, answer.warnings) == (True, ()), answer
    return answer


async def see(cluster, kind, uid, by=None, replicas=1):
    one = demand(2)
    await cluster.see(
        uid, 2 * replicas, kind=kind.kind, quota="", namespace="free", owner=of_owner(by),
        per_replica=one, replicas=replicas,
    )  # fmt: skip


async def see_pod(cluster, uid, by=None, **fields):
    await cluster.see_pod(uid, 2, namespace="free", labels={}, owner=of_owner(by), **fields)


@pytest.mark.parametrize("mode", ["enforce", "shadow"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
async def test_the_life_of_every_kind_passes(cluster, kind, mode):
    """A pod of an owner without a quota ended in an assertion, and the review was denied."""
    by, uid = (kind.kind, "top"), "top"
    made = sample(kind, uid)
    await passes(cluster, mode, made, kind)
    # Its controller is faster than the watch.
    early = sample(POD, "early", by=by)
    await passes(cluster, mode, early, POD, **CONTROLLER)
    if kind.scales:
        await passes(
            cluster, mode, **scale(uid, 3, 1), kind=kind, operation="UPDATE", subresource="scale"
        )
    await see(cluster, kind, uid)
    await see_pod(cluster, "early", by)
    await passes(cluster, mode, sample(POD, "pod", by=by), POD, **CONTROLLER)
    await see_pod(cluster, "pod", by)
    await _changes(cluster, mode, kind, uid)
    await passes(cluster, mode, None, kind, old_object=made, operation="DELETE")
    await cluster.lose(uid, kind.kind, "free")
    # It is gone, and its controller has not heard of that.
    await passes(cluster, mode, sample(POD, "late", by=by), POD, **CONTROLLER)


async def _changes(cluster, mode, kind, uid):
    """A controller and a user edit it; it is scaled as it was seen, and in a later version."""
    for user in (CONTROLLER, {}):
        changed = sample(kind, uid, version=11, changed="yes")
        changed["spec"]["changed"] = True
        old = sample(kind, uid, version=11)
        await passes(cluster, mode, changed, kind, old_object=old, operation="UPDATE", **user)
    for version in ("5", "99") if kind.scales else ():
        scaled = scale(uid, 30, 1, version=version)
        of_scale = {"operation": "UPDATE", "subresource": "scale"}
        await passes(cluster, mode, **scaled, kind=kind, **of_scale)


@pytest.mark.parametrize("mode", ["enforce", "shadow"])
@pytest.mark.parametrize("is_seen", [True, False], ids=["seen", "not seen yet"])
async def test_a_controller_adopts_and_lets_go_in_each_order(cluster, mode, is_seen):
    """A Deployment that is made anew adopts the ReplicaSet of the one that was deleted without it, and its pods."""
    deployment, replicas = BY_NAME["Deployment"], BY_NAME["ReplicaSet"]
    await see(cluster, replicas, "set")
    await see_pod(cluster, "pod", ("ReplicaSet", "set"))
    await passes(cluster, mode, sample(deployment, "new"), deployment)
    if is_seen:
        await see(cluster, deployment, "new")
    free, taken = sample(replicas, "set", version=11), sample(
        replicas, "set", version=11, by=("Deployment", "new")
    )  # fmt: skip
    await passes(cluster, mode, taken, replicas, old_object=free, operation="UPDATE", **CONTROLLER)
    await passes(cluster, mode, free, replicas, old_object=taken, operation="UPDATE", **COLLECTOR)

    bare, owned = sample(POD, "bare", version=11), sample(
        POD, "bare", version=11, by=("ReplicaSet", "unseen")
    )  # fmt: skip
    await see_pod(cluster, "bare")
    await passes(cluster, mode, owned, POD, old_object=bare, operation="UPDATE", **CONTROLLER)
    await passes(cluster, mode, owned, POD, old_object=bare, operation="UPDATE")


@pytest.mark.parametrize("way", ["Background", "Foreground", "Orphan"])
async def test_a_rollout_and_a_delete_pass(cluster, way):
    deployment, replicas = BY_NAME["Deployment"], BY_NAME["ReplicaSet"]
    of_web = ("Deployment", "web")
    await passes(cluster, "enforce", sample(deployment, "web"), deployment)
    await see(cluster, deployment, "web")
    for number in (1, 2):
        name = f"web-{number}"
        made = sample(replicas, name, by=of_web)
        await passes(cluster, "enforce", made, replicas, **CONTROLLER)
        pod = sample(POD, f"{name}-a", by=("ReplicaSet", name))
        await passes(cluster, "enforce", pod, POD, **CONTROLLER)
        await see(cluster, replicas, name, of_web)
        await see_pod(cluster, f"{name}-a", ("ReplicaSet", name))
        for size in (3, 0):
            await passes(
                cluster, "enforce", **scale(name, size, 3 - size), kind=replicas,
                operation="UPDATE", subresource="scale", **CONTROLLER,
            )  # fmt: skip
    await _goes(cluster, way)


async def _goes(cluster, way):
    """The Deployment is deleted; its garbage collector and its controllers go on."""
    deployment, replicas = BY_NAME["Deployment"], BY_NAME["ReplicaSet"]
    going = sample(deployment, "web", version=12)
    going["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [way]}
    old = sample(deployment, "web", version=11)
    await passes(cluster, "enforce", going, deployment, old_object=old, operation="UPDATE")
    if way != "Foreground":
        await cluster.lose("web", "Deployment", "free")
    owned, orphan = (
        sample(replicas, "web-2", version=12, by=("Deployment", "web")),
        sample(replicas, "web-2", version=12),
    )
    if way == "Orphan":
        await passes(
            cluster, "enforce", orphan, replicas, old_object=owned, operation="UPDATE", **COLLECTOR
        )
    pod = sample(POD, "web-2-b", by=("ReplicaSet", "web-2"))
    await passes(cluster, "enforce", pod, POD, **CONTROLLER)
    await passes(cluster, "enforce", None, replicas, old_object=owned, operation="DELETE")


async def test_what_cannot_be_read_is_refused_of_a_quota_alone(cluster):
    def odd(**labels):
        item = sample(BY_NAME["RayCluster"], "odd", **labels)
        item["spec"]["workerGroupSpecs"] = "three"
        return item

    ray = BY_NAME["RayCluster"]
    await passes(cluster, "enforce", odd(), ray)
    for one in (odd(**{QUOTA: "team"}), sample(ray, "odd", by=("RayJob", "job"))):
        one["spec"]["workerGroupSpecs"] = "three"
        await cluster.see("job", 0, kind="RayJob", namespace="free")
        answer = await cluster.review(one, **addressed(ray))
        assert (answer.allowed, answer.reason) == (False, "demand-unreadable")


async def test_what_a_quota_governs_waits_for_its_owner_as_before(cluster):
    """By a label on the owner alone, by one on the pod alone, and below an owner that is gone."""
    await cluster.see("web", 2, kind="Deployment", namespace="free")
    taken = sample(BY_NAME["ReplicaSet"], "set", version=11, by=("Deployment", "unseen"))
    free = sample(BY_NAME["ReplicaSet"], "set", version=11, **{QUOTA: "team"})
    of_set = {**OF["ReplicaSet"], "operation": "UPDATE", "old_object": free, **CONTROLLER}
    assert (await cluster.review(taken, **of_set)).reason == "owner-unseen"

    await cluster.lose("web", "Deployment", "free")
    pod = sample(POD, "pod", by=("Deployment", "web"))
    assert (await cluster.review(pod, **OF["Pod"], **CONTROLLER)).reason == "owner-gone"


async def test_a_scale_of_what_a_quota_governs_waits_as_before(cluster):
    """Of what has a charge and was not seen, and in a namespace that is mapped."""
    made = sample(BY_NAME["Deployment"], "web", **{QUOTA: "team"})
    made["spec"]["replicas"] = 0
    assert (await cluster.review(made, **OF["Deployment"])).allowed
    of_scale = {**OF["Deployment"], "operation": "UPDATE", "subresource": "scale"}

    sizes = scale("web", 3, 0)
    answer = await cluster.review(sizes["item"], old_object=sizes["old_object"], **of_scale)

    assert (answer.allowed, answer.reason) == (False, "object-unseen")


async def test_what_is_unseen_waits_where_anything_in_its_namespace_is_charged(cluster):
    """Another process may have admitted it a moment ago, by its label: this one has read neither charge nor object."""
    of_scale = {**OF["Deployment"], "operation": "UPDATE", "subresource": "scale"}
    sizes = scale("elsewhere", 3, 0)

    async def answers():
        scaled = await cluster.review(sizes["item"], old_object=sizes["old_object"], **of_scale)
        pod = sample(POD, "pod", by=("ReplicaSet", "elsewhere"))
        return scaled.allowed, failing(cluster.admission)(review_of(pod, POD), None).allowed

    assert await answers() == (True, False), "a late one waits always"
    made = sample(BY_NAME["Deployment"], "web", **{QUOTA: "team"})
    made["spec"]["replicas"] = 0
    assert (await cluster.review(made, **OF["Deployment"])).allowed
    assert await answers() == (False, False), "by its charge: the object itself was not seen either"


async def test_charges_of_other_processes_are_read_before_an_unseen_scale_passes(
    cluster, monkeypatch
):
    made = sample(BY_NAME["Deployment"], "web", **{QUOTA: "team"})
    made["spec"]["replicas"] = 0
    sizes = scale("web", 3, 0)

    async def caught_up():
        assert (await cluster.review(made, **OF["Deployment"])).allowed

    monkeypatch.setattr(cluster.admission.journals, "caught_up", caught_up)
    of_scale = {**OF["Deployment"], "operation": "UPDATE", "subresource": "scale"}
    answer = await cluster.review(sizes["item"], old_object=sizes["old_object"], **of_scale)

    assert (answer.allowed, answer.reason) == (False, "object-unseen")


async def test_an_unseen_scale_waits_for_the_bus_and_a_seen_one_that_no_quota_governs_passes(
    cluster, monkeypatch
):
    async def caught_up():
        raise BusUnavailableError(reason="away")

    monkeypatch.setattr(cluster.admission.journals, "caught_up", caught_up)
    of_scale = {**OF["Deployment"], "operation": "UPDATE", "subresource": "scale"}
    await see(cluster, BY_NAME["Deployment"], "seen")
    unseen, seen = scale("unseen", 3, 0), scale("seen", 3, 0)

    def reviewed(sizes):
        return cluster.review(sizes["item"], old_object=sizes["old_object"], **of_scale)

    with pytest.raises(BusUnavailableError) as away:
        await reviewed(unseen)
    late = review_of(
        unseen["item"], BY_NAME["Deployment"], operation="UPDATE", subresource="scale", old_object=unseen["old_object"],
    )  # fmt: skip
    assert failing(cluster.admission)(late, away.value).reason == "bursar-unavailable"
    assert (await reviewed(seen)).allowed


@pytest.mark.parametrize("error", [None, RuntimeError("a bug"), BusUnavailableError(reason="away")])
async def test_what_fails_or_is_late_is_refused_of_a_quota_alone(cluster, error):
    failure = failing(cluster.admission)
    await deployed_elsewhere(cluster)

    def answered(item, kind, **fields):
        return failure(review_of(item, kind, **fields), error)

    for kind in GOVERNED:
        assert answered(sample(kind, "free"), kind) == Answer(True, "not-governed")
        labelled = sample(kind, "taken", **{QUOTA: "team"})
        assert answered(labelled, kind).reason == "bursar-unavailable"
        assert not answered(labelled, kind).allowed
    below = sample(POD, "pod", by=("ReplicaSet", "set"))
    assert not answered(below, POD).allowed


async def deployed_elsewhere(cluster):
    """A Deployment that only its own label puts into the quota, and its ReplicaSet."""
    await cluster.see("web", 2, kind="Deployment", namespace="free")
    by = of_owner(("Deployment", "web"))
    await cluster.see("set", 2, kind="ReplicaSet", namespace="free", quota="", owner=by)


def review_of(item, kind, **fields):
    metadata = item["metadata"]
    return Review(
        **{
            "uid": "r", "operation": "CREATE", **addressed(kind), "subresource": "",
            "namespace": metadata["namespace"], "name": metadata["name"], "user": "amy",
            "groups": (), "dry_run": False, "object": item, "old_object": None, "options": None,
        } | fields
    )  # fmt: skip
