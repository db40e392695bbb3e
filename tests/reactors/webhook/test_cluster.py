"""What a real API server asks the webhook, what it makes of the answers, and what it never asks about."""

import asyncio
import contextlib
import json
import secrets
import subprocess
import time

import pytest

from bus.kube import kinds
from bus.kube.crds.manifests import manifest
from bus.kube.kinds import table
from reactors.admission.deciding.mapping import LABEL as QUOTA
from reactors.webhook import Answer
from reactors.webhook.certificates import SETTLE_SECONDS
from tests.cluster import build
from tests.cluster.api import MERGE, ApiError
from tests.cluster.plane import ControlPlane
from tests.reactors.webhook.clusters import (
    DEPLOYMENTS,
    OWN_NAMESPACE,
    deployment,
    pod,
    registered,
)
from tests.reactors.webhook.configuration import admission_configuration
from tests.reactors.webhook.serving import DUE, client_certificate

pytestmark = pytest.mark.kube

DENIED = Answer(False, "over-quota", "4 more cpu than quota team-a has left")


@pytest.fixture(scope="module")
def controlled(start_module_plane):
    """An API server with controllers: a webhook is for a whole cluster, so not the shared one's."""
    return start_module_plane()


@pytest.fixture(scope="module")
def start_module_plane(tmp_path_factory):
    planes = []

    def start(**options):
        if reason := build.missing():
            pytest.skip(f"no control plane: {reason}")
        folder = tmp_path_factory.mktemp("plane")
        planes.append(ControlPlane(folder, scheduler=False, simulator=False, **options))
        planes[-1].start()
        return planes[-1]

    yield start
    for plane in planes:
        plane.stop()


@pytest.fixture
def team(controlled):
    """A new namespace of the controlled plane."""
    name = f"team-{secrets.token_hex(4)}"
    controlled.api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    return name


@pytest.fixture
async def asked(tmp_path, controlled):
    """A webhook that this API server asks, with failurePolicy Fail."""
    async with registered(tmp_path, controlled, failure_policy="Fail") as found:
        yield found


async def test_a_refusal_is_shown_to_the_person(asked, team):
    asked.admission.answer = DENIED
    with pytest.raises(ApiError) as found:
        await asked.create(team, deployment("service"))
    body = found.value.body
    with pytest.raises(RuntimeError) as complaint:
        manifest = json.dumps(deployment("service"))
        await asked.kubectl("create", "-n", team, "-f", "-", input=manifest)

    assert (found.value.status, body["reason"]) == (403, "over-quota")
    assert body["message"] == (
        'admission webhook "free-workloads.admission.bursar.io" denied the request: '
        + DENIED.message
    )
    assert DENIED.message in str(complaint.value)


async def test_a_warning_is_shown_although_it_was_allowed(asked, team):
    asked.admission.answer = Answer(True, warnings=("the budget ends on Friday",))
    created = await asyncio.to_thread(warnings_of_kubectl, asked.plane, team)

    assert "Warning: the budget ends on Friday" in created


