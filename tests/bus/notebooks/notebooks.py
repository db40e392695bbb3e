"""Notebook servers for tests: peers with defaults, and a real jupyter-server as a process."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import asynccontextmanager, suppress
from functools import partial

from bus.clock import SECOND_US, SystemClock
from bus.notebooks.contract import Peer
from bus.notebooks.prober import ProbeResponse, ProbeSettings, Unanswered, fetch
from bus.notebooks.sampler import Sampler

LOCAL = ProbeSettings(allow_loopback=True)


def peer(**fields):
    """A notebook of Kubeflow's shape on loopback."""
    defaults = {"uid": "u1", "namespace": "team-a", "name": "nb-0", "address": "127.0.0.1"}
    return Peer(**defaults | fields)


def answer(body, status=200):
    """An answer with this body: bytes as they are, anything else as JSON."""
    return ProbeResponse(status, body if isinstance(body, bytes) else json.dumps(body).encode())


async def no_api(request):
    """An API server without the metrics API."""
    return ProbeResponse(404, b"")


def sampler_with(ask, clock):
    """A sampler over an adapter of the test's own."""
    return Sampler(ask, no_api, clock, cluster="c", source="test")


def sampler():
    """A sampler over the real adapter."""
    return sampler_with(partial(fetch, settings=LOCAL), SystemClock())


def free_port():
    """A port that was free a moment ago."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Jupyter:
    """A real jupyter-server with ipykernel, and what a user would do with it."""

    def __init__(self, folder, *, token="", base_path="/"):
        self.peer = peer(port=free_port(), token=token, base_path=base_path)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("JUPYTER")}
        command = [
            sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", "--ip=127.0.0.1",
            f"--port={self.peer.port}", "--port-retries=0", f"--IdentityProvider.token={token}",
            f"--ServerApp.base_url={base_path}", f"--ServerApp.root_dir={folder}",
            "--ServerApp.disable_check_xsrf=True",
        ]  # fmt: skip
        homes = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
        environment |= {name: str(folder / name) for name in homes} | {"HOME": str(folder)}
        # A kernel says "starting" once. Jupyter misses it where it has not connected again by then: docs/culling.md.
        startup = folder / "IPYTHONDIR" / "profile_default" / "startup"
        startup.mkdir(parents=True, exist_ok=True)
        (startup / "00-wait.py").write_text("import time; time.sleep(1)\n")
        self.log = open(folder / "log", "wb")
        self.tabs = []
        self.process = subprocess.Popen(
            command, env=environment, cwd=folder, stdout=self.log, stderr=self.log, start_new_session=True
        )  # fmt: skip

    def close(self):
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.log.close()

    async def call(self, method, path, body=b""):
        """A request of the user's, by hand; the JSON of the answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.peer.port)
        writer.write(
            f"{method} {self.peer.base_path}api/{path} HTTP/1.0\r\nContent-Length: {len(body)}\r\n"
            f"Authorization: token {self.peer.token}\r\n\r\n".encode()
            + body
        )
        try:
            head, _, said = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
        assert b" 20" in head.splitlines()[0], head
        return json.loads(said) if said else None

    async def ready(self):
        for _ in range(300):
            with suppress(OSError, AssertionError):
                await self.call("GET", "kernels")
                return self
            await asyncio.sleep(0.1)
        raise AssertionError("jupyter-server did not come up")

    async def kernel(self):
        """A new kernel's id."""
        return (await self.call("POST", "kernels", b"{}"))["id"]

    async def run(self, kernel, code):
        """Sends code for execution and stays connected: the open tab. Close what it returns to leave."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.peer.port)
        self.tabs.append(writer)
        writer.write(
            f"GET {self.peer.base_path}api/kernels/{kernel}/channels?session_id=s HTTP/1.1\r\n"
            f"Host: 127.0.0.1:{self.peer.port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
            f"Authorization: token {self.peer.token}\r\n\r\n".encode()
        )
        assert b"101" in await reader.readline()
        header = {"msg_id": "m", "msg_type": "execute_request", "session": "s", "version": "5.3"}
        content = {"code": code, "silent": False, "store_history": False, "allow_stdin": False}
        text = json.dumps({
            "header": header | {"username": "u", "date": ""}, "parent_header": {}, "metadata": {},
            "content": content, "channel": "shell", "buffers": [],
        }).encode()  # fmt: skip
        # A client's frame is masked; with zeros the text stays as it is.
        writer.write(b"\x81\xfe" + len(text).to_bytes(2, "big") + bytes(4) + text)
        await writer.drain()
        return writer


@asynccontextmanager
async def jupyter(folder, **settings):
    """A server that is ready, and stopped at the end with its kernels and its tabs."""
    server = Jupyter(folder, **settings)
    try:
        yield await server.ready()
    finally:
        for tab in server.tabs:
            tab.transport.abort()
        server.close()
        await asyncio.sleep(0)


async def until(look, seen, seconds=20):
    """The first evidence of ``look`` that ``seen`` is true of, or the last one."""
    ends = time.monotonic() + seconds
    while True:
        evidence = await look()
        if seen(evidence) or time.monotonic() > ends:
            return evidence
        await asyncio.sleep(0.2)


SECOND = SECOND_US
UNREACHABLE = Unanswered("no_connection")
