"""Starts and ends the servers of a control plane, and lets none of them outlive its test.

The usual `PR_SET_PDEATHSIG` is not used: it fires when the *thread* that forked ends, which is
what `asyncio.to_thread` and test runners' worker threads do, and setting it needs code between
fork and exec, which Python does not call safe beside threads. Instead one watchdog process per
control plane holds the read end of a pipe: when the test process ends in whatever way, the kernel
closes the pipe, and the watchdog kills the process groups it was told about.
"""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

WATCHDOG = """
import os, signal, sys
groups = set()
for line in sys.stdin:
    verb, group = line.split()
    (groups.add if verb == "watch" else groups.discard)(int(group))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass
"""


class StartError(Exception):
    """A server did not start; the message ends with the last lines of its log."""


class Process:
    """One running server in a process group of its own, its output in a log file."""

    def __init__(self, name: str, popen: "subprocess.Popen[bytes]", log: Path) -> None:
        self.name = name
        self.log = log
        self._popen = popen

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def is_running(self) -> bool:
        return self._popen.poll() is None

    @property
    def memory_bytes(self) -> int:
        """Resident memory now; 0 where the system does not tell (no /proc)."""
        with contextlib.suppress(OSError):
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
            return pages * os.sysconf("SC_PAGE_SIZE")
        return 0

    def send(self, number: signal.Signals) -> None:
        """Signals the whole group; nothing when it has ended."""
        if self.is_running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def wait(self, seconds: float) -> bool:
        """True when it ended within the time."""
        try:
            self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def tail(self, lines: int = 12) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


class Processes:
    """All servers of one control plane; also what kills them when the test cannot."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, Process] = {}
        self._watchdog: subprocess.Popen[str] | None = None

    def __getitem__(self, name: str) -> Process:
        return self._running[name]

    def start(self, name: str, command: list[str]) -> Process:
        """Starts a server. Its log is continued, not replaced, when it was there before."""
        log = self._folder / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        # Nothing of the tester's own: proxies, KUBECONFIG and Go's debug settings change servers.
        environment = {"PATH": os.defpath, "HOME": str(self._folder)}
        with log.open("ab") as output:
            popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )
        self._tell("watch", popen.pid)
        process = self._running[name] = Process(name, popen, log)
        return process

    def stop(self, name: str, *, kill: bool = False, seconds: float = 10) -> None:
        """Ends a server and waits until it is gone; asks first unless told to kill."""
        process = self._running.pop(name, None)
        if process is None:
            return
        if not kill:
            process.send(signal.SIGTERM)
            process.send(signal.SIGCONT)
            kill = not process.wait(seconds)
        if kill:
            process.send(signal.SIGKILL)
            process.wait(10)
        self._tell("forget", process.pid)

    def stop_all(self) -> None:
        """Kills everything at once, watchdog last; nothing here has state worth a slow goodbye."""
        for process in self._running.values():
            process.send(signal.SIGKILL)
        for name in list(self._running):
            self.stop(name, kill=True)
        if self._watchdog is not None:
            self._watchdog.communicate()
            self._watchdog = None

    def memory_bytes(self) -> dict[str, int]:
        """Resident memory of each server."""
        return {name: process.memory_bytes for name, process in self._running.items()}

    def _tell(self, verb: str, group: int) -> None:
        if self._watchdog is None:
            self._watchdog = subprocess.Popen(
                [sys.executable, "-S", "-E", "-c", WATCHDOG],
                stdin=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        assert self._watchdog.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._watchdog.stdin.write(f"{verb} {group}\n")
            self._watchdog.stdin.flush()


def free_port() -> int:
    """A loopback port that nobody listens on.

    Below the range from which the system takes the near ends of outgoing connections: a client that
    keeps dialling a dead server's port in that range may be given the very same port, connect to
    itself and so keep the server from coming back. Not by `random`: test runners seed it alike.
    """
    for _ in range(200):
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise StartError("no free port between 20000 and 32000 on the loopback address")


def until(ready: Callable[[], bool], seconds: float, process: Process, what: str) -> None:
    """Returns when `ready()` is true; raises StartError when the process ends or time runs out."""
    deadline = time.monotonic() + seconds
    while not ready():
        if not process.is_running:
            raise StartError(f"{process.name} ended before {what}:\n{process.tail()}")
        if time.monotonic() > deadline:
            raise StartError(f"{process.name}: no {what} in {seconds:g} s:\n{process.tail()}")
        time.sleep(0.05)
