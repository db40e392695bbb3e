"""A real Kubernetes control plane for tests: servers of the pinned release on loopback ports.

What is real: etcd, the API server with RBAC and webhooks, the controllers, the scheduler. What is
simulated: the nodes (kwok), which play `stages/`: a bound pod runs at once, is resized when asked,
ends when its `bursar.test/…` annotations say so, and its deletion is confirmed.
Nothing here needs a container engine or root.
"""

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.cluster import build, credentials
from tests.cluster.api import Api, Json, eventually
from tests.cluster.nodes import node
from tests.cluster.pausing import pause
from tests.cluster.processes import Processes, StartError, free_port, until

OWN_STAGES = Path(__file__).parent / "stages"
SERVICE_ADDRESSES = "10.0.0.0/16"
NODE_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
START_SECONDS = 240
#: Looks at an object that has no status yet, 0.2 s apart.
WAITS = 100
"""Generous: 3 s on an idle machine, but a test machine may be anything but idle."""

#: With these of the API server, and the first of the scheduler, release 1.36 has native PodGroups.
GANG_FLAGS = (
    "--feature-gates=GenericWorkload=true,GangScheduling=true",
    "--runtime-config=scheduling.k8s.io/v1alpha2=true",
)


class ControlPlane:
    """One cluster, from `start()` to `stop()` or as a context manager.

    Everything lies in `folder`: logs, credentials, etcd's data. Without one a temporary folder is
    made, and removed at the end. A folder used before continues with the data in it.

    `unsafe_no_fsync` makes etcd several times faster and loses data only when the machine fails,
    not when etcd is killed. `watch_cache=False` lets watches reach etcd itself, where `compact()`
    takes effect without a restart. `apiserver_flags` come last and so override ours.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        controllers: bool = True,
        scheduler: bool = True,
        simulator: bool = True,
        unsafe_no_fsync: bool = True,
        watch_cache: bool = True,
        apiserver_flags: Sequence[str] = (),
        scheduler_flags: Sequence[str] = (),
        scheduler_config: Json | None = None,
    ) -> None:
        self._temporary = folder is None
        self.folder = (folder or Path(tempfile.mkdtemp(prefix="bursar-cluster-"))).absolute()
        self._parts = {
            "kube-controller-manager": controllers,
            "kube-scheduler": scheduler,
            "kwok": simulator,
        }
        self._unsafe_no_fsync = unsafe_no_fsync
        self._watch_cache = watch_cache
        self._apiserver_flags = tuple(apiserver_flags)
        self._scheduler_flags = tuple(scheduler_flags)
        self._scheduler_config = scheduler_config
        self._processes = Processes(self.folder / "logs")
        self._etcd_port = self._port = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # What a client needs.

    @property
    def url(self) -> str:
        """The API server's address; the same after it was killed and started again."""
        return f"https://127.0.0.1:{self._port}"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self._credentials.kubeconfig("admin")

    @property
    def token(self) -> str:
        """The administrator's bearer token."""
        return self._credentials.token

    @property
    def ca_file(self) -> Path:
        return self._credentials.ca_file

    @property
    def api(self) -> Api:
        """Plain requests as the administrator."""
        return Api(self.url, self.token, str(self.ca_file))

    def kubectl(self, *arguments: str, input: str | None = None) -> str:
        """What kubectl prints, as the administrator. Its complaint, when it fails, is raised."""
        # HOME, because the discovery cache must not be shared with another cluster.
        known = {"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.folder), "PATH": os.defpath}
        command = [str(build.binary("kubectl")), *arguments]
        for left in range(WAITS, -1, -1):
            done = subprocess.run(command, input=input, text=True, capture_output=True, env=known)
            # `wait` fails at once for an object that has no status yet, as a definition that was just made.
            if arguments[0] != "wait" or "accessor error" not in done.stderr or not left:
                break
            time.sleep(0.2)
        if done.returncode != 0:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def create_nodes(
        self,
        count: int,
        *,
        gpus: int = 8,
        model: str = "NVIDIA-A100-SXM4-80GB",
        prefix: str = "node",
        cpu: str = "96",
        memory: str = "768Gi",
        labels: Mapping[str, str] | None = None,
    ) -> list[str]:
        """The names of new simulated nodes, schedulable when this returns.

        Without a controller manager their not-ready taint stays, so only pods that name a node
        run there.
        """
        names = [f"{prefix}-{number}" for number in range(count)]
        api = self.api
        for name in names:
            api.request("POST", "/api/v1/nodes", node(name, gpus, model, cpu, memory, labels))
        if self._parts["kube-controller-manager"]:
            eventually(lambda: not set(names) & self._tainted(), seconds=60)
        return names

    def _tainted(self) -> set[str]:
        nodes = self.api.request("GET", "/api/v1/nodes")["items"]
        return {item["metadata"]["name"] for item in nodes if item["spec"].get("taints")}

    # Life and death.

    def start(self) -> None:
        """Returns when the API server is ready and the controllers have begun their work."""
        if reason := build.missing():
            raise StartError(reason)
        for attempt in range(3):
            try:
                return self._start()
            except StartError as error:
                self._processes.stop_all()
                # Somebody took a port between our look and the server's.
                if "address already in use" not in str(error) or attempt == 2:
                    raise
            except BaseException:
                # Interrupted half-way: a `with` block never begun is never left either.
                self.stop()
                raise

    def stop(self) -> None:
        """Ends all of it, at once. The folder stays if it was given."""
        self._processes.stop_all()
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def apiserver_pid(self) -> int:
        """The process to kill from elsewhere; `kill_apiserver` then finds it gone."""
        return self._processes["kube-apiserver"].pid

    def kill_apiserver(self) -> None:
        """SIGKILL: open watches break in the middle, requests in flight get no answer."""
        self._processes.stop("kube-apiserver", kill=True)

    def start_apiserver(self) -> None:
        """The API server again, at the same address and on the same data; returns when ready.

        Controllers, scheduler and simulator start anew with it: left alone they come back when
        their own back-off has run out, which was seen to take 49 s.
        """
        process = self._processes.start("kube-apiserver", self._apiserver_command())
        until(lambda: self.api.answers("/readyz"), START_SECONDS, process, "readyz")
        default = "/api/v1/namespaces/default"
        until(lambda: self.api.answers(default), START_SECONDS, process, "default namespace")
        self._start_parts()

    def pause_apiserver(self) -> None:
        """SIGSTOP: connections stay open and nothing is answered from here on."""
        pause(self._processes["kube-apiserver"].pid)

    def resume_apiserver(self) -> None:
        """SIGCONT after a pause; what was asked meanwhile is answered now."""
        self._processes["kube-apiserver"].send(signal.SIGCONT)

    def compact(self) -> int:
        """Makes every resourceVersion read before this call 410 Gone; the oldest one that is not.

        Compacting etcd is half of it: the API server answers watches from the last events in its
        own memory and does not notice. So with the watch cache on it is killed and started again
        (all watches break, as in a real cluster's upgrade); with `watch_cache=False` nothing else
        is disturbed.
        """
        etcd = Api(self.etcd_url)
        key = base64.b64encode(b"bursar/compact").decode()
        # A watch after version N needs the events from N+1 on, so N is gone from N+2 on.
        for _ in range(2):
            etcd.request("POST", "/v3/kv/put", {"key": key, "value": key})
        revision = etcd.request("POST", "/v3/kv/range", {"key": key})["header"]["revision"]
        etcd.request("POST", "/v3/kv/compaction", {"revision": revision, "physical": True})
        if self._watch_cache:
            self.kill_apiserver()
            self.start_apiserver()
        return int(revision)

    def memory_bytes(self) -> dict[str, int]:
        """Resident memory of each server."""
        return self._processes.memory_bytes()

    # How each server is started.

    def _start(self) -> None:
        self._etcd_port, peer_port, self._port = free_port(), free_port(), free_port()
        self._credentials = credentials.issue(self.folder / "credentials", self.url)
        etcd = self._processes.start("etcd", self._etcd_command(peer_port))
        until(lambda: Api(self.etcd_url).answers("/health"), START_SECONDS, etcd, "health")
        self.start_apiserver()

    def _start_parts(self) -> None:
        commands = {
            "kube-controller-manager": self._controllers_command,
            "kube-scheduler": self._scheduler_command,
            "kwok": self._simulator_command,
        }
        wanted = [name for name, wanted in self._parts.items() if wanted]
        for name in wanted:
            self._processes.stop(name, kill=True)
        if "kwok" in wanted:
            # A simulator's identity is new with each start, and it leaves a node alone until the
            # lease of the one before has run out.
            self.api.request("DELETE", NODE_LEASES)
        started = [self._processes.start(name, commands[name]()) for name in wanted]
        if self._parts["kube-controller-manager"]:
            account = "/api/v1/namespaces/default/serviceaccounts/default"
            until(lambda: self.api.answers(account), START_SECONDS, started[0], "controllers")
        elif started:
            time.sleep(0.5)  # a wrong flag ends a server within this
        for process in started:
            if not process.is_running:
                raise StartError(f"{process.name} ended at once:\n{process.tail()}")

    @property
    def etcd_url(self) -> str:
        """Where etcd answers, JSON gateway included; no credentials."""
        return f"http://127.0.0.1:{self._etcd_port}"

    def _etcd_command(self, peer_port: int) -> list[str]:
        peer = f"http://127.0.0.1:{peer_port}"
        return [
            str(build.binary("etcd")),
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={self.etcd_url}",
            f"--advertise-client-urls={self.etcd_url}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            f"--unsafe-no-fsync={str(self._unsafe_no_fsync).lower()}",
            "--log-level=warn",
        ]

    def _apiserver_command(self) -> list[str]:
        files = self._credentials
        return [
            str(build.binary("kube-apiserver")),
            f"--etcd-servers={self.etcd_url}",
            # Compacted by compact() only, so that no test loses history by being slow.
            "--etcd-compaction-interval=0",
            "--bind-address=127.0.0.1",
            # Else it looks for the machine's default route, which an offline machine has not.
            "--advertise-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--cert-dir={self.folder / 'credentials'}",
            f"--tls-cert-file={files.server_certificate}",
            f"--tls-private-key-file={files.server_key}",
            f"--token-auth-file={files.token_file}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={files.service_account_public_key}",
            f"--service-account-signing-key-file={files.service_account_key}",
            f"--service-cluster-ip-range={SERVICE_ADDRESSES}",
            "--authorization-mode=RBAC",
            # Pods would wait for their namespace's service account, and mount its token.
            "--disable-admission-plugins=ServiceAccount",
            "--endpoint-reconciler-type=none",
            "--allow-privileged=true",
            "--profiling=false",
            f"--watch-cache={str(self._watch_cache).lower()}",
            *self._apiserver_flags,
        ]

    def _controllers_command(self) -> list[str]:
        files = self._credentials
        return [
            str(build.binary("kube-controller-manager")),
            f"--kubeconfig={files.kubeconfig('kube-controller-manager')}",
            f"--root-ca-file={files.ca_file}",
            f"--service-account-private-key-file={files.service_account_key}",
            "--use-service-account-credentials=true",
            "--leader-elect=false",
            "--secure-port=0",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        ]

    def _scheduler_command(self) -> list[str]:
        kubeconfig = self._credentials.kubeconfig("kube-scheduler")
        configured = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 500, "burst": 1000},
            **(self._scheduler_config or {}),
        }
        file = self.folder / "kube-scheduler.json"
        file.write_text(json.dumps(configured), encoding="utf-8")
        command = [str(build.binary("kube-scheduler")), f"--config={file}", "--secure-port=0"]
        return [*command, *self._scheduler_flags]

    def _simulator_command(self) -> list[str]:
        stages = [build.stage(name) for name in build.STAGES]
        stages += sorted(OWN_STAGES.glob("*.yaml"))
        return [
            str(build.binary("kwok")),
            f"--kubeconfig={self._credentials.kubeconfig('kwok')}",
            "--manage-all-nodes=true",
            "--node-lease-duration-seconds=40",
            *(f"--config={stage}" for stage in stages),
        ]