def warnings_of_kubectl(plane, team):
    command = ("kubectl", f"--kubeconfig={plane.kubeconfig}", "create", "-n", team, "-f", "-")
    done = subprocess.run(
        [build.binary(command[0]), *command[1:]],
        input=json.dumps(deployment("warned")),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr


async def test_the_uid_is_seen_on_create_and_kept(asked, team):
    created = await asked.create(team, deployment("service"))
    [review] = asked.admission.of("deployments", name="service")

    assert review.object["metadata"]["uid"] == created["metadata"]["uid"]
    assert (review.operation, review.dry_run, review.old_object) == ("CREATE", False, None)
    assert (review.group, review.kind, review.namespace) == ("apps", "Deployment", team)
    assert review.user == "kubernetes-admin"


async def test_a_dry_run_is_told(asked, team):
    await asked.create(team, deployment("service"), "?dryRun=All")
    [review] = asked.admission.of("deployments", name="service")

    assert review.dry_run
    assert review.object["metadata"]["uid"]


async def test_a_scale_is_asked_about_with_the_uid_of_what_is_scaled(asked, team):
    created = await asked.create(team, deployment("service"))
    path = f"{DEPLOYMENTS.format(team)}/service/scale"
    patch = {"spec": {"replicas": 5}}
    await asked.request("PATCH", path, patch, content_type=MERGE)
    review = asked.admission.of("deployments", "scale")[-1]

    assert review.object["spec"]["replicas"] == 5
    assert review.old_object["spec"]["replicas"] == 1
    assert review.object["metadata"]["uid"] == created["metadata"]["uid"]


async def test_one_patch_that_meets_a_conflict_is_asked_about_twice(asked, team):
    await asked.create(team, deployment("service", replicas=0))
    path = f"{DEPLOYMENTS.format(team)}/service"
    asked.admission.asked.clear()

    async def disturb_once(review):
        if [review] == patches():
            other = {"metadata": {"annotations": {"by": "another"}}}
            await asked.request("PATCH", path, other, content_type=MERGE)
        return Answer(True)

    def patches():
        every = asked.admission.of("deployments")
        return [review for review in every if review.object["spec"]["replicas"] == 3]

    asked.admission.decide = disturb_once
    await asked.request("PATCH", path, {"spec": {"replicas": 3}}, content_type=MERGE)
    # Twice, and once more for each other conflict that it happens to meet.
    first, second, *_ = [patch for patch in patches() if patch.old_object["spec"]["replicas"] == 0]

    assert first.uid != second.uid
    assert first.object["metadata"]["uid"] == second.object["metadata"]["uid"]


async def test_a_deletion_is_never_asked_about(asked, team):
    """It works while nobody answers, too."""
    await asked.create(team, deployment("service"))
    await asked.request("POST", f"/api/v1/namespaces/{team}/pods", pod("alone"))
    await asked.webhook.server.stop()
    await asked.request("DELETE", f"{DEPLOYMENTS.format(team)}/service")
    await asked.request("DELETE", f"/api/v1/namespaces/{team}/pods/alone")

    operations = {one.operation for one in asked.admission.asked if one.namespace == team}
    assert "DELETE" not in operations


async def test_an_autoscaler_of_an_older_version_is_converted(asked, team):
    path = f"/apis/autoscaling/v1/namespaces/{team}/horizontalpodautoscalers"
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "service"}
    spec = {"scaleTargetRef": target, "maxReplicas": 7, "targetCPUUtilizationPercentage": 50}
    await asked.request("POST", path, {"metadata": {"name": "service"}, "spec": spec})
    [review] = asked.admission.of("horizontalpodautoscalers")

    assert (review.version, review.object["spec"]["maxReplicas"]) == ("v2", 7)


async def test_pods_that_a_controller_makes_are_asked_about_when_they_are_made_and_never_again(
    asked, team
):
    """Each has to fit what its owner is charged with. Its end, and a finalizer of its Job, ask for nothing."""
    await asked.create(team, deployment("service", replicas=3))
    path = f"/api/v1/namespaces/{team}/pods"
    async with asyncio.timeout(30):
        while len((await asked.request("GET", path))["items"]) < 3:
            await asyncio.sleep(0.1)
    await asked.request("DELETE", f"/apis/apps/v1/namespaces/{team}/deployments/service")
    async with asyncio.timeout(30):
        while any(
            "deletionTimestamp" not in pod["metadata"]
            for pod in (await asked.request("GET", path))["items"]
        ):
            await asyncio.sleep(0.1)

    reviews = [review for review in asked.admission.asked if review.namespace == team]
    assert {"Deployment", "ReplicaSet", "Pod"} == {review.kind for review in reviews}
    assert {"CREATE"} == {review.operation for review in reviews if review.kind == "Pod"}


async def test_a_pod_that_a_controller_adopts_is_asked_about(asked, team):
    """Its charge moves to its owner's, which may belong to another quota."""
    await asked.request("POST", f"/api/v1/namespaces/{team}/pods", pod("lone", labels={"app": "a"}))
    folder = f"/apis/apps/v1/namespaces/{team}/replicasets"
    made = deployment("a")
    await asked.request("POST", folder, {**made, "kind": "ReplicaSet"})
    async with asyncio.timeout(30):
        while not (found := adoptions(asked, team)):
            await asyncio.sleep(0.1)

    assert found[0].user == "system:serviceaccount:kube-system:replicaset-controller"


