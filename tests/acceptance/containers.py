"""Images and containers without a registry and without an engine: the steps of a Containerfile on this machine's own Debian, and
a container of a pod as the kubelet starts it, in namespaces of the kernel.

A container sees this machine's `/usr` and Python, which stand for the base image, and of all else what the image has; its root is
read-only, its user that of the pod, without any capability. Its network is the machine's.
"""

import ctypes
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
BASE = pathlib.Path(sys.base_prefix)
#: Folders of the machine that stand for the base image.
SHARED = ("usr", "bin", "lib", "lib64", "sbin")
TOKENS = "/run/secrets/kubernetes.io/serviceaccount"


def missing():
    """Why no container can be made here; "" where it can."""
    if os.geteuid() != 0:
        return "only root makes namespaces with users of their own here"
    wanted = ("unshare", "setpriv", "chroot", "mount", "nsenter")
    if absent := [one for one in wanted if not shutil.which(one)]:
        return f"{', '.join(absent)} is not installed"
    if BASE.is_relative_to("/opt"):
        return f"the image goes to /opt, where this Python is, too ({BASE})"
    mounts = "mount -t tmpfs tmpfs /mnt && mount -t proc proc /proc"
    tried = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "sh", "-c", mounts], capture_output=True
    )
    return "" if tried.returncode == 0 else tried.stderr.decode().strip() or "no mounts here"


class Image:
    """What the steps of a Containerfile made: the last stage's folders, its environment, its user and its command."""

    def __init__(self, folder, containerfile=ROOT / "deploy" / "image" / "Containerfile"):
        self.folder, self.steps = folder, list(steps(containerfile.read_text()))
        self.environment, self.user, self.command, self.copied = {}, "", [], set()

    def build(self):
        """Run the steps; `/opt` of the build is a folder of ours, and all other folders of the machine stay as they are."""
        sources = self.folder / "src"
        (self.folder / "build").mkdir(parents=True)
        sources.mkdir()
        for word, rest in self.steps:
            if word == "FROM":
                self.environment = {"PATH": f"{BASE}/bin:/usr/bin:/bin"}
            elif word == "ENV":
                self.environment |= dict(pair.split("=", 1) for pair in shlex.split(rest))
            elif word == "COPY" and rest.startswith("--from="):
                self.copied.add(rest.split()[-1])
            elif word == "COPY":
                _copy(sources, rest.split())
            elif word == "RUN":
                self._run(sources, rest)
            elif word == "USER":
                self.user = rest
            elif word == "CMD":
                self.command = json.loads(rest)
        return self

    def _run(self, sources, step):
        opt = shlex.quote(str(self.folder / "build"))
        script = f"mount --bind {opt} /opt && {step}"
        # The machine's own settings of pip and uv (a proxy, an index, a cache) are those of a builder.
        environment = {
            k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))
        }
        subprocess.run(
            ["unshare", "--mount", "sh", "-ec", script], cwd=sources, env=environment | self.environment, check=True, timeout=300
        )  # fmt: skip


def steps(text):
    """The instructions of a Containerfile, one by one."""
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if line and not line.startswith("#"):
            word, _, rest = line.partition(" ")
            yield word, rest


def _copy(sources, arguments):
    *found, target = arguments
    for name in found:
        into = sources / target / (name if target.endswith("/") else "")
        into.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, into, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True
            )
        else:
            shutil.copy(ROOT / name, into)


