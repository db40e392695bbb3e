"""What the manifests grant is what the code uses, verb by verb, as a real API server's authorizer and admission see it.

Used is what was asked of the API server in a run of everything that asks or writes: each source, each effector on each kind,
registration, proof and Events, under the rights of the account that acts. A call that the code gains without a right is
refused here; a right that no call uses any more is a difference of the two sets. Custom kinds that are not installed are asked for
all the same: authorization comes before their absence.
"""

import asyncio
import contextlib
import json
import pathlib
import ssl
import urllib.error
import urllib.request

import pytest
import yaml

from bus.clock import SystemClock
from bus.errors import ClusterUnavailableError, NotFoundError
from bus.events import VOCABULARY
from bus.events.decisions import Cull, Restore, Warn, Withdraw
from bus.events.pods import NATIVE, VOLCANO
from bus.events.vocabulary import read
from bus.kube.client import Access, connect
from bus.kube.client.refusals import resource_at
from bus.kube.crds.quotas import PATH as QUOTAS
from bus.kube.kinds import GOVERNED
from bus.kube.watch.contract import NotInstalledError
from bus.kube.watch.labels import LabelPolicy
from bus.sources.catalogue import RESERVATIONS as RESERVATION_SOURCE
from bus.sources.catalogue import SOURCES
from bus.sources.training import LAYOUTS
from deploy.runtime.proving import Prover
from deploy.runtime.registering import Registrar, configurations
from deploy.settings.admission import AdmissionSettings
from projections.cluster import ClusterState
from projections.cluster.reservations import Status as ReservationStatus
from projections.quota_trees import Tree
from projections.quota_trees.elastic import Figures
from reactors.culling.effectors import CullEffector
from reactors.effectors.elastic_status import ElasticStatus
from reactors.effectors.events import Recorder
from reactors.effectors.evict import EvictEffector
from reactors.effectors.quota_status import BizGroupStatus, StatusWriter
from reactors.effectors.release import Starter
from reactors.jobs.effectors.groups import VERSIONS, collection
from reactors.jobs.effectors.keep import PodGroupEffector
from reactors.jobs.effectors.notices import CONTROLLER
from reactors.jobs.effectors.run import JobEffector
from reactors.migration.effectors.bodies import API, MIGRATIONS
from reactors.scheduling.cycle.reservation_statuses import Wanted
from reactors.scheduling.effectors.notices import NoticedPod, PodNotices
from reactors.scheduling.effectors.reservations import ReservationStatuses
from reactors.scheduling.framework.bind import RESERVATIONS, Placement, bind
from reactors.scheduling.framework.claims import ClaimSelector, UnboundClaim
from reactors.scheduling.framework.reserve import reserve
from reactors.scheduling.reservations import rules as reservation_rules
from reactors.webhook.registration import RegistrationSettings
from tests.bus.sources.records import record
from tests.cluster import migrations, notebooks, test_cull, test_evict, training
from tests.cluster.api import MERGE, Api, ApiError, eventually
from tests.cluster.plane import GANG_FLAGS
from tests.cluster.rights import MANIFESTS, may, token, waits_for_a_node
from tests.deploy.manifests import ACTING, OBJECTS, ROLES, granted
from tests.reactors.cluster import START_US
from tests.reactors.effectors.written import World
from tests.scenario import Clock

pytestmark = pytest.mark.kube

CRDS = pathlib.Path(__file__).parent / "crds"
#: Of every answer: by which flow schema it was let in.
FLOW = "X-Kubernetes-PF-FlowSchema-UID"
GROUP_OF_A_TENANT = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "mine"},
    "spec": {"minMember": 1},
}
KINDS = ("Notebook", "StatefulSet", "Deployment", "Pod")


