"""While no webhook answers: the table of docs/admission.md, row by row at a real API server.

And what tenants try below the floor.
"""

import copy
import re
from pathlib import Path

import pytest
import yaml

from bus.kube.kinds import GOVERNED
from reactors.webhook.registration import (
    MUTATING_PATH,
    PATH,
    RegistrationSettings,
    configuration,
    mutating_configuration,
)
from tests.cluster.api import APPLY, MERGE, Api, ApiError, eventually
from tests.cluster.processes import free_port

pytestmark = pytest.mark.kube

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "deploy" / "manifests"
LABEL, QUEUE = "biz.group.resource.quota", "bursar.io/queue"
QUOTAS = "/apis/bursar.io/v1alpha1/bizgroupresourcequotas"
JOBS, DEPLOYMENTS, PODS = (
    "/apis/batch/v1/namespaces/{}/jobs", "/apis/apps/v1/namespaces/{}/deployments", "/api/v1/namespaces/{}/pods",
)  # fmt: skip
#: Namespaces by what they are: nothing, of the quota with a queue, left out.
NAMESPACES = {"plain": {}, "mapped": {LABEL: "team"}, "ignored": {"bursar.io/admission": "ignore"}}
ACCOUNTS = {
    "bursar-system": ("bursar-actor",),
    "kube-system": ("replicaset-controller", "cronjob-controller"),
    "plain": ("tenant",),
}


def template(labels=None):
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}
    return {"metadata": {"labels": labels or {}}, "spec": spec}


def job(name, quota="", *, suspend=False, of="", **metadata):
    """A Job of a quota; `of`: the kind of an owner that it names."""
    owner = {"apiVersion": "batch/v1", "kind": of, "name": "o", "uid": "u", "controller": True}
    found = {"name": name, "labels": {LABEL: quota} if quota else {}, **metadata}
    found |= {"ownerReferences": [owner]} if of else {}
    return {"metadata": found, "spec": {"suspend": suspend, "template": template()}}


def pod(name, **metadata):
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "o", "uid": "u"}
    found = {"name": name, "ownerReferences": [owner | {"controller": True}], **metadata}
    return {"metadata": found, "spec": template()["spec"]}


def deployment(name):
    selector = {"app": name}
    spec = {"selector": {"matchLabels": selector}, "template": template(selector)}
    spec["template"]["spec"] = {"containers": [{"name": "main", "image": "x"}]}
    return {"metadata": {"name": name, "labels": {LABEL: "team"}}, "spec": spec}


def quota(name, *, hold):
    spec = {"hard": {"limits.cpu": "10"}, "queue": {"hold": hold}}
    return {
        "apiVersion": "bursar.io/v1alpha1",
        "kind": "BizGroupResourceQuota",
        "metadata": {"name": name},
        "spec": spec,
    }


class Cluster:
    """A control plane without controllers, quotas, jobs that were there before, and the accounts that ask."""

    def __init__(self, plane):
        self.plane = plane
        paths = ("crds", "rbac", "training/crds.yaml")
        for path in [*(MANIFESTS / one for one in paths), Path(__file__).parent / "crds"]:
            plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(path))
        plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
        for name, labels in NAMESPACES.items():
            self.make("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        for name, hold in (("team", True), ("open", False)):
            self.make(QUOTAS, quota(name, hold=hold))
        noted = {QUEUE: "team"}
        self.make(JOBS.format("plain"), job("waits", "team", suspend=True, annotations=noted))
        self.make(JOBS.format("plain"), job("runs", "team"))
        self.api = {name: self._account(space, name) for space, names in ACCOUNTS.items() for name in names}  # fmt: skip
        self._let_tenant_edit()

    def make(self, path, body):
        return self.plane.api.request("POST", path, body)

    def _account(self, namespace, name):
        if name != "bursar-actor":
            self.make(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})  # fmt: skip
        token = self.plane.kubectl("create", "token", name, f"--namespace={namespace}").strip()
        return Api(self.plane.url, token, str(self.plane.ca_file))

    def _let_tenant_edit(self):
        """Everything in the namespaces of the test, wildcards included, and quotas for a row of the table."""
        made = ["create", "clusterrole", "everything", "--verb=*", "--resource=*.*"]
        self.plane.kubectl(*made)
        bound = ["tenant", "--clusterrole=everything", "--serviceaccount=plain:tenant"]
        for namespace in NAMESPACES:
            self.plane.kubectl("create", "rolebinding", *bound, f"--namespace={namespace}")
        role = ["--verb=patch,get", "--resource=bizgroupresourcequotas.bursar.io"]
        self.plane.kubectl("create", "clusterrole", "quotas", *role)
        bound[1] = "--clusterrole=quotas"
        self.plane.kubectl("create", "clusterrolebinding", *bound)

    def register(self, policy):
        """The webhooks of `bursar up`, whose process is gone."""
        settings = RegistrationSettings(
            "bursar-system", url=f"https://127.0.0.1:{free_port()}", failure_policy=policy
        )
        for path, body in (
            (PATH, configuration(settings, GOVERNED, b"")),
            (MUTATING_PATH, mutating_configuration(settings, GOVERNED, b"")),
        ):
            self.plane.api.request("PATCH", f"{path}?fieldManager=test&force=true", body, content_type=APPLY)  # fmt: skip
        wanted = "passes" if policy == "Ignore" else "refused"
        self.until(wanted)

    def until(self, wanted):
        """The API server has heard of configurations and policies."""
        asked = ("tenant", "POST", JOBS.format("plain"), job("try", "team"))
        eventually(lambda: self.asks(*asked) == wanted)

    def raze_floor(self):
        path = str(MANIFESTS / "floor.yaml")
        self.plane.kubectl("delete", "--ignore-not-found", "-f", path)

    def build_floor(self):
        self.plane.kubectl("apply", "-f", str(MANIFESTS / "floor.yaml"))
        self.until("refused")

    def asks(self, account, method, path, body=None):
        """What becomes of a dry run, of which webhooks and policies are asked like of the real request."""
        return "refused" if self.told(account, method, path, body) else "passes"

    def told(self, account, method, path, body=None):
        """Why an admission plugin refuses; "" where none does."""
        kind = MERGE if method == "PATCH" else "application/json"
        try:
            self.api[account].request(method, f"{path}?dryRun=All", body, content_type=kind)
        except ApiError as error:
            words = str(error)
            assert any(one in words for one in ("failed calling webhook", "has a queue", "validation ")), words  # fmt: skip
            return words
        return ""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    from tests.cluster.fixtures import _running

    bare = {"controllers": False, "scheduler": False, "simulator": False}
    with _running(tmp_path_factory.mktemp("plane"), **bare) as plane:
        yield Cluster(plane)


