"""bursar up with admission, beside a real API server."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import pytest

from tests.acceptance.registering import register

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


def endpoints(port):
    """What a pod behind the Service would be: an address of this machine that is not its loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address but its loopback")
        address = probe.getsockname()[0]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "bursar-webhook-1",
            "namespace": "bursar-system",
            "labels": {"kubernetes.io/service-name": "bursar-webhook"},
        },
        "addressType": "IPv4",
        "ports": [{"name": "reviews", "port": port, "protocol": "TCP"}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
    }


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
        if arguments[0] == "up":
            register(self.plane, environment)
        command = [str(pathlib.Path(sys.executable).parent / "bursar"), *arguments]
        if self.files:
            command = ["/bin/sh", "-c", f'ulimit -n {self.files}; exec "$@"', "sh", *command]
        with (self.folder / f"{arguments[0]}.log").open("ab") as log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        self._processes.append(process)
        return process

    def ask(self, *arguments):
        """A finished question to the ledger beside it."""
        command = [str(pathlib.Path(sys.executable).parent / "bursar"), *arguments]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
        environment |= {"BURSAR_DATA": str(self.folder / "data")}
        return subprocess.run(command, env=environment, capture_output=True, text=True)

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

    def until(self, holds, seconds=120):
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, self.told()
            time.sleep(0.2)

    def told(self):
        """The end of what `bursar up` said, and where its tasks wait."""
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGUSR1)
        time.sleep(2)
        said, waits = (self.folder / "up.log").read_text(), "\ntask "
        lines, _, tasks = said.partition(waits)
        return lines[-3000:] + waits + tasks[-20_000:]

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
        """Whether the API server has somebody to ask."""
        kind = "validatingwebhookconfiguration"
        found = json.loads(self.plane.kubectl("get", kind, "bursar", "-o", "json"))
        return bool(found.get("webhooks"))
