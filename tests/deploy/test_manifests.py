"""What our manifests allow Bursar to do: as little as it needs (docs/reliability.md)."""

import pytest
import yaml

from bus.events.pods import NATIVE
from bus.kube.kinds import GOVERNED
from bus.kube.watch.contract import resource_of
from bus.sources.catalogue import SOURCES
from deploy.cli.program.program import run_command
from deploy.commands import rights
from deploy.settings.admission import AdmissionSettings
from reactors.jobs.effectors.groups import VERSIONS
from reactors.jobs.shape import KINDS
from reactors.scheduling.queueing.messages import SYSTEM_NAMESPACES
from reactors.webhook.proof import NAMESPACE
from tests.deploy.manifests import ACTING, FILES, FOLDER, OBJECTS, ROLES, granted


@pytest.mark.parametrize("role", ROLES)
def test_nothing_is_granted_by_a_wildcard(role):
    assert not [pair for pair in granted(role) if "*" in "".join(pair)]


def test_the_scheduler_leaves_the_namespaces_of_the_policy_alone():
    [policy] = [
        one["spec"]["matchConstraints"]
        for one in OBJECTS
        if one["kind"] == "ValidatingAdmissionPolicy"
        and one["metadata"]["name"] == "bursar-namespaces"
    ]
    [names] = policy["namespaceSelector"]["matchExpressions"]

    assert set(names["values"]) == SYSTEM_NAMESPACES


@pytest.mark.parametrize("role", ROLES)
def test_neither_secrets_nor_rights_nor_nodes_are_in_reach(role):
    forbidden = (
        "secrets",
        "configmaps",
        "roles",
        "bindings",
        "serviceaccounts",
        "nodes/",
        "tokenreviews",
    )
    assert not [pair for pair in granted(role) if any(word in pair[0] for word in forbidden)]
    assert not [pair for pair in granted(role) if pair[1] in ("escalate", "bind", "impersonate")]


def test_every_source_may_list_and_watch_what_can_be_watched_and_nothing_more():
    wanted = {(resource_of(source.path), "list") for source in SOURCES}
    wanted |= {(resource_of(source.path), "watch") for source in SOURCES if source.polling is None}
    looks = {("pods", "get"), ("pods.metrics.k8s.io", "get")}

    assert granted("bursar-reader") == wanted | looks


@pytest.mark.parametrize("role", ["reader", "queue"])
def test_the_rights_to_what_is_followed_are_as_make_docs_writes_them(role):
    text = (FOLDER / "rbac" / f"{role}.yaml").read_text()

    assert text == getattr(rights, role)(text)


def test_every_governed_kind_is_followed():
    assert {kind.path for kind in GOVERNED} - {source.path for source in SOURCES} == set()


def test_the_webhook_configurations_are_read_by_name_and_never_written():
    """Shipped empty, a second apply would empty what an administrator registered."""
    [rule] = ROLES["bursar-registrar"]

    assert (rule["verbs"], rule["resourceNames"]) == (["get"], ["bursar"])
    assert not [found for found in OBJECTS if "WebhookConfiguration" in found["kind"]]


def test_whether_reviews_arrive_is_asked_in_a_namespace_where_nothing_can_run():
    made = {found["metadata"]["name"] for found in OBJECTS if found["kind"] == "Namespace"}
    [quota] = [found for found in OBJECTS if found["kind"] == "ResourceQuota"]

    assert granted("bursar-probe") == {("deployments.apps", "create")}
    assert NAMESPACE in made
    assert quota["metadata"]["namespace"] == NAMESPACE
    assert set(quota["spec"]["hard"].values()) == {"0"}


def test_the_queue_may_patch_what_waits_and_nothing_else():
    queueing = {(resource_of(kind.path), "patch") for kind in GOVERNED if kind.queues}

    assert granted("bursar-queue") == queueing


def test_running_jobs_needs_their_pods_services_and_podgroups_their_status_and_their_end():
    """And nothing of it comes with the folder of the other roles: who makes pods can run anything."""
    jobs = {resource_of(kind.path) for kind in GOVERNED if kind.kind in KINDS}
    wanted = {
        (one, verb) for one in ("pods", "services") for verb in ("get", "create", "patch", "delete")
    }
    wanted |= {(one, verb) for one in jobs for verb in ("get", "delete")}
    wanted |= {(f"{one}/status", "patch") for one in jobs}
    wanted |= {("events.events.k8s.io", "create")}
    for api in VERSIONS:
        # Kubernetes' own cannot be changed.
        verbs = {"get", "create", "delete"} | ({"patch"} if api != NATIVE else set())
        wanted |= {(f"podgroups.{api.removeprefix('PodGroup.')}", verb) for verb in verbs}

    assert granted("bursar-jobs") == wanted
    assert not any(one.stem == "jobs" for one in FOLDER.glob("rbac/*.yaml"))


def test_the_kinds_that_are_shipped_are_those_that_are_run():
    shipped = yaml.safe_load_all((FOLDER / "training" / "crds.yaml").read_text())

    assert {one["spec"]["names"]["kind"] for one in shipped} == set(KINDS)


