"""What a test sees of training jobs and their pods on a real API server, and does to them."""

import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

from tests.cluster.api import MERGE, eventually
from tests.cluster.training import job, path_of

MANIFESTS = Path(__file__).parents[2] / "deploy" / "manifests"
PODS = "/api/v1/namespaces/default/pods"


class Scene:
    """What the API server has. ``made``: every pod that was ever seen, by name and uid."""

    def __init__(self, plane):
        self.api, self.made = plane.api, set()

    def pods(self):
        """Pods by name. Two live ones in one slot are an error at any moment."""
        found = self.api.request("GET", PODS)["items"]
        self.made |= {(one["metadata"]["name"], one["metadata"]["uid"]) for one in found}
        live = [one for one in found if one["status"]["phase"] in ("Pending", "Running")]
        slots = Counter(one["metadata"]["name"].rpartition("-")[0] for one in live)
        assert max(slots.values(), default=0) <= 1, slots
        return {one["metadata"]["name"]: one for one in found}

    def runs(self, *names):
        """Wait until these pods run."""

        def ready():
            phases = {name: one["status"]["phase"] for name, one in self.pods().items()}
            return all(phases.get(name) == "Running" for name in names)

        eventually(ready, seconds=60)

    def ends(self, code, *names):
        """The containers of pods end."""
        notes = {"bursar.test/run-seconds": "0", "bursar.test/exit-code": str(code)}
        for name in names:
            body = {"metadata": {"annotations": notes}}
            self.api.request("PATCH", f"{PODS}/{name}", body, content_type=MERGE)

    def loses_node_of(self, name):
        """The node of a pod is gone, and the pod with it, as the collector of pods does it after a while."""
        node = self.pods()[name]["spec"]["nodeName"]
        self.api.request("DELETE", f"/api/v1/nodes/{node}")
        for other, one in self.pods().items():
            if one["spec"]["nodeName"] == node:
                self.api.request("DELETE", f"{PODS}/{other}", {"gracePeriodSeconds": 0})

    def submits(self, name, kind, **fields):
        body = job(name, kind, marked=False, **fields)
        self.api.request("POST", path_of(kind), body)

    def waits_for(self, name, kind, condition):
        """Wait until a job's condition holds; its status."""

        def holds():
            status = self.api.request("GET", f"{path_of(kind)}/{name}").get("status", {})
            true = {c["type"] for c in status.get("conditions", ()) if c["status"] == "True"}
            return condition in true and status

        return eventually(holds, seconds=60)


class Up:
    """`bursar up` as the account that acts, in one data folder."""

    def __init__(self, plane, folder):
        self.plane, self.folder = plane, folder
        self.command = [Path(sys.executable).with_name("bursar"), "up"]
        token = plane.kubectl("create", "token", "bursar-actor", "--namespace=bursar-system")
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(plane.kubeconfig.read_text().replace(plane.token, token.strip()))
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("BURSAR_", "KUBE"))}
        self.environment = clean | {
            "KUBECONFIG": str(kubeconfig), "HOME": str(folder), "BURSAR_JOBS__MODE": "on",
            "BURSAR_JOBS__POLICY__RUNS": "all",
        }  # fmt: skip
        self.process = None

    def start(self):
        with (self.folder / "up.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self.command, "--data", self.folder / "data"],
                env=self.environment, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def kill(self):
        """Ends it, and the bus that it started, as the loss of their machine does."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def asks(self, *arguments):
        """What a command of it says."""
        command = [Path(sys.executable).with_name("bursar"), *arguments, "--data", self.folder / "data"]  # fmt: skip
        return subprocess.run(command, env=self.environment, capture_output=True, text=True).stdout
