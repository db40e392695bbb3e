"""Writes to a real API server: what they do, and what they refuse to do to another object."""

import json

import pytest

from bus.errors import (
    ClusterUnavailableError,
    ConflictError,
    NotFoundError,
    PermissionDeniedError,
    RequestRefusedError,
)
from bus.kube.client import Access, connect
from tests.cluster.api import ApiError, eventually

pytestmark = pytest.mark.kube

LABELS = {"app": "train"}
SPEC = {"containers": [{"name": "main", "image": "train"}]}


@pytest.fixture
async def cluster(plane):
    opened = await connect(Access(str(plane.kubeconfig)))
    yield opened
    await opened.close()


@pytest.fixture
def pods(namespace):
    return f"/api/v1/namespaces/{namespace}/pods"


@pytest.fixture
def maps(namespace):
    return f"/api/v1/namespaces/{namespace}/configmaps"


def config(**data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}


def pod(name):
    return {"metadata": {"name": name, "labels": LABELS}, "spec": SPEC}


async def test_a_created_object_can_be_read_and_not_created_again(cluster, maps):
    created = await cluster.create(maps, config(x="1"))

    assert (await cluster.get(f"{maps}/a"))["metadata"]["uid"] == created["metadata"]["uid"]
    with pytest.raises(ConflictError) as caught:
        await cluster.create(maps, config(x="2"))
    assert caught.value.reason == "AlreadyExists"


async def test_apply_gives_up_what_it_does_not_name_any_more(cluster, maps):
    await cluster.apply(f"{maps}/a", config(x="1", y="1"))
    applied = await cluster.apply(f"{maps}/a", config(y="2"))

    assert applied["data"] == {"y": "2"}


async def test_apply_without_force_leaves_another_managers_field_alone(cluster, maps):
    await cluster.apply(f"{maps}/a", config(x="1"), manager="other")

    with pytest.raises(ConflictError, match="other"):
        await cluster.apply(f"{maps}/a", config(x="2"), force=False)
    assert (await cluster.apply(f"{maps}/a", config(x="2")))["data"] == {"x": "2"}


async def test_apply_reaches_the_status_and_nothing_else(cluster, pods):
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"activeDeadlineSeconds": 5},
        "status": {"message": "said"},
    }
    with pytest.raises(NotFoundError):
        await cluster.apply(f"{pods}/a/status", body)
    await cluster.create(pods, pod("a"))
    applied = await cluster.apply(f"{pods}/a/status", body)

    assert applied["status"]["message"] == "said"
    assert "activeDeadlineSeconds" not in applied["spec"]


async def test_apply_with_a_uid_does_not_make_an_object_that_is_gone(cluster, maps):
    body = config(x="1")
    body["metadata"]["uid"] = "0"

    with pytest.raises(ConflictError):
        await cluster.apply(f"{maps}/a", body)


async def test_a_merge_sets_and_removes_fields_of_the_version_it_names(cluster, maps):
    created = await cluster.create(maps, config(x="1", y="1"))
    version = {"resourceVersion": created["metadata"]["resourceVersion"]}
    patch = {"metadata": version, "data": {"x": None, "z": "1"}}
    merged = await cluster.merge(f"{maps}/a", patch)

    assert merged["data"] == {"y": "1", "z": "1"}
    with pytest.raises(ConflictError):
        await cluster.merge(f"{maps}/a", patch)


async def test_a_delete_is_refused_for_another_uid_or_version(cluster, maps):
    uid = (await cluster.create(maps, config()))["metadata"]["uid"]

    for wrong in ({"uid": "0"}, {"uid": uid, "resource_version": "1"}):
        with pytest.raises(ConflictError):
            await cluster.delete(f"{maps}/a", **wrong)
    await cluster.delete(f"{maps}/a", uid=uid)
    with pytest.raises(NotFoundError):
        await cluster.get(f"{maps}/a")


async def test_a_delete_gives_the_grace_that_was_asked_for(cluster, plane, pods, namespace):
    uid = (await cluster.create(pods, {**pod("a"), "spec": {**SPEC, "nodeName": "none"}}))[
        "metadata"
    ]["uid"]
    ending = await cluster.delete(f"{pods}/a", uid=uid, grace_seconds=7)

    assert ending["metadata"]["deletionGracePeriodSeconds"] == 7


async def test_an_eviction_ends_the_pod_with_this_uid_only(cluster, plane, namespace, pods):
    uid = (await cluster.create(pods, pod("a")))["metadata"]["uid"]

    with pytest.raises(ConflictError):
        await cluster.evict(namespace, "a", uid="0")
    await cluster.evict(namespace, "a", uid=uid)
    eventually(lambda: is_gone(plane, f"{pods}/a"))


async def test_a_disruption_budget_makes_an_eviction_wait(cluster, plane, namespace, pods):
    uid = (await cluster.create(pods, pod("a")))["metadata"]["uid"]
    eventually(lambda: plane.api.request("GET", f"{pods}/a")["status"]["phase"] == "Running")
    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    await cluster.create(
        budgets,
        {
            "metadata": {"name": "all"},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": LABELS}},
        },
    )
    eventually(lambda: "status" in plane.api.request("GET", f"{budgets}/all"))

    with pytest.raises(ClusterUnavailableError) as caught:
        await cluster.evict(namespace, "a", uid=uid)
    assert caught.value.status == 429
    assert "disruption budget" in caught.value.message


async def test_what_is_never_acceptable_is_told_in_the_servers_words(cluster, pods):
    with pytest.raises(RequestRefusedError, match=r"spec\.containers: Required value"):
        await cluster.create(pods, {"metadata": {"name": "a"}, "spec": {}})


async def test_a_kind_that_is_not_installed_is_not_found(cluster):
    with pytest.raises(NotFoundError):
        await cluster.get("/apis/example.org/v1/unknowns/a")


async def test_a_missing_permission_is_named(plane, cluster, namespace, maps):
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    # Not "default": controllers make that one some time after the namespace.
    await cluster.create(accounts, {"metadata": {"name": "powerless"}})
    token = await cluster.create(
        f"{accounts}/powerless/token",
        {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {}},
    )
    config_file = plane.folder / "powerless.json"
    config_file.write_text(kubeconfig(plane, token["status"]["token"]))
    powerless = await connect(Access(str(config_file)))
    try:
        with pytest.raises(PermissionDeniedError) as caught:
            await powerless.apply(f"{maps}/a", config())
    finally:
        await powerless.close()

    assert caught.value.permission == "patch configmaps"


async def test_a_server_that_is_away_may_be_asked_again(own_plane):
    cluster = await connect(Access(str(own_plane.kubeconfig)))
    own_plane.kill_apiserver()
    try:
        with pytest.raises(ClusterUnavailableError):
            await cluster.get("/api/v1/namespaces/default")
    finally:
        await cluster.close()


def kubeconfig(plane, token):
    named = {"name": "a"}
    server = {"server": plane.url, "certificate-authority": str(plane.ca_file)}
    return json.dumps(
        {
            "current-context": "a",
            "contexts": [named | {"context": {"cluster": "a", "user": "a"}}],
            "clusters": [named | {"cluster": server}],
            "users": [named | {"user": {"token": token}}],
        }
    )


def is_gone(plane, path):
    try:
        plane.api.request("GET", path)
    except ApiError as error:
        return error.status == 404
    return False