@pytest.fixture(scope="module")
def plane(start_module_plane):
    """An API server with our manifests, and the kinds that they are about."""
    plane = start_module_plane(apiserver_flags=GANG_FLAGS)
    jobs = MANIFESTS / "training"
    for path in (MANIFESTS / "crds", MANIFESTS / "rbac", jobs, CRDS):
        plane.kubectl("apply", "--server-side", "-f", str(path))
    plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
    return plane


def noted(cluster):
    """Has every request of `cluster` written down, as (verb, resource); the list."""
    found, ask, get = set(), cluster._object, cluster._get

    async def _object(method, verb, path, *arguments, **options):
        found.add((resource_at(path.partition("?")[0]), verb))
        return await ask(method, verb, path, *arguments, **options)

    async def _get(path, verb, *arguments, **options):
        found.add((resource_at(path.partition("?")[0]), verb))
        return await get(path, verb, *arguments, **options)

    cluster._object, cluster._get = _object, _get
    return found


async def follow(cluster):
    """What sources do: lists, and watches."""
    for source in SOURCES:
        with contextlib.suppress(NotInstalledError, NotFoundError):
            page = await cluster.page(source.path, limit=1)
        if source.polling is not None:
            continue
        lines = cluster.watch(source.path, version=page.version)
        # A kind that was installed a moment ago may not be served yet (429).
        late = (NotInstalledError, NotFoundError, TimeoutError, ClusterUnavailableError)
        with contextlib.suppress(*late):
            async with asyncio.timeout(0.3):
                await anext(lines)
        await lines.aclose()


async def stop_and_give_back(plane, cluster):
    """What culling does, with each kind: warn twice, withdraw, stop, give back."""
    effector, outcomes = CullEffector(cluster, SystemClock()), {}
    for kind in KINDS:
        path = notebooks.PATHS[kind].format("default")
        found = plane.api.request("POST", path, notebooks.notebook(kind))
        warn, cull = test_cull.decision(Warn, found), test_cull.decision(Cull, found)
        steps = [warn, test_cull.decision(Withdraw, found), warn, cull]
        steps += [test_cull.decision(Restore, found, key=cull.id)] if kind != "Pod" else []
        outcomes[kind] = [(await effector.act(step))[0] for step in steps]
    return outcomes


async def tell(plane, cluster):
    """What is told: the status of quotas of both kinds, and refusals."""
    plane.kubectl("apply", "-f", "-", input=json.dumps(QUOTA))
    plane.kubectl("apply", "-f", "-", input=json.dumps(ELASTIC))
    uid = plane.api.request("GET", f"{QUOTAS}/team")["metadata"]["uid"]
    figures = Figures(*({"cpu": 1000} for _ in Figures.__struct_fields__))
    status = ElasticStatus(name="team", namespace="default", uid="", figures=figures)
    elastic = plane.api.request("GET", status.path)["metadata"]["uid"]
    status = ElasticStatus(name="team", namespace="default", uid=elastic, figures=figures)
    writer = StatusWriter(cluster)
    written = [
        await writer.write(BizGroupStatus(name="team", uid=uid, moment_s=1, observed_sequence=1))
    ]
    written.append(await writer.write(status))
    world = World()
    world.clock = Clock(START_US)
    world.recorder = Recorder(cluster, world.clock, Tree, instance="host-1")
    for _ in range(2):
        world.refuse(namespace="default")
        await world.recorder.work()
        world.clock.after(60)
    return [one.result for one in written], world.recorder.counts


RAN = {kind: ["done"] * 6 for kind in LAYOUTS} | {
    api: ["done"] * (3 if api == NATIVE else 4) for api in VERSIONS
}
RAN["PodMigrationJob"] = [*["done"] * 6, 0]
KEPT = ("Available", "node-1", {"cpu": 4000})
SCHEDULED = (
    ["bound", "bound", "selected", "bound", "bound", KEPT, "Failed", [], ""], {"written": 2},
)  # fmt: skip
QUOTA = {
    "apiVersion": "bursar.io/v1alpha1",
    "kind": "BizGroupResourceQuota",
    "metadata": {"name": "team"},
    "spec": {"hard": {"limits.cpu": "10"}},
}
ELASTIC = {
    "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
    "kind": "ElasticQuota",
    "metadata": {"name": "team", "namespace": "default"},
    "spec": {"min": {"cpu": 1}, "max": {"cpu": 2}},
}