class Container:
    """The one container of a pod, with folders of the machine in the place of its volumes."""

    def __init__(self, image, spec, volumes, *, environment=None, command=None):
        """`spec`: of a pod. `volumes`: name or path to folder. `environment`: what the kubelet adds."""
        self.image, self.spec, [self.container] = image, spec, spec["containers"]
        self.mounts = {
            one["mountPath"]: volumes[one["name"]] for one in self.container["volumeMounts"]
        }
        self.mounts |= {path: folder for path, folder in volumes.items() if path.startswith("/")}
        told = {one["name"]: one["value"] for one in self.container["env"]}
        self.environment = {**image.environment, **told, **(environment or {})}
        self.command = command or self.container["command"]

    def start(self, log):
        """The running container; see :func:`kill`."""
        return subprocess.Popen(self._arguments(), stdout=log, stderr=log, preexec_fn=_die_with_us)

    def ask(self, process, *command, seconds=120):
        """(exit code, what was printed) of one more command in a running container, as `kubectl exec` does it."""
        user = self.spec["securityContext"]["runAsUser"]
        told = [f"{name}={value}" for name, value in self.environment.items()]
        entered = ["nsenter", f"--target={first(process)}", "--mount", "--pid", "--root", "--wd"]
        entered += [f"--setuid={user}", f"--setgid={user}", "/usr/bin/env", "-i", *told]
        done = subprocess.run([*entered, *command], capture_output=True, text=True, timeout=seconds)
        return done.returncode, done.stdout or done.stderr

    def run(self, seconds=120):
        """(exit code, what was printed) of the container's whole life."""
        done = subprocess.run(self._arguments(), capture_output=True, text=True, timeout=seconds)
        return done.returncode, done.stdout + done.stderr

    def _arguments(self):
        return [
            "unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation=private",
            "sh", "-ec", "\n".join(self._script()),
        ]  # fmt: skip

    def _script(self):
        security = self.spec["securityContext"]
        user, group = security["runAsUser"], security["runAsGroup"]
        root = self.image.folder / "root"
        yield f"mount -t tmpfs -o mode=755 tmpfs {root}"
        yield f"cd {root}"
        yield "mkdir -p proc dev opt etc tmp " + " ".join(SHARED)
        yield "mount -t proc proc proc"
        yield "for one in null zero urandom random full; do touch dev/$one; mount --bind /dev/$one dev/$one; done"
        for name in SHARED:
            if pathlib.Path("/", name).is_dir():
                yield f"mount --rbind /{name} {name}"
        if not BASE.is_relative_to("/usr"):
            yield f"mkdir -p .{BASE} && mount --bind {BASE} .{BASE}"
        for path in self.image.copied:
            built = self.image.folder / "build" / pathlib.Path(path).relative_to("/opt")
            yield f"mkdir -p .{path} && mount --bind {built} .{path} && mount -o remount,bind,ro .{path}"
        yield f"ln -s /run var-run; mkdir -p run var; mv var-run var/run; echo bursar:x:{user}:{group}::/:/bin/false > etc/passwd"
        for path, folder in self.mounts.items():
            yield f"mkdir -p .{path} && mount --bind {folder} .{path}"
        if self.container["securityContext"]["readOnlyRootFilesystem"]:
            yield "mount -o remount,ro ."
        told = " ".join(shlex.quote(f"{name}={value}") for name, value in self.environment.items())
        command = " ".join(map(shlex.quote, self.command))
        yield (
            f"exec chroot . /usr/bin/setpriv --reuid={user} --regid={group} --groups={security['fsGroup']} --no-new-privs"
            f" --bounding-set=-all --inh-caps=-all /usr/bin/env -i HOME=/ HOSTNAME=bursar-0 {told} {command}"
        )


def first(process):
    """The machine's id of the process that is the first in its container."""
    return int(pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())


def end(process, kind=signal.SIGKILL):
    """Sends a signal to the first process of a container, with which all others end, and waits for that; its exit code."""
    if process.poll() is None:
        os.kill(first(process), kind)
    return process.wait(30)


def _die_with_us():
    ctypes.CDLL(None).prctl(1, 9)


def volume(folder, group=10001):
    """A new volume as the kubelet gives it: of root, written by the pod's group."""
    folder.mkdir(parents=True)
    os.chown(folder, 0, group)
    folder.chmod(0o2775)
    return folder


def secret(folder, files, group=10001):
    """A Secret as files."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_text(content)
        os.chown(folder / name, 0, group)
        (folder / name).chmod(0o440)
    return folder
