"""A process that answers reviews from the journals, or keeps them true, for the storm to kill, pause and ask.

Children come from a fork server that has everything imported, so that a killed one is soon back.
"""

import asyncio
import multiprocessing
import os
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec
import uvloop

from bus.embedded import running
from bus.events.admissions import QuotaDeclared
from bus.jetstream import JetStream
from bus.kube.kinds import GOVERNED
from bus.streams import history
from reactors.admitting import following
from reactors.webhook.application import Application
from reactors.webhook.failure import closed_for
from reactors.webhook.server import ServerSettings, WebhookServer

CLUSTER = "storm"

_HOUR_US = 3_600_000_000


@dataclass(frozen=True)
class FastClock:
    """Runs `speed` times as fast as the machine's; hours behind it, as the bus bounds stamps of the future."""

    began_us: int
    speed: int

    def now_us(self):
        real_us = time.time_ns() // 1_000
        return self.began_us - 12 * _HOUR_US + (real_us - self.began_us) * self.speed

    def real_us(self, us):
        """When it showed this, by the machine's clock."""
        return self.began_us + (us - self.began_us + 12 * _HOUR_US) // self.speed


class CarelessTransport:
    """The broken variant: decisions on workloads stand on nothing.

    Quotas are declared carefully: a process that appended without an expectation never reads what another one stored before it,
    and where that is a quota, nothing below it would ever be admitted.
    """

    def __init__(self, door):
        self._door = door
        self.read, self.head = door.read, door.head

    async def publish(self, events, *, expect=None):
        is_declared = any(event.type == QuotaDeclared.wire_type for event in events)
        return await self._door.publish(events, expect=expect if is_declared else None)


class ToldApplication(Application):
    """Also tells what the process knows: `GET /trees`."""

    def __init__(self, admission):
        charged = {(kind.group, kind.resource) for kind in GOVERNED}
        super().__init__(admission.handler, closed_for(charged), with_empty=True)
        self._journals = admission.journals

    async def __call__(self, scope, receive, send):
        if scope.get("path") != "/trees":
            return await super().__call__(scope, receive, send)
        body = msgspec.json.encode(
            {"sequence": self._journals.sequence, "trees": described(self._journals.trees.values())}
        )
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def described(trees):
    """All that trees know, for comparing: by quota what is claimed, used, and held for whom."""
    return {
        tree.name: {
            "number": tree.number,
            "sequence": tree.sequence,
            "quotas": {
                node.name: {
                    "used": dict(sorted(node.self_used.items())),
                    "claims": dict(sorted(node.claims.items())),
                    "grants": {
                        uid: msgspec.to_builtins(grant)
                        for uid, grant in sorted(node.grants.items())
                    },
                }
                for node in sorted(tree.nodes.values(), key=lambda node: node.name)
            },
        }
        for tree in trees
    }


async def serve(pipe, folder, name, clock, keeps, careless, site):
    """Answer until killed. Tells `("ready", ports)`: of plain HTTP and of TLS, 0 without a site; and
    `("relist", kind)` for a complete list that is wanted of a simulated API server.
    """
    # The other end closes when the test ends, however it ends.
    asyncio.get_running_loop().add_reader(pipe.fileno(), lambda: os._exit(0))
    while (address := running(Path(folder))) is None:
        await asyncio.sleep(0.05)
    door = await JetStream.connect(
        address.url, history(), credentials=address.credentials, name=name, connect_seconds=30
    )
    transport = CarelessTransport(door) if careless else door
    reflectors = {}

    def relist(kind):
        if site is None:
            pipe.send(("relist", kind))
        elif kind in reflectors:
            reflectors[kind].relist("settle")

    async with AsyncExitStack() as stack:
        admission = await stack.enter_async_context(
            following(transport, clock, cluster=CLUSTER, source=name, keeps=keeps, relist=relist)
        )
        plain = WebhookServer(ToldApplication(admission), ServerSettings("127.0.0.1", 0), None)
        await plain.start()
        reviews = 0
        if site:
            cluster = await stack.enter_async_context(site.opened()) if keeps else None
            if keeps:
                followed = site.followed(cluster, transport, clock, admission.view)
                reflectors |= await stack.enter_async_context(followed)
            reviews = await stack.enter_async_context(site.served(admission, cluster))
        pipe.send(("ready", (plain.port, reviews)))
        await asyncio.Event().wait()


def main(pipe, *args):
    """The child."""
    uvloop.run(serve(pipe, *args))


_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__, "tests.acceptance.cluster_site"])


class WebhookProcess:
    """One child, started again each time :meth:`start` is called.

    `site`: the real API server whose reviews it answers, and which it follows if it keeps.
    """

    def __init__(self, folder, name, clock, *, keeps=False, careless=False, relist=None, site=None):
        self.name = name
        #: Of plain HTTP, and of TLS; 0 while it does not answer.
        self.port = self.tls_port = 0
        self.starts = 0
        self._args = (str(folder), name, clock, keeps, careless, site)
        self._relist = relist
        self._child = None
        self._ready = asyncio.Event()
        self._pipe = None

    @property
    def pid(self):
        return self._child.pid

    def start(self):
        self._ready.clear()
        self._pipe, theirs = _context.Pipe()
        self._child = _context.Process(target=main, args=(theirs, *self._args), daemon=True)
        self._child.start()
        theirs.close()
        self.starts += 1
        asyncio.get_running_loop().add_reader(self._pipe.fileno(), self._told)

    async def ready(self, seconds=60):
        """Return when it answers; TimeoutError otherwise."""
        async with asyncio.timeout(seconds):
            await self._ready.wait()

    def kill(self):
        """End it as kill -9 does, if it runs."""
        self._hang_up()
        if self._child is not None:
            self._child.kill()
            self._child.join()

    def _told(self):
        try:
            kind, value = self._pipe.recv()
        except (EOFError, ConnectionResetError):
            # It ended by itself, which whoever supervises it sees.
            return self._hang_up()
        if kind == "ready":
            self.port, self.tls_port = value
            self._ready.set()
        elif self._relist is not None:
            self._relist(value)

    def _hang_up(self):
        self.port = self.tls_port = 0
        self._ready.clear()
        if self._pipe is not None:
            asyncio.get_running_loop().remove_reader(self._pipe.fileno())
            self._pipe.close()
            self._pipe = None