async def register(plane, cluster):
    """What `bursar up` does when it enforces, and an administrator before. Nobody listens: only the rights are asked here."""
    settings = RegistrationSettings("bursar-system", url="https://127.0.0.1:1")
    prover = Prover(cluster, AdmissionSettings(mode="enforce"), SystemClock())
    await prover.prove()
    made = configurations(settings, b"")
    registrar = Registrar(cluster, settings, is_shadow=False)
    plane.kubectl("apply", "--server-side", "-f", "-", input=listed(made.values()))
    await registrar.register(b"")
    return prover.proof.problem


def listed(objects):
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [*objects]})


async def schedule(plane, cluster):
    """What the scheduler does: bind a pod, find it bound, and tell of it and of one that waits."""
    pods = [
        plane.api.request("POST", notebooks.PATHS["Pod"].format("default"), waits_for_a_node(name))
        for name in ("placed", "unplaced")
    ]
    names = [(one["metadata"]["name"], one["metadata"]["uid"]) for one in pods]
    placed = Placement("default", *names[0], "node-1", "d" * 32, ("0",))
    outcomes = [(await bind(cluster, placed)).outcome for _ in range(2)]
    claim = claimed(plane)
    selected = await ClaimSelector(cluster, 0.0).select(placed, [claim], 0.0)
    outcomes.append(selected.why or "selected")
    notices = PodNotices(cluster, SystemClock(), instance="host-1")
    notices.bound(NoticedPod("default", *names[0], "bursar"), "node-1")
    waits = (
        NoticedPod("default", *names[1], "bursar"),
        "0/1 nodes are available: 1 Insufficient cpu.",
    )
    notices.waits({names[1][1]: waits})
    await notices.work()
    outcomes += await keep_reservations(plane, cluster)
    return outcomes, notices.counts


async def keep_reservations(plane, cluster):
    """What the scheduler does with a reservation: gives it a node, twice, says that the node is lost, and deletes it at last."""
    body = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "web"},
        "spec": {},
    }
    uid = plane.api.request("POST", RESERVATIONS, body)["metadata"]["uid"]
    placed = Placement("", "web", uid, "node-1", "d" * 32, is_reservation=True)
    outcomes = [(await reserve(cluster, placed, {"cpu": 4000})).outcome for _ in range(2)]
    found = plane.api.request("GET", f"{RESERVATIONS}/web")
    state = ClusterState()
    seen = RESERVATION_SOURCE.translate(record(found), LabelPolicy())
    state.apply(read(seen, VOCABULARY), seen)
    row = state.reservations[uid]
    seen = (row.phase, row.node, row.allocatable)
    status = reservation_rules.expired(ReservationStatus(row.phase, row.node, row.allocatable))
    writer = ReservationStatuses(cluster, SystemClock())
    await writer.write([Wanted(row, status, "node-1")])
    phase = plane.api.request("GET", f"{RESERVATIONS}/web")["status"]["phase"]
    await ReservationStatuses(cluster, SystemClock()).write([Wanted(row, None)])
    left = [one["metadata"]["name"] for one in plane.api.request("GET", RESERVATIONS)["items"]]
    return [*outcomes, seen, phase, left, writer.trouble]