def test_the_kinds_that_are_shipped_are_scaled_where_the_operator_s_are():
    shipped = yaml.safe_load_all((FOLDER / "training" / "crds.yaml").read_text())
    found = {
        one["spec"]["names"]["kind"]: one["spec"]["versions"][0]["subresources"].get("scale")
        for one in shipped
    }
    wanted = {"PyTorchJob": "pytorch", "PaddleJob": "paddle", "JAXJob": "jax"}

    assert found == {
        kind: (kind in wanted and {
            "specReplicasPath": f".spec.{wanted[kind]}ReplicaSpecs.Worker.replicas",
            "statusReplicasPath": ".status.replicaStatuses.Worker.active",
            "labelSelectorPath": ".status.replicaStatuses.Worker.selector",
        }) or None
        for kind in KINDS
    }  # fmt: skip


KOORDINATOR = {
    "Reservation", "PodMigrationJob", "ElasticQuota", "ElasticQuotaProfile", "Device", "NodeMetric", "NodeSLO",
    "NodeResourceTopology", "ClusterColocationProfile", "PodGroup",
}  # fmt: skip


def test_koordinator_s_kinds_are_shipped_in_the_groups_and_versions_that_are_followed(capsys):
    assert run_command(["manifests", "--koordinator"]) == 0
    shipped = list(yaml.safe_load_all(capsys.readouterr().out))
    served = {
        f"/apis/{one['spec']['group']}/{version['name']}/{one['spec']['names']['plural']}"
        for one in shipped
        for version in one["spec"]["versions"]
    }
    followed = {
        source.path
        for source in SOURCES
        if "koordinator" in source.path or source.path.startswith("/apis/scheduling.sigs.k8s.io/")
    }

    assert {one["spec"]["names"]["kind"] for one in shipped} == KOORDINATOR
    assert followed and followed - served == set()


@pytest.mark.parametrize("beside", [["--nats"], ["--registration"], ["--mode", "shadow"]])
def test_koordinator_s_kinds_are_printed_alone(beside, capsys):
    assert run_command(["manifests", "--koordinator", *beside]) == 2
    assert "goes alone" in capsys.readouterr().err


def test_an_eviction_needs_a_look_and_a_request_and_no_delete():
    assert granted("bursar-evictor") == {("pods", "get"), ("pods/eviction", "create")}


def test_scheduling_may_look_bind_and_tell_and_nothing_else():
    events = ("events.events.k8s.io", "create")
    wanted = {("pods", "get"), ("pods/binding", "create"), ("pods/status", "patch"), events}
    wanted.add(("persistentvolumeclaims", "patch"))
    of_reservations = "reservations.scheduling.koordinator.sh"
    wanted |= {(of_reservations, "get"), (of_reservations, "delete"), ("nodes", "get")}
    wanted.add(("reservations.scheduling.koordinator.sh/status", "patch"))

    assert granted("bursar-scheduler") == wanted


def test_culling_may_patch_what_it_stops_and_tell_of_it_and_nothing_else():
    stopped = {"pods", "notebooks.kubeflow.org", "statefulsets.apps", "deployments.apps"}
    wanted = {(resource, verb) for resource in stopped for verb in ("get", "patch")}
    events = {("events.events.k8s.io", "create"), ("events.events.k8s.io", "get")}

    assert granted("bursar-culler") == wanted | events | {("pods/eviction", "create")}


@pytest.mark.parametrize("role", ROLES)
def test_what_acts_is_bound_to_an_account_of_its_own(role):
    [bound] = [
        {one["name"] for one in found["subjects"]}
        for found in OBJECTS
        if found["kind"].endswith("Binding") and found.get("roleRef", {}).get("name") == role
    ]

    assert bound == ({"bursar-actor"} if role in ACTING else {"bursar", "bursar-actor"})


@pytest.mark.parametrize("role", sorted(ACTING))
def test_each_role_that_acts_is_a_file_of_its_own(role):
    (file,) = [one for one in FILES if one.stem == role.removeprefix("bursar-")]
    kinds = [found["kind"] for found in yaml.safe_load_all(file.read_text())]

    assert kinds == ["ClusterRole", "ClusterRoleBinding"]


def test_the_service_is_where_the_settings_say_that_the_webhook_is():
    service = yaml.safe_load((FOLDER / "service.yaml").read_text())
    wanted = AdmissionSettings()
    [port] = service["spec"]["ports"]

    assert service["metadata"] == {"name": wanted.service, "namespace": wanted.namespace}
    assert (port["port"], port["targetPort"]) == (443, wanted.port)


def test_what_acts_has_its_own_place_in_the_queues_of_the_api_server():
    schema = yaml.safe_load((FOLDER / "flow.yaml").read_text())
    [rule] = schema["spec"]["rules"]
    [subject] = rule["subjects"]
    [resources] = rule["resourceRules"]

    assert schema["spec"]["matchingPrecedence"] < 9000
    assert subject["serviceAccount"] == {"name": "bursar-actor", "namespace": "bursar-system"}
    assert resources["resources"] == ["pods/eviction", "pods/binding"]
