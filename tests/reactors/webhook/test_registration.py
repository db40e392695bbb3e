"""The configuration never asks about what a cluster or Bursar needs to start. Catalogue P19."""

import base64

import pytest

from bus.kube.kinds import GOVERNED
from reactors.admission.deciding.mapping import ELASTIC_LABEL, LABEL
from reactors.webhook.registration import (
    SYSTEM_NAMESPACES,
    TIMEOUT_SECONDS,
    RegistrationSettings,
    configuration,
)
from tests.architecture.product import PACKAGES
from tests.architecture.purity import faults

SETTINGS = RegistrationSettings(namespace="bursar")


def webhooks(settings=SETTINGS):
    return configuration(settings, GOVERNED, b"PEM")["webhooks"]


def rules(settings=SETTINGS):
    return [rule for webhook in webhooks(settings) for rule in webhook["rules"]]


def matched():
    """(group, resource) to the operations that are asked about."""
    found = {}
    for rule in rules():
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                found.setdefault((group, resource), set()).update(rule["operations"])
    return found


def test_nothing_is_matched_by_a_wildcard():
    texts = [
        text
        for rule in rules()
        for name in ("apiGroups", "apiVersions", "resources", "operations")
        for text in rule[name]
    ]

    assert texts and not [text for text in texts if "*" in text]
    assert "*" not in {rule["scope"] for rule in rules()}


def test_what_a_cluster_lives_on_is_never_asked_about():
    groups = {group for group, _ in matched()}
    core = {resource for group, resource in matched() if group == ""}

    assert core == {"pods", "pods/resize"}
    assert not groups & {
        "coordination.k8s.io",
        "events.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "rbac.authorization.k8s.io",
        "certificates.k8s.io",
        "node.k8s.io",
    }


def test_every_governed_kind_is_asked_about_when_it_is_made_or_changed_and_never_at_its_end():
    """A deletion asks for nothing: whatever an object holds, and whether Bursar answers or not, it can be deleted."""
    assert {
        (kind.group, kind.resource): matched().get((kind.group, kind.resource)) for kind in GOVERNED
    } == {(kind.group, kind.resource): {"CREATE", "UPDATE"} for kind in GOVERNED}


@pytest.mark.parametrize(
    "resource",
    [
        ("apps", "deployments/scale"),
        ("apps", "statefulsets/scale"),
        ("apps", "replicasets/scale"),
        ("argoproj.io", "rollouts/scale"),
        ("kubeflow.org", "pytorchjobs/scale"),
        ("kubeflow.org", "paddlejobs/scale"),
        ("kubeflow.org", "jaxjobs/scale"),
        ("", "pods/resize"),
    ],
    ids=" ".join,
)
def test_other_ways_to_ask_for_more_are_asked_about(resource):
    assert matched()[resource] == {"UPDATE"}


def test_quotas_and_autoscalers_are_asked_about():
    assert {
        ("bursar.io", "bizgroupresourcequotas"): {"CREATE", "UPDATE", "DELETE"},
        ("scheduling.sigs.k8s.io", "elasticquotas"): {"CREATE", "UPDATE", "DELETE"},
        ("autoscaling", "horizontalpodautoscalers"): {"CREATE", "UPDATE"},
    }.items() <= matched().items()


def test_no_status_is_asked_about():
    assert [] == [resource for _, resource in matched() if resource.endswith("/status")]


def test_the_system_s_and_bursar_s_own_namespaces_are_exempt():
    settings = RegistrationSettings("accounting", exempt_namespaces=("monitoring",))
    for webhook in webhooks(settings):
        by_name, by_label = webhook["namespaceSelector"]["matchExpressions"]

        assert by_name == {
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": sorted([*SYSTEM_NAMESPACES, "accounting", "monitoring"]),
        }
        assert by_label == {"key": "bursar.io/admission", "operator": "NotIn", "values": ["ignore"]}


def test_no_label_of_a_workload_opens_a_way_around():
    assert [{}] * 4 == [webhook["objectSelector"] for webhook in webhooks()]


def test_an_absent_webhook_lets_everything_pass_unless_chosen_otherwise():
    closed = RegistrationSettings("bursar", failure_policy="Fail")

    assert {"Ignore"} == {webhook["failurePolicy"] for webhook in webhooks()}
    assert {name(one): one["failurePolicy"] for one in webhooks(closed)} == {
        "workloads": "Fail",
        "elastic-workloads": "Fail",
        "labelled-workloads": "Fail",
        "free-workloads": "Ignore",
        "quotas": "Fail",
        "children": "Ignore",
        "claims": "Fail",
        "elastic-claims": "Fail",
        "labelled-claims": "Fail",
        "free-claims": "Ignore",
    }