async def run_jobs(plane, cluster):
    """What running jobs does, with each kind: a pod and its service made, twice, one taken over, and deleted; a status, the end."""
    effector, outcomes = JobEffector(cluster), {}
    for kind in LAYOUTS:
        found = plane.api.request("POST", training.path_of(kind), training.job("train", kind))
        path = "/api/v1/namespaces/default/services/train-worker-0"
        done = [(await effector.act(training.create(found)))[0] for _ in range(2)]
        # Its user takes it away from the job, which takes it back.
        orphan = {"metadata": {"ownerReferences": []}}
        service = plane.api.request("PATCH", path, orphan, content_type=MERGE)
        done += [
            (await effector.act(step))[0]
            for step in (training.adopt(found, service), training.report(found))
        ]
        pod = await cluster.get("/api/v1/namespaces/default/pods/train-worker-0-1")
        done.append((await effector.act(training.delete(found, pod)))[0])
        outcomes[kind] = [*done, (await effector.act(training.end(found)))[0]]
    told = plane.api.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    said = {one["reason"] for one in told if one["reportingController"] == CONTROLLER}
    assert said == {f"{kind}Succeeded" for kind in LAYOUTS}
    return outcomes


async def keep_groups(plane, cluster):
    """What running a job does with PodGroups of each API: made, twice, changed where they can be, and deleted."""
    effector, outcomes = PodGroupEffector(cluster), {}
    body = training.job("gang", "TFJob")
    found = plane.api.request("POST", training.path_of("TFJob"), body)
    for api, versions in VERSIONS.items():
        path = f"{collection(api, versions[-1], 'default')}/gang"
        done = [(await effector.act(training.keep(found, api)))[0] for _ in range(2)]
        uid = plane.api.request("GET", path)["metadata"]["uid"]
        if api != NATIVE:
            done.append((await effector.act(training.keep(found, api, uid, 3)))[0])
            assert plane.api.request("GET", path)["spec"]["minMember"] == 3
        outcomes[api] = [*done, (await effector.act(training.end_group(found, api, uid)))[0]]
    return outcomes


def claimed(plane):
    """A claim whose volume is to be made for a pod."""
    path = "/api/v1/namespaces/default/persistentvolumeclaims"
    resources = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": resources, "storageClassName": "none"}
    metadata = plane.api.request("POST", path, {"metadata": {"name": "home"}, "spec": spec})["metadata"]  # fmt: skip
    return UnboundClaim("default", "home", metadata["uid"], metadata["resourceVersion"], "")


async def everything(plane, cluster):
    """One run of all that asks the API server, and what came of it."""
    await follow(cluster)
    culled = await stop_and_give_back(plane, cluster)
    written, events = await tell(plane, cluster)
    pod = plane.api.request(
        "POST", notebooks.PATHS["Pod"].format("default"), notebooks.notebook("Pod", "evicted")
    )
    evicted = await EvictEffector(cluster).act(test_evict.decision(pod))
    scheduled = await schedule(plane, cluster)
    ran = await run_jobs(plane, cluster) | await keep_groups(plane, cluster)
    ran["PodMigrationJob"] = await migrations.moved(plane, cluster)
    starter = Starter(cluster)
    waits = [kind for kind in GOVERNED if kind.queues]
    started = {(await starter.start(kind, "default", "none", "u")).result for kind in waits}
    with contextlib.suppress(NotFoundError):
        await cluster.get("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/none")
    return (
        culled,
        written,
        events,
        evicted[0],
        scheduled,
        ran,
        started,
        await register(plane, cluster),
    )


@pytest.fixture
async def cluster(plane, tmp_path):
    """The API server as the account that acts sees it."""
    kubeconfig = tmp_path / "actor.kubeconfig"
    text = plane.kubeconfig.read_text().replace(plane.token, token(plane, "bursar-actor"))
    kubeconfig.write_text(text)
    opened = await connect(Access(str(kubeconfig)))
    yield opened
    await opened.close()


async def test_what_is_granted_is_used_and_what_is_used_is_granted(plane, cluster):
    used = noted(cluster)
    done = await everything(plane, cluster)

    all_done = {kind: ["done"] * (4 if kind == "Pod" else 5) for kind in KINDS}
    expected = (all_done, ["written"] * 2, {"written": 2}, "done", SCHEDULED, RAN, {"superseded"})
    assert done == (*expected, "a request passed without a review")
    assert used == set().union(*map(granted, ROLES))


VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
#: What nobody may touch, besides what is granted with fewer verbs.
OTHERS = (
    "secrets", "configmaps", "serviceaccounts", "pods/exec", "pods/ephemeralcontainers", "nodes/proxy", "services/proxy",
    "clusterroles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io", "replicasets.apps/scale",
    "validatingadmissionpolicies.admissionregistration.k8s.io", "persistentvolumeclaims", "deployments.apps/status",
)  # fmt: skip


def test_the_authorizer_allows_each_account_its_roles_and_no_other_verb(plane):
    """`bursar` may not act whatever is applied; neither writes a webhook configuration, or reads another one."""
    acts = set().union(*map(granted, ACTING))
    reads = set().union(*(granted(role) for role in ROLES if role not in ACTING))
    reads -= granted("bursar-probe")
    resources = {resource for resource, _ in acts | reads} | set(OTHERS)
    named = {"name": "bursar"}
    found = {
        account: {
            (resource, verb)
            for resource in resources
            for verb in VERBS
            if may(plane, account, resource, verb, **(named if "webhookconf" in resource else {}))
        }
        for account in ("bursar", "bursar-actor", "default")
    }

    assert found == {"bursar": reads, "bursar-actor": reads | acts, "default": set()}
    configurations = "validatingwebhookconfigurations.admissionregistration.k8s.io"
    assert not may(plane, "bursar", configurations, "get", name="other")
    seen = [
        may(plane, "bursar", "deployments.apps", "create", namespace)
        for namespace in ("bursar-probe", "default")
    ]
    assert seen == [True, False]


#: Patches of what the account may patch, and the words with which the policy refuses each.
TAMPERING = {
    "an image": ("Deployment", {"spec": {"template": {"spec": {"containers": [
        {"name": "server", "image": "evil", "resources": {}}]}}}}, "nothing of a spec"),
    "replicas of a workload itself": ("StatefulSet", {"spec": {"replicas": 9}}, "the recorded number of replicas"),
    "a Notebook's pod": ("Notebook", {"spec": {"template": {"spec": {"hostNetwork": True}}}}, "nothing of a spec"),
    "an image of a pod": ("Pod", {"spec": {"containers": [
        {"name": "server", "image": "evil", "resources": {}}]}}, "nothing of a spec"),
    "a label": ("Pod", {"metadata": {"labels": {"app": "other"}}}, "labels, finalizers or owners"),
    "an owner": ("Pod", {"metadata": {"ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r"}]}}, "labels, finalizers or owners"),
    "a job as the owner of what is not its": ("Pod", {"metadata": {"ownerReferences": [
        {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "nb", "uid": "r", "controller": True}]}}, "no labels of it"),
    "a finalizer": ("Notebook", {"metadata": {"finalizers": ["a.b/c"]}}, "labels, finalizers or owners"),
    "another's annotation": ("Deployment", {"metadata": {"annotations": {"a": "b"}}}, "annotations of its own"),
    "how many pods a Job has": ("Job", {"spec": {"parallelism": 7}}, "nothing of a spec"),
    "a run policy": ("TFJob", {"spec": {"runPolicy": {"cleanPodPolicy": "All"}}}, "nothing of a run policy"),
}  # fmt: skip
PATHS = {
    **notebooks.PATHS,
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "TFJob": "/apis/kubeflow.org/v1/namespaces/{}/tfjobs",
}


def waiting(kind):
    """One that waits in a queue."""
    container = {"name": "main", "image": "x"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"suspend": True, "template": template}
    if kind == "TFJob":
        spec = {"runPolicy": {"suspend": True, "cleanPodPolicy": "None"}, "tfReplicaSpecs": {}}
    return {"kind": kind, "metadata": {"name": "nb"}, "spec": spec} | {
        "apiVersion": "batch/v1" if kind == "Job" else "kubeflow.org/v1"
    }