def adoptions(asked, team):
    """Reviews of pods that got an owner."""
    return [
        review
        for review in asked.admission.of("pods", name="lone")
        if review.operation == "UPDATE"
        and review.namespace == team
        and review.object["metadata"].get("ownerReferences")
    ]


async def test_a_pod_that_only_claims_an_owner_is_asked_about(asked, team):
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "made-up", "uid": "none"}
    claimed = pod("claims", ownerReferences=[{**owner, "controller": True}])
    asked.admission.answer = DENIED
    with pytest.raises(ApiError, match="over-quota"):
        await asked.request("POST", f"/api/v1/namespaces/{team}/pods", claimed)


async def test_a_claim_is_asked_about_where_it_may_be_given_away(asked, team):
    path = f"/apis/resource.k8s.io/v1/namespaces/{team}/resourceclaims"
    made = {"name": "g", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    body = {"metadata": {"name": "mine"}, "spec": {"devices": {"requests": [made]}}}
    await asked.request("POST", path, body)
    for part in (
        {"finalizers": ["example.com/f"]},
        {"annotations": {"a": "b"}},
        {"finalizers": []},
    ):
        await asked.request("PATCH", f"{path}/mine", {"metadata": part}, content_type=MERGE)

    operations = [one.operation for one in asked.admission.of("resourceclaims", name="mine")]
    assert operations == ["CREATE", "UPDATE"]


async def test_what_a_node_writes_is_not_asked_about(asked, team):
    binding = {
        "metadata": {"name": f"nodes-{team}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"},
        "subjects": [{"kind": "Group", "name": "system:nodes"}],
    }
    binding["roleRef"]["name"] = "cluster-admin"
    await asked.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    as_node = ("--as=system:node:n", "--as-group=system:nodes")
    manifest = json.dumps(pod("mirror"))
    await asked.kubectl(*as_node, "create", "-n", team, "-f", "-", input=manifest)

    assert [] == asked.admission.of("pods", name="mirror")


#: Namespaces and their labels.
EXEMPT = {
    "kube-system": {},
    "kube-public": {},
    "kube-node-lease": {},
    OWN_NAMESPACE: {},
    "let-alone": {"bursar.io/admission": "ignore"},
}


@pytest.mark.parametrize(("namespace", "labels"), EXEMPT.items(), ids=EXEMPT)
async def test_exempt_namespaces_are_never_asked_about(asked, namespace, labels):
    await ensure(asked.plane, namespace, labels)
    asked.admission.answer = DENIED
    await asked.create(namespace, deployment("service", replicas=0))
    await asked.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod("alone"))
    await asked.request("DELETE", f"{DEPLOYMENTS.format(namespace)}/service")

    assert [] == [review for review in asked.admission.asked if review.namespace == namespace]


async def ensure(plane, namespace, labels):
    try:
        item = {"metadata": {"name": namespace, "labels": labels}}
        await asyncio.to_thread(plane.api.request, "POST", "/api/v1/namespaces", item)
    except ApiError as error:
        if error.status != 409:
            raise


async def test_a_label_on_the_workload_does_not_exempt_it(asked, team):
    asked.admission.answer = DENIED
    with pytest.raises(ApiError, match="over-quota"):
        await asked.create(team, deployment("service", labels={"bursar.io/admission": "ignore"}))


async def test_a_quota_is_asked_about_and_its_refusal_shown(asked):
    await asked.kubectl("apply", "--server-side", "-f", "-", input=manifest())
    crd = "crd/bizgroupresourcequotas.bursar.io"
    await asked.kubectl("wait", "--for=condition=Established", "--timeout=30s", crd)
    quota = {
        "apiVersion": "bursar.io/v1alpha1",
        "kind": "BizGroupResourceQuota",
        "metadata": {"name": "team-a"},
        "spec": {"hard": {"limits.cpu": "10"}},
    }
    asked.admission.answer = Answer(False, "parent-exceeded", "root has 4 cpu left, not 10")
    with pytest.raises(RuntimeError, match="root has 4 cpu left, not 10"):
        await asked.kubectl("apply", "-f", "-", input=json.dumps(quota))
    review = asked.admission.of("bizgroupresourcequotas")[-1]

    assert (review.operation, review.namespace, review.name) == ("CREATE", "", "team-a")