PLAIN, WAITS = JOBS.format("plain"), f"{JOBS.format('plain')}/waits"
RESUMED = {"spec": {"suspend": False}}
#: First words of a row of the table: the account that asks, and what it asks for.
ROWS = {
    "a Deployment": ("tenant", "POST", DEPLOYMENTS.format("plain"), deployment("web")),
    "a job of a quota without a queue": ("tenant", "POST", PLAIN, job("one", "open")),
    "a job of a quota with a queue": ("tenant", "POST", PLAIN, job("one", "team")),
    "the same, suspended": ("tenant", "POST", PLAIN, job("one", "team", suspend=True, annotations={QUEUE: "team"})),
    "its user resumes it": ("tenant", "PATCH", WAITS, RESUMED),
    "Bursar starts it": ("bursar-actor", "PATCH", WAITS, RESUMED),
    "a job that runs asks for more": ("tenant", "PATCH", f"{PLAIN}/runs", {"spec": {"parallelism": 9}}),
    "a workload is deleted": ("tenant", "DELETE", f"{PLAIN}/runs"),
    "a quota is changed": ("tenant", "PATCH", f"{QUOTAS}/team", {"spec": {"hard": {"limits.cpu": "9"}}}),
    "a controller makes a pod": ("replicaset-controller", "POST", PODS.format("plain"), pod("p")),
    "a CronJob's Job": ("cronjob-controller", "POST", PLAIN, job("run", "team", of="CronJob")),
    "work without a quota": ("tenant", "POST", PLAIN, job("one")),
    "a namespace that is never asked about": ("tenant", "POST", JOBS.format("ignored"), job("one", "team")),
}  # fmt: skip


def table():
    """First cell to what the others say."""
    text = (ROOT / "docs" / "admission.md").read_text()
    [found] = re.findall(r"^\| while no webhook answers .*?\n\|[-|]+\|\n(.*?)\n\n", text, re.S | re.M)  # fmt: skip
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in found.splitlines()]
    return {first: tuple(re.match(r"\w+", one)[0] for one in cells) for first, *cells in rows}


def test_the_table_of_what_happens_while_no_webhook_answers(cluster):
    found = {name: [] for name in ROWS}
    cluster.raze_floor()
    for step in (lambda: cluster.register("Fail"), lambda: cluster.register("Ignore"), cluster.build_floor):  # fmt: skip
        step()
        for name, request in ROWS.items():
            found[name].append(cluster.asks(*request))
    said = table()
    wanted = {name: cells for name in ROWS for first, cells in said.items() if first.startswith(name)}  # fmt: skip

    assert len(said) == len(ROWS)
    assert {name: (ignore, fail, floor) for name, (fail, ignore, floor) in found.items()} == wanted


SETS = {"TFJob": "tfReplicaSpecs", "PyTorchJob": "pytorchReplicaSpecs", "XGBoostJob": "xgbReplicaSpecs",
        "PaddleJob": "paddleReplicaSpecs", "JAXJob": "jaxReplicaSpecs"}  # fmt: skip
QUEUED = {kind.kind: kind for kind in GOVERNED if kind.queues}