def test_the_accounts_change_only_the_fields_that_bursar_changes(plane, namespace):
    """Rights cannot tell an annotation from an image. A policy can, and refuses each of these and no stop of a queue."""
    for kind, path in PATHS.items():
        item = waiting(kind) if kind in ("Job", "TFJob") else notebooks.notebook(kind)
        plane.api.request("POST", path.format(namespace), item)
    actor = Api(plane.url, token(plane, "bursar-actor"), str(plane.ca_file))

    def said(kind, patch):
        path = f"{PATHS[kind].format(namespace)}/nb"
        try:
            return actor.request("PATCH", path, patch, content_type=MERGE)["kind"]
        except ApiError as error:
            return str(error)

    found = {name: said(kind, patch) for name, (kind, patch, _) in TAMPERING.items()}
    wrong = {
        name: found[name] for name, (*_, words) in TAMPERING.items() if words not in found[name]
    }
    assert wrong == {}
    assert said("Job", {"spec": {"suspend": False}}) == "Job"
    assert said("TFJob", {"spec": {"runPolicy": {"suspend": False}}}) == "TFJob"
    assert said("Pod", {"metadata": {"annotations": {"bursar.io/notebook-culls-at": "x"}}}) == "Pod"


def test_the_accounts_bind_and_tell_nothing_else_of_a_pod(plane, namespace):
    """A binding may label a pod, and whoever may patch a status may say that the pod is ready. A policy refuses both."""
    path = notebooks.PATHS["Pod"].format(namespace)
    plane.api.request("POST", path, waits_for_a_node("p"))
    actor = Api(plane.url, token(plane, "bursar-actor"), str(plane.ca_file))
    target = {"kind": "Node", "name": "node-1"}

    def said(method, part, body, content_type="application/json"):
        try:
            return actor.request(method, f"{path}/p/{part}", body, content_type=content_type)[
                "kind"
            ]
        except ApiError as error:
            return str(error)

    def bound(**metadata):
        return said("POST", "binding", {"metadata": {"name": "p", **metadata}, "target": target})

    def told(**status):
        return said("PATCH", "status", {"status": status}, "application/strategic-merge-patch+json")

    ready = {"type": "Ready", "status": "True"}
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    assert "annotations of its own" in bound(labels={"app": "other"})
    assert "annotations of its own" in bound(annotations={"a": "b"})
    assert "no condition of a pod but" in told(conditions=[ready])
    assert "nothing of a pod's status but" in told(podIP="10.0.0.1")
    assert "Pod" == told(conditions=[waits], nominatedNodeName=target["name"])
    assert "Pod" == told(nominatedNodeName=None)
    assert "Status" == bound(annotations={"bursar.io/decision": "d"})


def test_the_accounts_make_and_delete_only_what_training_jobs_own(plane, namespace):
    """Whoever may make pods can run anything. A policy refuses all but what a job controls."""
    made = plane.api.request(
        "POST", training.path_of("TFJob", namespace), training.job("train", "TFJob", namespace)
    )
    pods = notebooks.PATHS["Pod"].format(namespace)
    services = "/api/v1/namespaces/default/services"
    plane.api.request("POST", pods, waits_for_a_node("mine"))
    actor = Api(plane.url, token(plane, "bursar-actor"), str(plane.ca_file))

    def said(method, path, body=None):
        content_type = MERGE if method == "PATCH" else "application/json"
        try:
            return actor.request(method, path, body, content_type=content_type)["kind"]
        except ApiError as error:
            return str(error)

    owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "train"}
    owner |= {"uid": made["metadata"]["uid"], "controller": True}
    owned = {"name": "own", "ownerReferences": [owner]}
    labels = {"training.kubeflow.org/job-name": "train"}
    spec = waits_for_a_node("x")["spec"]
    assert "no pods, services and PodGroups but" in said("POST", pods, waits_for_a_node("bare"))
    assert "no pods, services and PodGroups but" in said(
        "POST", pods, {"metadata": owned, "spec": spec}
    )
    assert "no pods, services and PodGroups but" in said("DELETE", f"{pods}/mine")
    assert "no pods, services and PodGroups but" in said("DELETE", f"{services}/kubernetes")
    groups = collection(VOLCANO, "v1beta1", namespace)
    plane.api.request("POST", groups, GROUP_OF_A_TENANT)
    patch = {"spec": {"minMember": 99}}
    assert "no pods, services and PodGroups but" in said("POST", groups, GROUP_OF_A_TENANT)
    assert "no pods, services and PodGroups but" in said("DELETE", f"{groups}/mine")
    assert "no pods, services and PodGroups but" in said("PATCH", f"{groups}/mine", patch)
    taken = {"metadata": owned | {"name": "mine", "labels": labels}}
    assert "nothing of a PodGroup but its spec" in said("PATCH", f"{groups}/mine", taken)
    assert "that has not ended" in said("DELETE", f"{training.path_of('TFJob', namespace)}/train")
    assert "Pod" == said("POST", pods, {"metadata": owned | {"labels": labels}, "spec": spec})