def name(webhook):
    return webhook["name"].removesuffix(".admission.bursar.io")


def selected(webhook, labels):
    """Whether a namespace with these labels is asked about."""
    operators = {"Exists": lambda key: key in labels, "DoesNotExist": lambda key: key not in labels}
    return all(
        operators[one["operator"]](one["key"])
        for one in webhook["namespaceSelector"]["matchExpressions"]
        if one["operator"] in operators
    )


@pytest.mark.parametrize("labels", [(), (LABEL,), (ELASTIC_LABEL,), (LABEL, ELASTIC_LABEL)])
def test_each_namespace_has_one_entry_or_two_of_opposite_conditions(labels):
    """So each request is reviewed once, whatever the policy."""
    found = webhooks(RegistrationSettings("bursar", failure_policy="Fail"))
    asked = [one for one in found if "workloads" in name(one) and selected(one, labels)]

    if labels:
        [only] = asked
        assert (only["failurePolicy"], len(only["matchConditions"])) == ("Fail", 2)
    else:
        labelled, free = asked
        condition = labelled["matchConditions"][-1]["expression"]
        assert free["matchConditions"][-1]["expression"] == f"!({condition})"
        assert f"object.?metadata.?labels[?'{LABEL}'].hasValue()" in condition


def test_pods_of_controllers_are_asked_about_when_they_are_made_and_pass_while_nobody_answers():
    """Each pod below an owner has to fit the owner's charge. An outage of Bursar keeps no pod from being replaced."""
    found = webhooks(RegistrationSettings("bursar", failure_policy="Fail"))
    [children] = [one for one in found if name(one) == "children"]

    [rule] = children["rules"]
    assert (rule["resources"], rule["operations"]) == (["pods"], ["CREATE"])
    assert children["failurePolicy"] == "Ignore"
    [condition] = children["matchConditions"]
    assert "system:serviceaccounts:kube-system" in condition["expression"]
    assert "apps/DaemonSet" in condition["expression"]


def test_conditions_read_few_references_to_owners():
    """CEL has a budget: 100,000 references of a tenant's pod would exceed it, and failurePolicy would decide."""
    workloads, _, children, _ = webhooks()

    for webhook in (workloads, children):
        assert (
            "ownerReferences.orValue([]).size() <= 64"
            in webhook["matchConditions"][0]["expression"]
        )


def test_the_api_server_waits_longer_than_the_internal_deadline_and_not_for_long():
    assert {TIMEOUT_SECONDS} == {webhook["timeoutSeconds"] for webhook in webhooks()}
    # A body that has not begun is waited for twice.
    assert 2 * 2 < TIMEOUT_SECONDS <= 5


def test_each_webhook_is_what_the_house_says():
    for webhook in webhooks():
        assert (
            webhook["sideEffects"],
            webhook["matchPolicy"],
            webhook["admissionReviewVersions"],
        ) == ("NoneOnDryRun", "Equivalent", ["v1"])


def test_the_client_is_a_service_or_an_address():
    service = webhooks()[0]["clientConfig"]
    address = webhooks(RegistrationSettings("bursar", url="https://10.0.0.1:9443"))[0]

    assert service == {
        "service": {
            "namespace": "bursar",
            "name": "bursar-webhook",
            "path": "/admit",
            "port": 443,
        },
        "caBundle": base64.b64encode(b"PEM").decode(),
    }
    assert address["clientConfig"]["url"] == "https://10.0.0.1:9443/admit"


def test_a_bundle_that_another_program_fills_in_is_not_named():
    whole = configuration(SETTINGS, GOVERNED, b"")

    assert "caBundle" not in whole["webhooks"][0]["clientConfig"]


def test_names_are_quoted_for_cel():
    odd = RegistrationSettings("bursar", controllers=('a"] + ["system:anonymous',))
    [condition, _] = webhooks(odd)[0]["matchConditions"]

    assert r'["a\"] + [\"system:anonymous"]' in condition["expression"]


def test_the_configuration_is_pure():
    assert [] == faults(configuration, PACKAGES)
