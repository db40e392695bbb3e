"""What our manifests allow Bursar to do: as little as it needs (reliability.md P40)."""

from pathlib import Path

import pytest
import yaml

from bus.kinds import GOVERNED
from bus.sources.catalogue import SOURCES
from bus.sources.contract import resource_of

FOLDER = Path(__file__).parents[2] / "deploy" / "manifests"
ROLES = {
    found["metadata"]["name"]: found["rules"]
    for found in yaml.safe_load_all((FOLDER / "rbac.yaml").read_text())
    if found["kind"] == "ClusterRole"
}


def granted(role):
    return {
        (f"{resource}.{group}" if group else resource, verb)
        for rule in ROLES[role]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("role", ROLES)
def test_nothing_is_granted_by_a_wildcard(role):
    assert not [pair for pair in granted(role) if "*" in "".join(pair)]


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


def test_every_source_may_list_and_watch_and_nothing_more():
    wanted = {(resource_of(source.path), verb) for source in SOURCES for verb in ("list", "watch")}

    assert wanted - granted("bursar-reader") == set()
    assert {verb for _, verb in granted("bursar-reader")} == {"get", "list", "watch"}


def test_every_governed_kind_is_followed():
    assert {kind.path for kind in GOVERNED} - {source.path for source in SOURCES} == set()


def test_the_webhook_is_registered_by_name():
    named = [rule for rule in ROLES["bursar-admission"] if "patch" in rule["verbs"]]
    registrations = [r for r in named if "admissionregistration.k8s.io" in r["apiGroups"]]

    assert registrations
    assert all(rule.get("resourceNames") for rule in registrations)


def test_the_queue_may_patch_what_waits_and_nothing_else():
    queueing = {(resource_of(kind.path), "patch") for kind in GOVERNED if kind.queues}

    assert granted("bursar-queue") == queueing


def test_an_eviction_needs_a_look_and_a_request_and_no_delete():
    assert granted("bursar-evictions") == {("pods", "get"), ("pods/eviction", "create")}


def test_shadow_mode_looks_at_pods_and_what_they_use_and_writes_nothing():
    assert granted("bursar-notebooks") == {("pods", "get"), ("pods.metrics.k8s.io", "get")}


def test_culling_may_patch_what_it_stops_and_tell_of_it_and_nothing_else():
    stopped = {"pods", "notebooks.kubeflow.org", "statefulsets.apps", "deployments.apps"}
    wanted = {(resource, verb) for resource in stopped for verb in ("get", "patch")}
    events = {("events.events.k8s.io", "create"), ("events.events.k8s.io", "get")}

    assert granted("bursar-culling") == wanted | events | {("pods/eviction", "create")}


@pytest.mark.parametrize("role", ROLES)
def test_every_role_is_bound_to_bursars_account(role):
    bound = [
        (found["roleRef"]["name"], [one["name"] for one in found["subjects"]])
        for found in yaml.safe_load_all((FOLDER / "rbac.yaml").read_text())
        if found["kind"] == "ClusterRoleBinding"
    ]

    assert (role, ["bursar"]) in bound