def test_an_eviction_waits_in_no_queue_of_lists(plane):
    plane.kubectl("apply", "--server-side", "-f", str(MANIFESTS / "flow.yaml"))
    schemas = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
    uid = plane.api.request("GET", f"{schemas}/bursar-actor")["metadata"]["uid"]
    evictions = "/api/v1/namespaces/default/pods/none/eviction"
    context = ssl.create_default_context(cafile=str(plane.ca_file))
    headers = {"Authorization": f"Bearer {token(plane, 'bursar-actor')}"}

    def queued(method, path):
        request = urllib.request.Request(plane.url + path, b"{}", headers, method=method)
        try:
            return urllib.request.urlopen(request, context=context).headers[FLOW]
        except urllib.error.HTTPError as error:
            with error:
                return error.headers[FLOW]

    eventually(lambda: queued("POST", evictions) == uid)
    assert queued("GET", "/api/v1/pods?limit=1") != uid


def test_the_accounts_of_the_policy_are_those_of_the_manifests():
    accounts = {one["metadata"]["name"] for one in OBJECTS if one["kind"] == "ServiceAccount"}
    policy = yaml.safe_dump([one for one in OBJECTS if "AdmissionPolicy" in one["kind"]])

    assert accounts == {"bursar", "bursar-actor"}
    assert all(f"system:serviceaccount:bursar-system:{name}" in policy for name in accounts)


def test_the_accounts_make_no_reservation_of_their_own_and_move_no_other_pod(plane):
    """Whoever may patch PodMigrationJobs could have any pod evicted, and Reservations hold room of nodes. A policy refuses both."""
    plane.api.request("POST", MIGRATIONS, migrations.job_body("web-0"))
    actor = Api(plane.url, token(plane, "bursar-actor"), str(plane.ca_file))

    def said(method, path, body, **options):
        try:
            return actor.request(method, path, body, **options)["kind"]
        except ApiError as error:
            return str(error)

    room = {"apiVersion": API, "kind": "Reservation", "metadata": {"name": "mine"}, "spec": {}}
    assert "no Reservations but those of" in said("POST", RESERVATIONS, room)
    for spec in ({"podRef": {"name": "other"}}, {"mode": "EvictDirectly"}):
        found = said("PATCH", f"{MIGRATIONS}/move", {"spec": spec}, content_type=MERGE)
        assert "nothing of a PodMigrationJob but" in found
    spec = {"podRef": {"uid": "u"}, "reservationOptions": {"reservationRef": {"name": "r"}}}
    assert "PodMigrationJob" == said("PATCH", f"{MIGRATIONS}/move", {"spec": spec}, content_type=MERGE)  # fmt: skip
    plane.api.request("DELETE", f"{MIGRATIONS}/move")
