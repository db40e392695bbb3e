"""Builds the node of the tests: kubelet, containerd, runc and network plugins, once for each change of their pins.

The kubelet is pinned with the control plane, in `tests/cluster/kubernetes`; containerd, runc and the plugins in `runtime`.
`programs` has the sources of two small ones of our own. Run by hand: `python -m tests.node.build`. Tests never build.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.cluster import build as cluster
from tests.cluster.build import BuildError, Tool

HERE = Path(__file__).parent
CGROUPS = Path("/sys/fs/cgroup")
_CONTAINERD = "github.com/containerd/containerd/v2/cmd"
_PLUGINS = "github.com/containernetworking/plugins/plugins"
#: Snapshots of file systems that a node of the tests does not use.
_WITHOUT = "no_btrfs no_zfs no_devmapper"

TOOLS = (
    Tool("kubelet", "kubernetes", "k8s.io/kubernetes/cmd/kubelet"),
    Tool("containerd", "runtime", f"{_CONTAINERD}/containerd", HERE, _WITHOUT),
    Tool("containerd-shim-runc-v2", "runtime", f"{_CONTAINERD}/containerd-shim-runc-v2", HERE),
    Tool("ctr", "runtime", f"{_CONTAINERD}/ctr", HERE, _WITHOUT),
    Tool("runc.real", "runtime", "github.com/opencontainers/runc", HERE, needs_c=True),
    Tool("bridge", "runtime", f"{_PLUGINS}/main/bridge", HERE),
    Tool("loopback", "runtime", f"{_PLUGINS}/main/loopback", HERE),
    Tool("host-local", "runtime", f"{_PLUGINS}/ipam/host-local", HERE),
    Tool("runc", "programs", "./runc", HERE),
    Tool("box", "programs", "./box", HERE),
)

COMMANDS = ("ip", "mount", "unshare", "nsenter")
#: What a node does to the machine, in namespaces that end with this command.
_TRIAL = (
    "mount -t tmpfs tmpfs /run && mount --bind /proc/uptime /proc/sys/kernel/panic "
    "&& ip link add bursar0 type veth peer name bursar1"
)


def folder() -> Path:
    """The folder of this checkout's binaries, named by the digest of their pins and sources."""
    digest = hashlib.sha256(cluster.cache_folder().name.encode())
    digest.update(repr([(tool.package, tool.tags, tool.needs_c) for tool in TOOLS]).encode())
    for path in sorted([*HERE.glob("*/go.*"), *HERE.glob("programs/*/*.go")]):
        digest.update(path.read_bytes())
    return cluster.cache_folder().with_name(f"node-{digest.hexdigest()[:16]}")


def binary(name: str) -> Path:
    """The path of a binary, whether or not it exists yet."""
    return folder() / name


def refused() -> str:
    """The reason why this machine cannot run a node; empty where it can. The trial leaves nothing behind."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "a kubelet needs root on Linux"
    if absent := [name for name in COMMANDS if shutil.which(name) is None]:
        return f"no {', '.join(absent)} on PATH"
    if not (CGROUPS / "memory").is_dir():
        return f"no cgroup v1 hierarchies in {CGROUPS}: the node of the tests runs on these"
    try:
        os.rmdir(tempfile.mkdtemp(prefix="bursar-trial-", dir=CGROUPS / "memory"))
    except OSError as error:
        return f"no cgroups of one's own: {error}"
    words = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "sh", "-c", _TRIAL]
    done = subprocess.run(words, text=True, capture_output=True)
    return f"no namespaces of one's own: {done.stderr.strip()}" if done.returncode else ""


def missing() -> str:
    """The binaries that are not built yet, as a reason for people; empty where all are there."""
    absent = [tool.name for tool in TOOLS if not binary(tool.name).is_file()]
    if not absent:
        return ""
    reason = f"no {', '.join(absent)} in {folder()}"
    for name in ("go", "gcc"):
        if shutil.which(name) is None:
            return f"{reason}, and no {name} on PATH to build them"
    return f"{reason}: build them once with `python -m tests.node.build`"


def build() -> Path:
    """The folder with all binaries, after building those that are missing. Raises BuildError."""

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    place = folder()
    place.mkdir(parents=True, exist_ok=True)
    with cluster.locked(place / ".lock", say):
        wanted = [tool for tool in TOOLS if not binary(tool.name).is_file()]
        for number, tool in enumerate(wanted, start=1):
            cluster.build_one(tool, place, f"[{number}/{len(wanted)}]", say)
    return place


def main() -> int:
    """Builds what is missing and prints the folder; a machine that cannot run or build a node is told why."""
    reason = refused()
    if not reason and missing() and not (shutil.which("go") and shutil.which("gcc")):
        reason = missing()
    if reason:
        print(f"node: not built: {reason}", file=sys.stderr)
        return 0
    try:
        print(build())
    except BuildError as error:
        print(f"node: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