async def test_a_handler_that_hangs_is_answered_for_before_the_api_server_gives_up(
    tmp_path, controlled, team
):
    async with registered(tmp_path, controlled, deadline_seconds=0.5) as asked:
        await asked.create(team, deployment("service"))

        async def hang(review):
            await asyncio.Event().wait()

        asked.admission.decide = hang
        began = time.monotonic()
        with pytest.raises(ApiError) as found:
            await asked.create(team, deployment("second"))
        took = time.monotonic() - began
        await asked.request("DELETE", f"{DEPLOYMENTS.format(team)}/service")

    assert (found.value.status, found.value.body["reason"]) == (503, "bursar-unavailable")
    assert took < 2


async def test_an_object_that_cannot_be_read_exactly_is_refused_whatever_the_policy(
    tmp_path, controlled, team
):
    async with registered(tmp_path, controlled, failure_policy="Ignore") as asked:
        with pytest.raises(ApiError, match="unreadable-object"):
            await asked.create(team, deployment("service", annotations={"a": "\0"}))


@pytest.mark.parametrize("policy", ["Ignore", "Fail"])
async def test_while_the_webhook_is_gone_the_policy_decides_for_what_a_quota_governs(
    tmp_path, controlled, team, policy
):
    """Work without a quota, and system namespaces, go on; so does every deletion."""
    labels = {QUOTA: "team-a"}
    await ensure(controlled, f"{team}-mapped", labels)
    work = [
        (f"{team}-mapped", deployment("mapped")),
        (team, deployment("labelled", labels=labels)),
        (team, with_template(deployment("templated"), labels)),
        (team, deployment("free")),
        ("kube-system", deployment(f"system-{team}")),
    ]
    async with registered(tmp_path, controlled, failure_policy=policy) as asked:
        await asked.create(f"{team}-mapped", deployment("before"))
        await asked.create(team, deployment("before"))
        assert len(asked.admission.of("deployments", name="before")) == 2
        await asked.webhook.server.stop()
        passed = [await passes(asked, *one) for one in work]
        for namespace, item in [*work, (f"{team}-mapped", deployment("before"))]:
            await remove(asked, namespace, item["metadata"]["name"])

    assert passed == [policy == "Ignore"] * 3 + [True] * 2


def with_template(item, labels):
    item["spec"]["template"]["metadata"]["labels"] |= labels
    return item


async def passes(asked, namespace, item):
    try:
        await asked.create(namespace, item)
    except ApiError as error:
        assert "failed calling webhook" in str(error)
        return False
    return True


async def remove(asked, namespace, name):
    with contextlib.suppress(ApiError):
        await asked.request("DELETE", f"{DEPLOYMENTS.format(namespace)}/{name}")
    with pytest.raises(ApiError) as found:
        await asked.request("GET", f"{DEPLOYMENTS.format(namespace)}/{name}")
    assert found.value.status == 404


async def test_a_pod_of_very_many_owners_exceeds_no_budget_of_a_condition(asked, team):
    """A condition that exceeds it falls under failurePolicy: its finalizers could not be removed, or it would pass unseen."""
    path = f"/api/v1/namespaces/{team}/pods"
    owner = {"apiVersion": "v1", "kind": "k", "name": "n", "uid": "u"}
    await asked.request("POST", path, pod("owned", ownerReferences=[owner] * 50_000))
    as_controller = ("--as=system:kube-controller-manager", "--as-group=system:masters")
    patch = json.dumps({"metadata": {"ownerReferences": None}})
    for change in ('{"metadata":{"labels":{"a":"b"}}}', patch):
        await asked.kubectl(*as_controller, "patch", "-n", team, "pod", "owned", "--type=merge", "-p", change)  # fmt: skip

    reviews = asked.admission.of("pods", name="owned")
    assert [one.operation for one in reviews].count("UPDATE") <= 2
    assert asked.app.state.refused == {}


#: What the API server takes, and what a review of it is no decoder's, or above the limit.
ODD = {
    "less-than": "<" * 590_000,
    "ampersands": "&" * 590_000,
    "line separators": "\u2028" * 300_000 + "<" * 300_000,
    "NUL": "\0",
}


