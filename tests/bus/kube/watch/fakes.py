"""A cluster of a test's own, kept by the contract that the real adapter keeps, and one pod of it."""

import asyncio
import json
from collections import deque

from bus.clock import parse_stamp
from bus.kube.watch.contract import Page, ReflectorSettings
from bus.kube.watch.reflector import Reflector
from bus.memory import MemoryTransport
from bus.sources.catalogue import PODS

QUICK = ReflectorSettings(
    linger_seconds=0.0,
    silence_seconds=0.5,
    relist_seconds=60.0,
    apart_seconds=0.0,
    wait_seconds=0.01,
    longest_wait_seconds=0.04,
    denied_seconds=0.05,
)


def pod(uid, version="1", **metadata):
    """A pod as JSON of an API server."""
    plain = {"uid": uid, "name": uid, "namespace": "team-a", "resourceVersion": version}
    return {"metadata": plain | metadata, "spec": {"containers": [{"name": "main"}]}}


def line(change, thing):
    """A line of a watch, as an API server writes it."""
    return json.dumps({"type": change, "object": thing}, separators=(",", ":")).encode()


def error(code, **status):
    """The line with which a watch ends when something is wrong."""
    return line("ERROR", {"kind": "Status", "code": code, **status})


def bookmark(version):
    """A line that moves the version on."""
    return line("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": version}})


def page(version, *things, following="", remaining=0):
    """One page of a list."""
    items = [thing if isinstance(thing, bytes) else json.dumps(thing).encode() for thing in things]
    return Page(items, version, following, remaining)


class StillClock:
    """A clock that a test sets."""

    def __init__(self):
        self.us = parse_stamp("2026-11-22T12:00:00Z")

    def now_us(self):
        """The same until the test says otherwise."""
        return self.us


class FakeCluster:
    """Answers lists and watches as scripted: an error is raised, a page or the lines of a watch are
    given.

    The last list is given again and again; a watch beyond the script, or at its end, is silent.
    `asked` is what the reflector wanted to know, in order: ("list", following) or ("watch",
    version).
    """

    def __init__(self, pages, watches=()):
        self.pages = deque(pages)
        self.watches = deque(watches)
        self.asked = []
        self.limits = []
        #: Of each list, whether it was asked for metadata alone.
        self.lean = []

    async def page(self, path, *, limit, following="", metadata_only=False):
        """The next scripted page."""
        self.asked.append(("list", following))
        self.limits.append(limit)
        self.lean.append(metadata_only)
        answer = self.pages.popleft() if len(self.pages) > 1 else self.pages[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def watch(self, path, *, version):
        """The next scripted watch: chunks of lines, errors, and None for a connection that is
        closed.
        """
        self.asked.append(("watch", version))
        for step in self.watches.popleft() if self.watches else ():
            if step is None:
                return
            if isinstance(step, Exception):
                raise step
            yield step if isinstance(step, list) else [step]
        await asyncio.Event().wait()


class Followed:
    """A reflector at work on a fake cluster, with what it said."""

    def __init__(
        self, pages, watches=(), *, source=PODS, settings=QUICK, transport=None, made=Reflector, **options
    ):  # fmt: skip
        self.cluster = FakeCluster(pages, watches)
        self.transport = transport or MemoryTransport()
        self.clock = StillClock()
        self.reflector = made(
            source,
            self.cluster,
            self.transport,
            self.clock,
            settings=settings,
            jitter=lambda: 0.0,
            **options,
        )

    async def __aenter__(self):
        self.task = asyncio.create_task(self.reflector.run())
        return self

    async def __aexit__(self, *_):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    @property
    def state(self):
        """The reflector's counters."""
        return self.reflector.state

    def said(self, kind=""):
        """The ids of what was said, in order, without the types' names where one type is asked
        for.
        """
        ids = [event.id for event in self.transport.events if event.type.startswith(kind)]
        return [id.removeprefix(f"{kind}/") for id in ids] if kind else ids

    def lists(self):
        """The bodies of the list parts that were said."""
        return [
            {"uids": [], "part": 1, **json.loads(event.body)}
            for event in self.transport.events
            if event.type == "pods.listed"
        ]

    async def until(self, probe, seconds=5.0):
        """Waits until `probe(self)` holds; the task's own error comes first."""
        async with asyncio.timeout(seconds):
            while not probe(self):
                if self.task.done():
                    self.task.result()
                await asyncio.sleep(0.002)

    async def settle(self, seconds=0.05):
        """Time in which something that must not happen could happen."""
        await asyncio.sleep(seconds)
