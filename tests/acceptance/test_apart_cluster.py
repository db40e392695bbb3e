"""The parts of `bursar up` as processes of their own, beside a real API server, PostgreSQL, and a NATS with the configuration
that Bursar prints: each process has a user of its own there, and the rights of that.

One that acts is paused, for longer than its lock lasts: another acts meanwhile, and no act is done twice.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from tests.acceptance.admission_site import MANIFESTS, free_port, quota, workload
from tests.acceptance.registering import allow_registration
from tests.bus.roles import RoleServer

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.waits]

JOBS = "/apis/batch/v1/namespaces/default/jobs"
#: Who acts; other tests use other databases of the same server.
ACTING_LOCK = (
    "relation = to_regclass('bursar_acting_lock')"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
AUDIT = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata, verbs: [patch], resources: [{group: batch, resources: [jobs]}]}, {level: None}]
"""


class Parts:
    """A cluster, servers, and the processes of one installation, each with a data folder of its own."""

    def __init__(self, plane, folder, postgres_url, nats):
        self.plane, self.folder, self.postgres_url, self.nats = plane, folder, postgres_url, nats
        self.running = {}
        for file in ("crds/bursar.io.yaml", "rbac"):
            plane.kubectl("apply", "-f", str(MANIFESTS / file))
        allow_registration(plane)

    def _kubeconfig(self, account):
        path = self.folder / f"{account}.kubeconfig"
        token = self.plane.kubectl("create", "token", account, "-n", "bursar-system").strip()
        path.write_text(self.plane.kubeconfig.read_text().replace(self.plane.token, token))
        return path

    def start(self, name, command, account=""):
        """A part of an account; one of none knows no cluster."""
        # Of who answers reviews: the one that acts, which registers itself.
        port = free_port()
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.folder), "BURSAR_DATA": str(self.folder / name),
            "BURSAR_LEDGER__URL": self.postgres_url, **self.nats.environment(command),
            "BURSAR_ADMISSION__MODE": "enforce", "BURSAR_ADMISSION__HOST": "127.0.0.1", "BURSAR_ADMISSION__PORT": str(port),
            "BURSAR_ADMISSION__URL": f"https://127.0.0.1:{port}", "BURSAR_ADMISSION__HEALTH_PORT": "0",
        }  # fmt: skip
        if account:
            environment["KUBECONFIG"] = str(self._kubeconfig(account))
        program = str(Path(sys.executable).parent / "bursar")
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [program, command], env=environment, stdout=log, stderr=log
            )

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()

    def until(self, holds, seconds=60):
        deadline = time.monotonic() + seconds
        while not holds():
            logs = "\n".join(f"--- {name}\n{self.log(name)[-1500:]}" for name in self.running)
            assert time.monotonic() < deadline, logs
            time.sleep(0.1)

    def end_sessions(self):
        """What PostgreSQL does with a machine that is silent: here with the one that acts."""
        with psycopg.connect(self.postgres_url.replace("+psycopg", "")) as connection:
            connection.execute(
                f"SELECT pg_terminate_backend(pid) FROM pg_locks WHERE {ACTING_LOCK}"
            )

    def stop(self):
        for process in self.running.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.running.values():
            process.wait(15)


@pytest.fixture
def plane(start_plane, tmp_path):
    (tmp_path / "audit.yaml").write_text(AUDIT)
    flags = [f"--audit-policy-file={tmp_path}/audit.yaml", f"--audit-log-path={tmp_path}/audit.log"]
    return start_plane(apiserver_flags=flags)


async def test_a_pause_that_is_longer_than_the_lock_doubles_no_act(plane, postgres_url, tmp_path):
    (tmp_path / "nats").mkdir()
    async with RoleServer(tmp_path / "nats") as nats:
        parts = Parts(plane, tmp_path, postgres_url, nats)
        try:
            await asyncio.to_thread(story, parts)
        finally:
            await asyncio.to_thread(parts.stop)


def story(parts):
    api, record = parts.plane.api, parts.folder / "audit.log"
    parts.start("ledger", "ledger")
    parts.until(lambda: "writing the ledger" in parts.log("ledger"))
    parts.start("watch", "watch", "bursar")
    parts.start("one", "act", "bursar-actor")
    parts.until(lambda: "acting" in parts.log("one"))
    parts.start("two", "act", "bursar-actor")
    parts.until(lambda: "waiting in reserve" in parts.log("two"))
    text = json.dumps(quota("team", {"limits.cpu": "4"}, queue={"hold": True}))
    parts.plane.kubectl("apply", "-f", "-", input=text)
    path = "/apis/bursar.io/v1alpha1/bizgroupresourcequotas/team"
    parts.until(lambda: "status" in api.request("GET", path))

    def started(name):
        return not api.request("GET", f"{JOBS}/{name}")["spec"]["suspend"]

    def create(name):
        assert api.request("POST", JOBS, workload("Job", name, 1))["spec"]["suspend"]

    create("first")
    parts.until(lambda: started("first"))
    create_waiting(api, "paused", parts)
    parts.end_sessions()
    parts.until(lambda: "acting" in parts.log("two"))
    parts.until(lambda: started("paused"))
    parts.running["one"].send_signal(signal.SIGCONT)
    assert parts.running["one"].wait(30) not in (0, None)
    assert "may do by now" in parts.log("one")
    create("last")
    parts.until(lambda: started("last"))

    patched = [json.loads(line) for line in record.read_text().splitlines()]
    names = sorted(
        one["objectRef"]["name"]
        for one in patched
        if one["user"]["username"].endswith(":bursar-actor")
        and one["responseStatus"]["code"] == 200
    )
    assert names == ["first", "last", "paused"]


def create_waiting(api, name, parts):
    """A job that waits, made while the one that acts is paused: nobody else acts, as its session lives."""
    parts.running["one"].send_signal(signal.SIGSTOP)
    made = workload("Job", name, 1)
    made["metadata"]["annotations"] = {"bursar.io/queue": "team"}
    made["spec"]["suspend"] = True
    # The webhook is paused, too, so this passes by its failure policy.
    api.request("POST", JOBS, made, seconds=30)
    time.sleep(3)
    assert "acting" not in parts.log("two")
    assert api.request("GET", f"{JOBS}/{name}")["spec"]["suspend"]
