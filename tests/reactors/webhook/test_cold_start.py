"""A cluster and Bursar itself start from nothing while the webhook is registered, closed and gone. Catalogue P19."""

import json

import pytest

from bus.kube.crds.manifests import manifest
from bus.kube.kinds import GOVERNED
from reactors.admission.deciding.mapping import LABEL as QUOTA
from reactors.webhook.registration import PATH, RegistrationSettings, configuration
from tests.cluster.api import APPLY, ApiError, eventually
from tests.reactors.webhook.clusters import DEPLOYMENTS, OWN_NAMESPACE, deployment, pod

pytestmark = pytest.mark.kube

#: Nothing listens there: the discard port.
GONE = RegistrationSettings(OWN_NAMESPACE, url="https://127.0.0.1:9", failure_policy="Fail")


@pytest.fixture
def closed(own_plane):
    """A private API server that refuses whatever the absent webhook is asked about."""
    own_plane.api.request("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    register(own_plane)
    eventually(lambda: refused(own_plane, "team"))
    return own_plane


def register(plane):
    body = configuration(GONE, GOVERNED, b"")
    path = f"{PATH}?fieldManager=bursar&force=true"
    return plane.api.request("PATCH", path, body, content_type=APPLY)


def refused(plane, namespace):
    item = deployment("probe", labels={QUOTA: "team"})
    try:
        plane.api.request("POST", DEPLOYMENTS.format(namespace) + "?dryRun=All", item)
    except ApiError as error:
        return "failed calling webhook" in str(error)
    return False


def own_objects():
    """What an installation of Bursar is made of, in the order of its manifests."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bursar"}
    account = {"kind": "ServiceAccount", "name": "bursar", "namespace": OWN_NAMESPACE}
    port = {"port": 443, "targetPort": 9443}
    return [
        item("v1", "Namespace", OWN_NAMESPACE, namespaced=False),
        item("v1", "ServiceAccount", "bursar"),
        item("rbac.authorization.k8s.io/v1", "ClusterRole", "bursar", namespaced=False, rules=[]),
        item("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "bursar", namespaced=False,
             roleRef=role, subjects=[account]),
        item("v1", "ConfigMap", "bursar", data={"policy": "{}"}),
        item("v1", "Secret", "bursar", stringData={"key": "x"}),
        item("v1", "Service", "bursar-webhook", spec={"ports": [port], "selector": {"a": "b"}}),
        item("coordination.k8s.io/v1", "Lease", "leader", spec={"holderIdentity": "a"}),
        {**deployment("bursar", replicas=0), "metadata": {"name": "bursar", "namespace": OWN_NAMESPACE}},
    ]  # fmt: skip


def item(version, kind, name, *, namespaced=True, **fields):
    metadata = {"name": name, **({"namespace": OWN_NAMESPACE} if namespaced else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def apply(plane, text):
    return plane.kubectl("apply", "--server-side", "-f", "-", input=text)


def test_bursar_s_own_objects_can_be_created_and_scaled_up_from_zero(closed):
    for one in own_objects():
        apply(closed, json.dumps(one))
    apply(closed, manifest())
    closed.kubectl("scale", "-n", OWN_NAMESPACE, "deployment/bursar", "--replicas=2")
    own = f"/api/v1/namespaces/{OWN_NAMESPACE}/pods"
    closed.api.request("POST", own, pod("bursar-0"))
    found = closed.api.request("GET", f"{DEPLOYMENTS.format(OWN_NAMESPACE)}/bursar")

    assert found["spec"]["replicas"] == 2
    assert refused(closed, "team")


def test_the_cluster_s_own_parts_can_start(closed):
    addon = deployment("coredns")
    closed.api.request("POST", DEPLOYMENTS.format("kube-system"), addon)
    closed.api.request("POST", "/api/v1/namespaces/kube-system/pods", pod("proxy"))
    closed.api.request("POST", "/api/v1/nodes", {"metadata": {"name": "node-0"}})
    lease = {"metadata": {"name": "node-0"}, "spec": {"holderIdentity": "node-0"}}
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    closed.api.request("POST", leases, lease)
    access = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}
    reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    asked = closed.api.request("POST", reviews, access)

    assert asked["status"]["allowed"] is True


def test_the_configuration_can_be_written_and_deleted_while_it_refuses(closed):
    register(closed)
    closed.api.request("DELETE", PATH)
    eventually(lambda: not refused(closed, "team"))

    assert closed.api.request("POST", DEPLOYMENTS.format("team"), deployment("service"))
