"""A real node beside a control plane of the tests: kubelet, containerd and runc in namespaces of their own.

All of it descends from one process in a PID namespace of its own. Its end ends everything: containers, mounts, the network and
the kernel's settings, which are files laid over /proc/sys. Only cgroups and files stay, and `stop` removes them.
"""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.cluster.api import eventually
from tests.cluster.plane import ControlPlane
from tests.cluster.processes import Processes
from tests.node import build
from tests.node.images import write_image

IMAGE = "localhost/box:1"
PREFIX = "bursar-node-"
#: The kubelet writes these settings of the kernel, or refuses to start.
SETTINGS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
}
#: Folders of the machine where containerd and kubelet keep what they do not let others choose.
OWN_FOLDERS = ("/run", "/var/lib", "/var/log")
START_SECONDS = 120


class Node:
    """One node, from `start()` to `stop()`; `name` is that of the Node object."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.name = f"{PREFIX}{secrets.token_hex(3)}"
        self.folder = folder
        self.plane = plane
        self._processes = Processes(folder / "logs")
        self._subnet = f"10.231.{secrets.randbelow(256)}"
        self._link = f"b{self.name[-6:]}"
        self._listener: socket.socket | None = None
        self._pid = 0

    def start(self) -> None:
        """Returns when the Node object is Ready."""
        remove_left_behind()
        self._write_files()
        self._start_namespaces()
        self._connect()
        self._make_cgroups()
        self.start_containerd()
        archive = self.folder / "box.tar"
        write_image(archive, IMAGE, build.binary("box"))
        self.ctr("images", "import", str(archive))
        archive.unlink()
        self.start_kubelet()

    def stop(self) -> None:
        """Ends all of it at once, and leaves nothing but logs."""
        self._processes.stop_all()
        if self._listener is not None:
            self._listener.close()
        for top in _cgroups(self.name):
            _remove_cgroup(top)
        for path in self.folder.iterdir():
            if path.name != "logs":
                shutil.rmtree(path, ignore_errors=True)

    def left_behind(self) -> list[str]:
        """All that this machine has of the node: cgroups, its wire, mounts, and processes that name its folder."""
        found = [str(one) for one in _cgroups(self.name)]
        found += [one for one in os.listdir("/sys/class/net") if one == self._link]
        mounts = Path("/proc/self/mounts").read_text().splitlines()
        found += [one for one in mounts if str(self.folder) in one]
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                words = process.read_text(errors="replace").replace("\0", " ")
                found += [words] if str(self.folder) in words else []
        return found

    # The kubelet and the runtime, apart.

    def start_kubelet(self, **settings: Any) -> None:
        """Starts the kubelet, with these settings on top of the usual ones; returns when the node is Ready again."""
        beats = self._heartbeat()
        configuration = self._kubelet_configuration() | settings
        file = self.folder / "kubelet.json"
        file.write_text(json.dumps(configuration, indent=1))
        self._run(
            "kubelet",
            str(build.binary("kubelet")),
            f"--config={file}",
            f"--kubeconfig={self.folder / 'kubeconfig'}",
            f"--root-dir={self.folder / 'kubelet'}",
            f"--cert-dir={self.folder / 'pki'}",
            f"--hostname-override={self.name}",
            f"--node-ip={self._subnet}.2",
        )
        self._until(lambda: self._heartbeat() > beats, "kubelet")

    def stop_kubelet(self) -> None:
        """Ends the kubelet; its containers run on."""
        self._processes.stop("kubelet")

    def start_containerd(self) -> None:
        """Starts the runtime; containers that it knows run on."""
        self._run(
            "containerd", str(build.binary("containerd")), f"--config={self.folder}/runtime.toml"
        )
        self._until(lambda: self.ctr("version", check=False), "containerd")

    def stop_containerd(self) -> None:
        """Ends the runtime; containers run on."""
        self._processes.stop("containerd")

    def ctr(self, *words: str, check: bool = True) -> str:
        """The answer of containerd's own client; empty where it fails and ``check`` is off."""
        command = [
            *self._inside("--mount", "--pid"),
            str(build.binary("ctr")),
            "--namespace=k8s.io",
            *words,
        ]
        done = subprocess.run(command, text=True, capture_output=True)
        if done.returncode and check:
            raise RuntimeError(f"ctr {' '.join(words)}: {done.stderr.strip()}")
        return "" if done.returncode else done.stdout

    @property
    def static_pods(self) -> Path:
        """The folder whose manifests the kubelet runs."""
        return self.folder / "static"

    # How it is made.

    def _write_files(self) -> None:
        for name in ("static", "sysctl", "cni"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        for key, value in SETTINGS.items():
            (self.folder / "sysctl" / key.replace("/", "_")).write_text(f"{value}\n")
        network = {
            "type": "bridge",
            "bridge": "pods",
            "isGateway": True,
            "ipMasq": False,
            "ipam": {
                "type": "host-local",
                "dataDir": str(self.folder / "ipam"),
                "ranges": [[{"subnet": f"{self._subnet}.128/25"}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }
        conflist = {"cniVersion": "1.0.0", "name": "pods", "plugins": [network]}
        (self.folder / "cni" / "10-pods.conflist").write_text(json.dumps(conflist))
        (self.folder / "runtime.toml").write_text(
            _RUNTIME.format(folder=self.folder, bin=build.folder())
        )
        kubeconfig = json.loads(self.plane.kubeconfig.read_text())
        # The API server listens on the machine's loopback, and its certificate names that address.
        server = f"https://{self._subnet}.1:{self._port}"
        kubeconfig["clusters"][0]["cluster"] |= {"server": server, "tls-server-name": "127.0.0.1"}
        (self.folder / "kubeconfig").write_text(json.dumps(kubeconfig))

    @property
    def _port(self) -> int:
        return int(self.plane.url.rpartition(":")[2])

    def _kubelet_configuration(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": f"{self._subnet}.2",
            "readOnlyPort": 0,
            "healthzPort": 0,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.name}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "resolvConf": "",
            "makeIPTablesUtilChains": False,
            "staticPodPath": str(self.static_pods),
            "podLogsDir": str(self.folder / "pods"),
            "volumePluginDir": str(self.folder / "kubelet" / "plugins"),
            "nodeStatusUpdateFrequency": "2s",
            "nodeStatusReportFrequency": "10s",
            "syncFrequency": "10s",
            "volumeStatsAggPeriod": "2s",
            "fileCheckFrequency": "1s",
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%"},
            "evictionPressureTransitionPeriod": "1s",
        }

    def _start_namespaces(self) -> None:
        lays = [f"mount -t tmpfs tmpfs {folder}" for folder in OWN_FOLDERS]
        lays += [
            f"mount --bind {self.folder}/sysctl/{key.replace('/', '_')} /proc/sys/{key}"
            for key in SETTINGS
        ]
        box = build.binary("box")
        script = " && ".join(["mount --make-rshared /", *lays, f"exec {box}"])
        words = ["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        process = self._processes.start("init", ["unshare", *words, "sh", "-c", script])

        def descendant() -> int:
            assert process.is_running, process.tail()
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            is_box = children and os.readlink(f"/proc/{children[0]}/exe") == str(box)
            return int(children[0]) if is_box else 0

        self._pid = eventually(descendant, seconds=START_SECONDS)

    def _inside(self, *namespaces: str) -> list[str]:
        return ["nsenter", f"--target={self._pid}", *namespaces, "--"]

    def _run(self, name: str, *words: str) -> None:
        path = f"PATH={build.folder()}:{os.defpath}:/usr/sbin:/sbin"
        inside = self._inside("--mount", "--net", "--pid")
        self._processes.start(name, [*inside, "env", path, *words])

    def _connect(self) -> None:
        """One wire to the node: .1 here, .2 there, and pods behind it. The API server is reached at this end."""
        one = self._subnet
        there = self._inside("--net")
        for words in (
            [
                "ip",
                "link",
                "add",
                self._link,
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                str(self._pid),
            ],
            ["ip", "address", "add", f"{one}.1/30", "dev", self._link],
            ["ip", "link", "set", self._link, "up"],
            [*there, "ip", "link", "set", "lo", "up"],
            [*there, "ip", "address", "add", f"{one}.2/30", "dev", "eth0"],
            [*there, "ip", "link", "set", "eth0", "up"],
            [*there, "ip", "route", "add", "default", "via", f"{one}.1"],
            [*there, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"],
            ["ip", "route", "add", f"{one}.128/25", "via", f"{one}.2"],
        ):
            subprocess.run(words, check=True, capture_output=True)
        self._listener = socket.create_server((f"{one}.1", self._port))
        threading.Thread(target=self._forward, daemon=True).start()

    def _forward(self) -> None:
        assert self._listener is not None
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._port))
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=_pump, args=(one, other), daemon=True).start()

    def _make_cgroups(self) -> None:
        for top in _cgroups(self.name, exists=False):
            top.mkdir()
            for file in ("cpuset.cpus", "cpuset.mems"):
                if (top.parent / file).exists():
                    (top / file).write_text((top.parent / file).read_text())

    def _heartbeat(self) -> str:
        """The time of the last word that the node is Ready; empty where it is not."""
        items = self.plane.api.request("GET", "/api/v1/nodes")["items"]
        return max(
            (
                one["lastHeartbeatTime"]
                for item in items
                if item["metadata"]["name"] == self.name
                for one in item["status"].get("conditions", ())
                if (one["type"], one["status"]) == ("Ready", "True")
            ),
            default="",
        )

    def _until(self, is_ready: Callable[[], object], name: str) -> None:
        process = self._processes[name]

        def probe() -> object:
            assert process.is_running, process.tail(40)
            return is_ready()

        eventually(probe, seconds=START_SECONDS)


def remove_left_behind() -> None:
    """Removes the cgroups of nodes whose tests were killed: nothing runs in them any more."""
    for controller in build.CGROUPS.iterdir():
        for top in controller.glob(f"{PREFIX}*"):
            if not any(path.read_text() for path in top.rglob("cgroup.procs")):
                with suppress(OSError):
                    _remove_cgroup(top)


def _cgroups(name: str, *, exists: bool = True) -> list[Path]:
    """The node's folder in each hierarchy: of those that are there, or of all controllers."""
    controllers = [one for one in build.CGROUPS.iterdir() if one.is_dir() and not one.is_symlink()]
    found = [one / name for one in controllers if exists or one.name != "unified"]
    return [one for one in found if not exists or one.is_dir()]


def _remove_cgroup(top: Path) -> None:
    for path, _, _ in os.walk(top, topdown=False):
        # A killed process leaves its cgroup a moment after its end.
        eventually(lambda path=path: _is_removed(Path(path)), seconds=20)


def _is_removed(path: Path) -> bool:
    with suppress(OSError):
        for pid in (path / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        path.rmdir()
    return not path.exists()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while content := source.recv(65536):
            sink.sendall(content)
    for one in (source, sink):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
    source.close()


_RUNTIME = """\
version = 3
root = "{folder}/containerd"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "localhost/box:1"
[plugins."io.containerd.cri.v1.runtime"]
  # A container of CI has no right to lower this.
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{bin}"]
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "{bin}/runc"
      SystemdCgroup = false
"""
