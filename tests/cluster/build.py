"""Builds the control plane of the tests from pinned Go modules, once for each change of the pins.

The pins are the two go.mod files beside this one: their `tool` blocks say what is built, their
go.sum what exactly. Results lie outside the checkout in a folder named by the digest of all that
decides their bytes, so that switching branches rebuilds nothing and an old result is never taken
for a new one. `KUBEBUILDER_ASSETS` goes first, binary by binary, as envtest has it: a folder with
etcd, kube-apiserver and kubectl saves those three, and only the rest is built.

Run by hand: `python -m tests.cluster.build`. Tests never build: a first build takes longer than
any test may, so they only ask `missing` and are skipped with its answer.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


class BuildError(Exception):
    """The control plane cannot be built; the message says what to do about it."""


@dataclass(frozen=True)
class Tool:
    """One binary: its name on disk, the module folder that pins it, its Go package, and its flags."""

    name: str
    module: str
    package: str
    home: Path = HERE
    tags: str = ""
    needs_c: bool = False


TOOLS = (
    Tool("etcd", "kubernetes", "go.etcd.io/etcd/server/v3"),
    Tool("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    Tool("kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    Tool("kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    Tool("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl"),
    Tool("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
)

GATEWAY = Tool("versitygw", "s3", "github.com/versity/versitygw/cmd/versitygw")
"""An S3-compatible store over a folder, for backups; no part of the control plane."""

STAGES = (
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
)
"""The simulator's own rules taken as they are; those for a pod's life are ours, in `stages/`."""

Say = Callable[[str], None]


def _pin(module: str, required: str) -> str:
    text = (HERE / module / "go.mod").read_text()
    found = re.search(rf"^\s*(?:require )?{re.escape(required)} (v\S+)", text, re.MULTILINE)
    if found is None:
        raise BuildError(f"{required} is not pinned in tests/cluster/{module}/go.mod")
    return found[1]


def kubernetes_version() -> str:
    """The pinned release, as "v1.36.3"."""
    return _pin("kubernetes", "k8s.io/kubernetes")


def _linker_flags() -> str:
    """Stripped, and stamped: clients parse these versions, and kubectl fails on an empty one."""
    version = kubernetes_version()
    major, minor = version.removeprefix("v").split(".")[:2]
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join(
        ["-s", "-w"]
        + [
            f"-X {package}.{name}={value}"
            for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
            for name, value in stamps.items()
        ]
    )


def cache_folder(*modules: str) -> Path:
    """Where this checkout's binaries are or will be, the control plane's or those of ``modules``; computed without Go, which may
    be absent.
    """
    digest = hashlib.sha256()
    for module in modules or ("kubernetes", "kwok"):
        for name in ("go.mod", "go.sum"):
            digest.update((HERE / module / name).read_bytes())
    digest.update(f"{_linker_flags()} {platform.system()}/{platform.machine()}".encode())
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "bursar" / "cluster" / digest.hexdigest()[:16]


def binary(name: str) -> Path:
    """The path of a binary, whether or not it exists yet: the user's own before ours."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and (Path(assets) / name).is_file():
        return Path(assets) / name
    return cache_folder() / name


def gateway() -> Path:
    """The path of the S3-compatible store, whether or not it exists yet."""
    return cache_folder(GATEWAY.module) / GATEWAY.name


def stage(name: str) -> Path:
    """The path of one of the simulator's own rule files."""
    return cache_folder() / "stages" / Path(name).name


def missing() -> str:
    """What keeps a control plane from starting, as a reason for people; empty when nothing does."""
    absent = [tool.name for tool in TOOLS if not binary(tool.name).is_file()]
    absent += [Path(name).name for name in STAGES if not stage(name).is_file()]
    if not absent:
        return ""
    reason = f"no {', '.join(absent)} in {cache_folder()}"
    if shutil.which("go") is None:
        return f"{reason}, and no Go on PATH to build them (https://go.dev/dl)"
    return f"{reason}: build them once with `python -m tests.cluster.build`"


def build(*, quiet: bool = False) -> Path:
    """The folder with all binaries and stages, after building those that are missing; the store is built, too.

    Two calls at once do the work once: the second waits for the lock and finds everything there.
    Raises BuildError when Go is absent or refuses.
    """

    def say(text: str) -> None:
        if not quiet:
            print(text, file=sys.stderr, flush=True)

    folder = cache_folder()
    if not missing():
        say(f"control plane: all there in {folder}")
        _build_gateway(say)
        return folder
    if shutil.which("go") is None:
        raise BuildError(missing())
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / ".lock", say):
        if not missing():  # another run built it while this one waited
            return folder
        wanted = [tool for tool in TOOLS if not binary(tool.name).is_file()]
        say(f"control plane: {len(wanted)} to build into {folder} (minutes, the first time)")
        began = time.monotonic()
        for number, tool in enumerate(wanted, start=1):
            build_one(tool, folder, f"[{number}/{len(wanted)}]", say)
        _copy_stages(folder / "stages")
        say(f"control plane: built in {time.monotonic() - began:.0f} s")
    _build_gateway(say)
    return folder


def _build_gateway(say: Say) -> None:
    if gateway().is_file() or shutil.which("go") is None:
        return
    folder = gateway().parent
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / ".lock", say):
        if not gateway().is_file():
            build_one(GATEWAY, folder, "[1/1]", say)


@contextlib.contextmanager
def locked(path: Path, say: Say) -> Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("control plane: another build is running, waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _go(folder: Path, *arguments: str, needs_c: bool = False) -> str:
    # Without cgo no C compiler is needed; a go.work above the checkout must not change the pins.
    environment = os.environ | {"CGO_ENABLED": str(int(needs_c)), "GOWORK": "off"}
    done = subprocess.run(
        ["go", *arguments],
        cwd=folder,
        env=environment,
        text=True,
        capture_output=True,
    )
    if done.returncode != 0:
        raise BuildError(f"go {' '.join(arguments)}\n{done.stderr.strip()}")
    return done.stdout


def build_one(tool: Tool, folder: Path, count: str, say: Say) -> None:
    say(f"  {count} {tool.name} …")
    began = time.monotonic()
    # Built under another name first: an interrupted link must not look like a binary.
    unfinished = folder / f".{tool.name}.{os.getpid()}"
    try:
        _go(
            tool.home / tool.module,
            "build",
            "-mod=readonly",
            "-trimpath",
            f"-tags={tool.tags}",
            f"-ldflags={_linker_flags()}",
            "-o",
            str(unfinished),
            tool.package,
            needs_c=tool.needs_c,
        )
        unfinished.rename(folder / tool.name)
    finally:
        unfinished.unlink(missing_ok=True)
    size = (folder / tool.name).stat().st_size >> 20
    say(f"  {count} {tool.name}: {time.monotonic() - began:.0f} s, {size} MiB")


def _copy_stages(folder: Path) -> None:
    module = json.loads(_go(HERE / "kwok", "mod", "download", "-json", "sigs.k8s.io/kwok"))["Dir"]
    folder.mkdir(exist_ok=True)
    for name in STAGES:
        unfinished = folder / f".{Path(name).name}.{os.getpid()}"
        # Not a plain copy of mode bits: the module cache is read-only, and so would its copy be.
        unfinished.write_bytes((Path(module) / "kustomize/stage" / name).read_bytes())
        unfinished.rename(folder / Path(name).name)


def main() -> int:
    """Builds what is missing and prints the folder."""
    try:
        print(build())
    except BuildError as error:
        print(f"control plane: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
