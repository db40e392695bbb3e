"""Quotas beside a real cluster, as their users have them: `bursar up` as a process, with the rights of our manifests."""

import json
import time

import pytest

from tests.acceptance.admission_site import LABEL, Site, free_port, quota, workload

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.waits]


@pytest.fixture
def site(start_plane, tmp_path):
    plane = start_plane(controllers=True, scheduler=True, simulator=True)
    plane.create_nodes(4)
    site = Site(plane, tmp_path)
    yield site
    site.stop()


def test_limits_hold_for_whole_workloads_with_the_rights_of_our_manifests(site):
    """limits.cpu 10 with limits.cpu.A4 4: four A4 cores make the type full, six of anything else still fit."""
    site.begin()

    assert "created" in site.apply(workload("Job", "four", 1, 4, **{"cpu-type": "A4"}))
    assert "limits.cpu.A4" in site.apply(workload("Job", "more", 1, 1, **{"cpu-type": "A4"}))
    assert "limits.cpu asks for 7 more" in site.apply(workload("Job", "seven", 1, 7))
    assert "created" in site.apply(workload("Deployment", "six", 1, 6))
    site.until(lambda: site.quota()["status"]["used"] == {"limits.cpu": "10", "limits.cpu.A4": "4"})
    with pytest.raises(RuntimeError, match="over-quota"):
        site.plane.kubectl("scale", "deployment", "six", "--replicas=7")
    site.plane.kubectl("scale", "deployment", "six", "--replicas=2")
    site.plane.kubectl("delete", "job", "four")
    site.until(lambda: site.quota()["status"]["used"]["limits.cpu.A4"] == "0")

    pods = json.loads(site.plane.kubectl("get", "pods", "-o", "json"))["items"]
    assert pods, "what was admitted runs"
    assert "ermission" not in (site.folder / "up.log").read_text()


def test_a_quota_is_used_by_the_namespaces_that_its_selector_selects(site):
    """A namespace is used from another by its label alone; only who may change namespaces may set that."""
    site.begin()
    label, selector = "bursar.io/tier", {"matchLabels": {"bursar.io/tier": "gold"}}
    gold = quota("gold", {"limits.cpu": "4"}, namespaceSelector=selector)
    assert "created" in site.apply(gold)
    site.until(lambda: "status" in site.quota("gold"))

    def job(name):
        found = workload("Job", name, 1, 2)
        found["metadata"]["labels"][LABEL] = "gold"
        return site.apply(found)

    assert "quota-not-yours" in job("one")
    site.plane.kubectl("label", "namespace", "default", f"{label}=gold")
    site.until(lambda: "created" in job("one"))
    assert site.quota("gold")["spec"]["namespaceSelector"] == selector
    site.until(lambda: site.quota("gold")["status"]["used"] == {"limits.cpu": "2"})
    site.plane.kubectl("label", "namespace", "default", f"{label}=tin", "--overwrite")
    site.until(lambda: site.quota("gold")["status"]["used"] == {"limits.cpu": "0"})
    assert "quota-not-yours" in job("two")


def test_what_passes_while_bursar_is_away_is_charged_flagged_and_shown(site):
    site.begin()
    site.stop()
    assert "created" in site.apply(workload("Deployment", "away", 4, 3))
    site.start("up")

    def condition():
        found = {c["type"]: c for c in site.quota()["status"]["conditions"]}
        return found.get("Ungoverned", {}).get("status")

    site.until(lambda: site.quota()["status"]["used"]["limits.cpu"] == "12", 60)
    site.until(lambda: condition() == "True", 60)
    assert "over-quota" in site.apply(workload("Job", "late", 1))


def test_another_replica_answers_from_the_same_history(site):
    site.begin()
    other = free_port()
    site.start("webhook", port=other)
    site.until(lambda: "answering" in (site.folder / "webhook.log").read_text())
    url = f"https://127.0.0.1:{other}/admit"
    patch = [
        {"op": "replace", "path": f"/webhooks/{n}/clientConfig/url", "value": url} for n in (0, 1)
    ]
    site.plane.kubectl(
        "patch", "validatingwebhookconfiguration", "bursar", "--type=json", "-p", json.dumps(patch)
    )
    time.sleep(2)

    assert "created" in site.apply(workload("Job", "eight", 1, 8))
    assert "over-quota" in site.apply(workload("Job", "three", 1, 3))