def workload(kind, labels, suspend=None):
    """One of each kind that waits, whose pods alone have the labels; a TrainJob has none, and its runtime's are not asked."""
    made, own = template(labels), {}
    match kind:
        case "Job":
            spec = {"template": made}
        case "JobSet":
            inner = {"spec": {"template": made}}
            spec = {"replicatedJobs": [{"name": "w", "template": inner}]}
        case "TrainJob":
            spec, own = {"runtimeRef": {"name": "torch"}}, {"labels": labels}
        case "RayJob":
            groups = [{"groupName": "w", "template": made}]
            ray = {"headGroupSpec": {"template": template()}, "workerGroupSpecs": groups}
            spec = {"shutdownAfterJobFinishes": True, "rayClusterSpec": ray}
        case _:
            spec = {SETS[kind]: {"Worker": {"replicas": 1, "template": made}}}
    if suspend is not None:
        spec |= {"runPolicy": {"suspend": suspend}} if kind in SETS else {"suspend": suspend}
    group = QUEUED[kind].group
    return {
        "apiVersion": f"{group}/{QUEUED[kind].versions[0]}",
        "kind": kind,
        "metadata": {"name": "x", **own},
        "spec": spec,
    }


def path_of(kind, namespace="plain"):
    group, _, resource = QUEUED[kind].path.rpartition("/")
    return f"{group}/namespaces/{namespace}/{resource}"


@pytest.mark.parametrize("kind", QUEUED)
def test_every_kind_that_waits_is_held_by_the_labels_of_its_pods(cluster, kind):
    cluster.build_floor()
    team, asked = {LABEL: "team"}, ("tenant", "POST", path_of(kind))

    told = cluster.told(*asked, workload(kind, team))
    assert "quota team has a queue: leave this suspended with the annotation bursar.io/queue: team" in told  # fmt: skip
    assert cluster.told(*asked, workload(kind, team, suspend=False)) == told
    assert cluster.told(*asked, workload(kind, team, suspend=True)) == ""
    assert cluster.told(*asked, workload(kind, {LABEL: "open"})) == ""
    assert cluster.asks("tenant", "POST", path_of(kind, "mapped"), workload(kind, {})) == "refused"


def huge():
    """More templates than can be looked at."""
    made = workload("JobSet", {LABEL: "team"})
    [one] = made["spec"]["replicatedJobs"]
    labels = {f"l{n}": "v" for n in range(20)}
    one["template"]["spec"]["template"] = template(labels)
    jobs = [{**copy.deepcopy(one), "name": f"w{n}"} for n in range(1500)]
    jobs[-1]["template"]["spec"]["template"] = template({LABEL: "team"})
    return made | {"spec": {"replicatedJobs": jobs}}


def odd():
    """Labels of a template that are no map."""
    made = workload("TFJob", {})
    made["spec"]["tfReplicaSpecs"]["Worker"]["template"] = {"metadata": {"labels": ["x"]}}
    made["metadata"]["labels"] = {LABEL: "team"}
    return made


#: What a tenant tries while nobody answers.
ATTEMPTS = {
    "a label on its pods alone": ("POST", PLAIN, workload("Job", {LABEL: "team"})),
    "another quota's name in a namespace of this one": ("POST", JOBS.format("mapped"), job("x", "open")),
    "an invented quota's name there": ("POST", JOBS.format("mapped"), job("x", "none")),
    "an owner that he invents": ("POST", PLAIN, job("x", "team", of="CronJob")),
    "the mark of what waits, and no suspension": ("POST", PLAIN, job("x", "team", annotations={QUEUE: "team"})),
    "a finished look": ("POST", PLAIN, job("x", "team") | {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}),
    "resuming and taking the label away at once": ("PATCH", WAITS, {"metadata": {"labels": {LABEL: None}}, **RESUMED}),
    "resuming and naming another quota": ("PATCH", WAITS, {"metadata": {"labels": {LABEL: "open"}}, **RESUMED}),
    "resuming and taking the mark away": ("PATCH", WAITS, {"metadata": {"annotations": {QUEUE: None}}, **RESUMED}),
    "no value of the flag": ("PATCH", WAITS, {"spec": {"suspend": None}}),
    "a job of absurd size": ("POST", path_of("JobSet"), huge()),
    "labels that are no map": ("POST", path_of("TFJob"), odd()),
}  # fmt: skip


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_no_tenant_gets_below_the_floor(cluster, attempt):
    """He has every right in his namespaces, the verb `start` among them, which counts for the whole cluster only."""
    cluster.build_floor()

    assert cluster.asks("tenant", *ATTEMPTS[attempt]) == "refused"


def test_the_floor_is_about_the_kinds_that_wait():
    [policy] = [
        one
        for one in yaml.safe_load_all((MANIFESTS / "floor.yaml").read_text())
        if one["kind"] == "ValidatingAdmissionPolicy"
    ]
    rules = policy["spec"]["matchConstraints"]["resourceRules"]
    found = {(rule["apiGroups"][0], one) for rule in rules for one in rule["resources"]}

    assert found == {(kind.group, kind.resource) for kind in QUEUED.values()}
