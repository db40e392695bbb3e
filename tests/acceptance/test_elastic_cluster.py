"""One ElasticQuota in a namespace of a real cluster, no label anywhere, and `bursar up` with the rights of our manifests."""

import json
from pathlib import Path

import pytest

from tests.acceptance.admission_site import Site

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.waits]

CRD = Path(__file__).parents[1] / "cluster" / "crds" / "elasticquotas.yaml"
PREFIX = "quota.scheduling.koordinator.sh/"
JOB = {"apiVersion": "batch/v1", "kind": "Job"}


@pytest.fixture
def site(start_plane, tmp_path):
    plane = start_plane(controllers=True, scheduler=True, simulator=True)
    plane.create_nodes(4)
    plane.kubectl("apply", "--server-side", "-f", str(CRD))
    crd = "crd/elasticquotas.scheduling.sigs.k8s.io"
    plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", crd)
    plane.kubectl("create", "namespace", "team-a")
    site = Site(plane, tmp_path)
    yield site
    site.stop()


def elastic(least, most):
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
        "metadata": {"name": "quota", "namespace": "team-a"},
        "spec": {"min": {"cpu": str(least)}, "max": {"cpu": str(most)}},
    }  # fmt: skip


def job(name, cpu):
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": str(cpu)}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    metadata = {"name": name, "namespace": "team-a"}
    return JOB | {"metadata": metadata, "spec": {"template": template}}


def shown(site):
    found = site.plane.kubectl("get", "elasticquota", "quota", "-n", "team-a", "-o", "json")
    return json.loads(found)


def used(site):
    return shown(site).get("status", {}).get("used", {}).get("cpu")


def test_it_governs_its_namespace_and_says_what_is_used(site):
    site.start("up")
    site.until(site.registered)
    site.until(lambda: "created" in site.apply(elastic(2, 6)))
    site.until(lambda: used(site) == "0")

    assert "created" in site.apply(job("four", 4))
    answer = site.apply(job("three", 3))
    assert "requests.cpu asks for 3 more, 4 of 6 are used, 1 too much" in answer
    site.until(lambda: used(site) == "4")
    annotations = shown(site)["metadata"]["annotations"]
    told = {name: annotations[PREFIX + name] for name in ("request", "guaranteed", "runtime")}
    assert told["guaranteed"] == '{"cpu":"2"}'
    # What was refused is wanted still, and has no room beside what is held.
    assert told["request"] == '{"cpu":"4"}'
    assert (shown(site)["spec"], shown(site)["metadata"]["generation"]) == (
        elastic(2, 6)["spec"], 1,
    )  # fmt: skip
    site.plane.kubectl("delete", "job", "four", "-n", "team-a")
    site.until(lambda: used(site) == "0")
    assert "created" in site.apply(job("three", 3))


def pod(name, priority):
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "3"}}}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"priorityClassName": priority, "containers": [container]},
    }  # fmt: skip


def priority_class(name, value):
    return {
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": name}, "value": value,
    }  # fmt: skip


def pods(site):
    return site.plane.kubectl("get", "pods", "-n", "team-a", "-o", "name").split()


def test_a_pod_of_higher_priority_takes_the_room_of_one_that_matters_less(site):
    """Refused at first, admitted when the least important pod of its quota was evicted; nobody else goes."""
    site.environment = {
        "BURSAR_EVICTIONS__MODE": "on", "BURSAR_EVICTIONS__POLICY__PREEMPTION": "on",
    }  # fmt: skip
    site.apply(priority_class("low", 1), priority_class("middle", 2), priority_class("high", 9))
    site.start("up")
    site.until(site.registered)
    site.until(lambda: "created" in site.apply(elastic(2, 6)))
    site.until(lambda: used(site) == "0")
    assert "created" in site.apply(pod("a", "low"))
    assert "created" in site.apply(pod("b", "middle"))
    site.until(lambda: used(site) == "6")

    assert "over-quota" in site.apply(pod("same", "low"))
    assert "over-quota" in site.apply(pod("urgent", "high"))
    site.until(lambda: "created" in site.apply(pod("urgent", "high")), 90)
    site.until(lambda: sorted(pods(site)) == ["pod/b", "pod/urgent"])