@pytest.mark.parametrize("policy", ["Ignore", "Fail"])
@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
async def test_no_object_makes_the_webhook_not_answer_and_each_can_be_ended(
    tmp_path, controlled, team, policy, text
):
    """Created before Bursar was there, it is neither made again nor changed; finalizers and deletion pass."""
    path = DEPLOYMENTS.format(team)
    command = ["x", text]
    await asyncio.to_thread(
        controlled.api.request,
        "POST",
        path,
        with_command(deployment("old", finalizers=["a.b/c"]), command),
    )
    async with registered(tmp_path, controlled, failure_policy=policy) as asked:
        with pytest.raises(ApiError, match="unreadable-object"):
            await asked.create(team, with_command(deployment("new"), command))
        with pytest.raises(ApiError, match="unreadable-object"):
            scaled = {
                "spec": {
                    "replicas": 3,
                    "template": with_command(deployment("old"), command)["spec"]["template"],
                }
            }
            await asked.request("PATCH", f"{path}/old", scaled, content_type=MERGE)
        await asked.request("DELETE", f"{path}/old")
        assert (await asked.request("GET", f"{path}/old"))["metadata"]["deletionTimestamp"]
        freed = {"metadata": {"finalizers": None}}
        await asked.request("PATCH", f"{path}/old", freed, content_type=MERGE)
        with pytest.raises(ApiError) as gone:
            await asked.request("GET", f"{path}/old")

    assert gone.value.status == 404
    assert asked.app.state.refused == {}


def with_command(item, command):
    item["spec"]["template"]["spec"]["containers"][0]["command"] = command
    item["spec"]["replicas"] = 0
    return item


async def test_the_certificate_changes_while_the_api_server_asks(asked, team):
    stop = asyncio.Event()

    async def keep_creating():
        created = 0
        while not stop.is_set():
            await asked.create(team, deployment(f"service-{created}", replicas=0), "?dryRun=All")
            created += 1
        return created

    # Each review on a connection of its own, so that each checks a certificate.
    asked.app.draining = True
    before = await asked.webhook.served()
    creating = asyncio.create_task(keep_creating())
    asked.webhook.clock.after(DUE)
    for _ in range(3):
        await asked.webhook.rotation.turn()
        # The API server's time passes as the machine's does.
        await asyncio.sleep(1)
        asked.webhook.clock.after(SETTLE_SECONDS)
    stop.set()

    assert await creating > 20
    assert await asked.webhook.served() != before


async def test_only_the_api_server_gets_an_answer_where_clients_are_verified(
    tmp_path, start_module_plane
):
    client = client_certificate(tmp_path / "apiserver.pem")
    flags = [f"--admission-control-config-file={admission_configuration(tmp_path, client)}"]
    plane = await asyncio.to_thread(start_module_plane, controllers=False, apiserver_flags=flags)
    async with registered(tmp_path, plane, client_ca=client, failure_policy="Fail") as asked:
        await asked.create("default", deployment("service"))

        assert len(asked.admission.of("deployments", name="service")) == 1


async def test_a_limit_range_is_in_the_pod_that_is_reviewed_and_not_in_a_template(asked, team):
    """What states no limits: defaults of a LimitRange count where they are, in pods."""
    limits = [{"type": "Container", "default": {"cpu": "2", "memory": "1Gi"}}]
    path = f"/api/v1/namespaces/{team}/limitranges"
    await asked.request(
        "POST", path, {"metadata": {"name": "defaults"}, "spec": {"limits": limits}}
    )
    async with asyncio.timeout(20):
        # The API server's own LimitRanger reads them a moment later.
        while True:
            await asked.request("POST", f"/api/v1/namespaces/{team}/pods?dryRun=All", pod("p"))
            reviewed = kinds.asked(table.POD, asked.admission.of("pods", name="p")[-1].object)
            if reviewed.demand:
                break
            await asyncio.sleep(0.2)
    await asked.create(team, deployment("service"))
    [review] = asked.admission.of("deployments", name="service")
    template = kinds.asked(table.DEPLOYMENT, review.object)

    assert (reviewed.demand["limits.cpu"], reviewed.demand["requests.cpu"]) == (2000, 2000)
    assert "limits.cpu" not in reviewed.unstated
    assert template.demand == {}
    assert template.unstated["limits.cpu"] == ("main",)
