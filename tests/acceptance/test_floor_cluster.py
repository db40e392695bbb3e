"""The floor beside a real `bursar up`: unnoticed while it answers, in force while it is away, and what waited meanwhile starts."""

import json

import pytest

from tests.acceptance.admission_site import LABEL, MANIFESTS, Site, quota, workload
from tests.cluster.api import Api, ApiError

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.waits]

JOBS = "/apis/batch/v1/namespaces/default/jobs"
WAITS = {"bursar.io/queue": "research"}


@pytest.fixture
def site(start_plane, tmp_path):
    site = Site(start_plane(controllers=True), tmp_path)
    site.environment = {"BURSAR_ADMISSION__MODE": "enforce"}
    yield site
    site.stop()


def tenant(plane):
    """Somebody with `edit` in the namespace default; an administrator has every right, that to start included."""
    plane.kubectl("create", "serviceaccount", "tenant")
    plane.kubectl("create", "rolebinding", "tenant", "--clusterrole=edit", "--serviceaccount=default:tenant")  # fmt: skip
    token = plane.kubectl("create", "token", "tenant").strip()
    return Api(plane.url, token, str(plane.ca_file))


def job(name, **metadata):
    found = workload("Job", name, 1)
    found["metadata"] |= {"labels": {LABEL: "research"}, **metadata}
    return found


def test_what_waits_while_bursar_is_away_starts_when_it_is_back(site):
    site.start("up")
    site.until(lambda: site.registered())
    site.plane.kubectl("apply", "-f", str(MANIFESTS / "floor.yaml"))
    site.until(lambda: "created" in site.apply(quota("research", {"limits.cpu": "4"}, queue={"hold": True})))  # fmt: skip
    site.until(lambda: "status" in site.quota("research"))
    user = tenant(site.plane)

    def suspended(name):
        return json.loads(site.plane.kubectl("get", "job", name, "-o", "json"))["spec"]["suspend"]

    def refused(method, path, body):
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        try:
            user.request(method, path, body, content_type=kind)
        except ApiError as error:
            return "has a queue" in str(error)
        return False

    assert user.request("POST", JOBS, job("first"))["spec"]["suspend"] is True
    site.until(lambda: not suspended("first"))
    site.stop()
    assert refused("POST", JOBS, job("second"))
    third = job("third", annotations=WAITS)
    user.request("POST", JOBS, third | {"spec": {**third["spec"], "suspend": True}})
    assert refused("PATCH", f"{JOBS}/third", {"spec": {"suspend": False}})
    site.start("up")
    site.until(lambda: not suspended("third"), 60)
