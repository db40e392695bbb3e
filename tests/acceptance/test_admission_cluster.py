"""Quotas beside a real cluster, as their users have them: `bursar up` as a process, with the rights of our manifests."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import time

import pytest

pytestmark = [pytest.mark.kube, pytest.mark.slow]

MANIFESTS = pathlib.Path(__file__).parents[2] / "deploy" / "manifests"
LABEL = "biz.group.resource.quota"


def quota(name, hard, parent="", **spec):
    return {
        "apiVersion": "bursar.io/v1alpha1",
        "kind": "BizGroupResourceQuota",
        "metadata": {"name": name},
        "spec": {"parentBizGroup": parent, "hard": hard, **spec},
    }


def workload(kind, name, cpu, replicas=1, **labels):
    container = {"name": "main", "image": "x", "resources": {"limits": {"cpu": str(cpu)}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    labels = {LABEL: "team", **{f"{LABEL}/{key}": value for key, value in labels.items()}}
    metadata = {"name": name, "namespace": "default", "labels": labels}
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
        spec = {"parallelism": replicas, "completions": replicas, "template": template}
        return {"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": spec}
    selector = {"matchLabels": {"app": name}}
    spec = {"replicas": replicas, "selector": selector, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


class Site:
    """A cluster, and Bursar beside it."""

    def __init__(self, plane, folder):
        self.plane, self.folder = plane, folder
        self.port = free_port()
        #: More settings of Bursar's processes, and the most files that they may open (0 = as many as we).
        self.environment, self.files = {}, 0
        self._processes = []
        for file in ("crds/bursar.io.yaml", "rbac"):
            plane.kubectl("apply", "-f", str(MANIFESTS / file))
        token = plane.kubectl(
            "create", "token", "bursar-actor", "--namespace=bursar-system"
        ).strip()
        self.kubeconfig = folder / "bursar.kubeconfig"
        self.kubeconfig.write_text(plane.kubeconfig.read_text().replace(plane.token, token))

    def start(self, *arguments, port=None):
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.folder), "BURSAR_DATA": str(self.folder / "data"),
            "KUBECONFIG": str(self.kubeconfig), "BURSAR_ADMISSION__MODE": "enforce",
            "BURSAR_ADMISSION__HOST": "127.0.0.1", "BURSAR_ADMISSION__PORT": str(port or self.port),
            "BURSAR_ADMISSION__URL": f"https://127.0.0.1:{self.port}",
            "BURSAR_ADMISSION__HEALTH_PORT": "0", **self.environment,
        }  # fmt: skip
        command = [str(pathlib.Path(sys.executable).parent / "bursar"), *arguments]
        if self.files:
            command = ["/bin/sh", "-c", f'ulimit -n {self.files}; exec "$@"', "sh", *command]
        with (self.folder / f"{arguments[0]}.log").open("ab") as log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        self._processes.append(process)
        return process

    def stop(self):
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(15)

    def apply(self, *objects):
        """What kubectl prints; what it complains of is the text too."""
        items = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        try:
            return self.plane.kubectl("apply", "-f", "-", input=json.dumps(items))
        except RuntimeError as error:
            return str(error)

    def quota(self, name="team"):
        return json.loads(self.plane.kubectl("get", "bgrq", name, "-o", "json"))

    def until(self, holds, seconds=40):
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, (self.folder / "up.log").read_text()[-3000:]
            time.sleep(0.2)

    def begin(self):
        """Bursar answers, and the quotas of these tests are seen."""
        self.start("up")
        self.begin_quotas()

    def begin_quotas(self):
        """The quotas of these tests are there, and seen by a webhook that answers."""
        self.until(lambda: self.registered())
        self.until(
            lambda: (
                "created" in self.apply(quota("org", {"limits.cpu": "20", "limits.cpu.A4": "8"}))
            )
        )
        team = quota("team", {"limits.cpu": "10", "limits.cpu.A4": "4"}, parent="org")
        self.until(lambda: "created" in self.apply(team) or "unchanged" in self.apply(team))
        self.until(lambda: "status" in self.quota())

    def registered(self):
        """Whether the API server has somebody to ask; the configuration is shipped empty."""
        kind = "validatingwebhookconfiguration"
        found = json.loads(self.plane.kubectl("get", kind, "bursar", "-o", "json"))
        return bool(found.get("webhooks"))


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
