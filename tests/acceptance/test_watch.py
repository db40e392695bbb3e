"""A real API server watched: facts in order, and nothing lost when it dies, forgets, or freezes."""

import asyncio
import contextlib

import msgspec
import pytest

from bus.clock import SystemClock
from bus.errors import ClusterUnavailableError, PermissionDeniedError
from bus.kube.client import Access, connect
from bus.kube.watch.contract import GoneError, NotInstalledError, ReflectorSettings
from bus.kube.watch.reflector import Reflector
from bus.memory import MemoryTransport
from bus.sources.catalogue import PODS, SOURCES, WORKLOADS
from tests.cluster.api import STRATEGIC

pytestmark = pytest.mark.kube

QUICK = ReflectorSettings(apart_seconds=0.0, wait_seconds=0.05, longest_wait_seconds=0.5)
UNBOUND = {"containers": [{"name": "main", "image": "x", "env": [{"name": "X", "value": "a\0b"}]}]}
BIG = "x" * 200_000


class Held(MemoryTransport):
    """A bus that stands still while its gate is closed."""

    def __init__(self):
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()

    async def publish(self, events, *, expect=None):
        await self.gate.wait()
        return await super().publish(events, expect=expect)


class Watched:
    """Pods of one real API server, as a reflector says them to a history in memory."""

    def __init__(self, plane, settings=QUICK, namespace="default", source=PODS):
        self.plane, self.settings, self.source = plane, settings, source
        self.path = f"/api/v1/namespaces/{namespace}/pods"
        self.namespace = namespace
        self.transport = Held()

    async def __aenter__(self):
        self.cluster = await connect(Access(str(self.plane.kubeconfig)))
        self.reflector = Reflector(
            self.source, self.cluster, self.transport, SystemClock(), settings=self.settings
        )
        self.task = asyncio.create_task(self.reflector.run())
        await self.until(lambda: self.reflector.state.listed_us)
        return self

    async def __aexit__(self, *_):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.cluster.close()

    async def until(self, probe, seconds=60.0):
        """Waits until `probe()` holds; the reflector's own error comes first."""
        async with asyncio.timeout(seconds):
            while not probe():
                if self.task.done():
                    self.task.result()
                await asyncio.sleep(0.01)

    async def ask(self, method, name="", body=None, **options):
        """A request to the API server that does not hold up the reflector."""
        path = f"{self.path}/{name}".rstrip("/")
        return await asyncio.to_thread(self.plane.api.request, method, path, body, **options)

    async def create(self, name, spec=UNBOUND, **metadata):
        """A new pod's uid."""
        pod = {"metadata": {"name": name, **metadata}, "spec": spec}
        return (await self.ask("POST", body=pod))["metadata"]["uid"]

    def said(self, uid):
        """The facts about one pod, in order: their types and bodies."""
        events = [event for event in self.transport.events if event.key == uid]
        return [(event.type, msgspec.json.decode(event.body)) for event in events]

    def saw(self, uid, kind):
        """Whether a fact of this kind was said about a pod."""
        return any(type == kind for type, _ in self.said(uid))

    def listed(self):
        """The uids of each complete list, in order."""
        events = [event for event in self.transport.events if event.type == "pods.listed"]
        return [set(msgspec.json.decode(event.body).get("uids", ())) for event in events]


async def test_a_life_arrives_as_facts_in_order(plane, namespace):
    async with Watched(plane, namespace=namespace) as watched:
        requests = {"cpu": "250m", "nvidia.com/gpu": "1"}
        container = {
            "name": "main",
            "image": "x",
            "resources": {"requests": requests, "limits": requests},
        }
        uid = await watched.create("p", {"containers": [container]}, labels={"app": "a"})
        await watched.until(
            lambda: watched.said(uid) and watched.said(uid)[-1][1]["phase"] == "Running"
        )
        patch = {"metadata": {"labels": {"bursar.io/team": "vision"}}}
        await watched.ask("PATCH", "p", patch, content_type=STRATEGIC)
        await watched.until(lambda: watched.said(uid)[-1][1].get("team") == "vision")
        await watched.ask("DELETE", "p")
        await watched.until(lambda: watched.saw(uid, "pod.vanished"))

        told = watched.said(uid)
        versions = [int(body["resource_version"]) for _, body in told]
        assert versions == sorted(set(versions))
        assert [body["phase"] for _, body in told][:2] == ["Pending", "Pending"]
        assert told[1][1]["scheduled"] == told[1][1]["created"] or "node" in told[1][1]
        assert (told[-1][0], told[-1][1]["grace_seconds"]) == ("pod.vanished", 0)
        assert [kind for kind, _ in told[:-1]] == ["pod.observed"] * (len(told) - 1)


async def test_every_built_in_source_follows_a_real_api_server(plane, namespace):
    async with contextlib.AsyncExitStack() as stack:
        all_watched = [
            await stack.enter_async_context(Watched(plane, source=source))
            for source in SOURCES
            if not source.is_optional
        ]
        args = ("create", "deployment", "web", "--image=web", f"--namespace={namespace}")
        await asyncio.to_thread(plane.kubectl, *args)
        deployments = next(w for w in all_watched if w.source is WORKLOADS["Deployment"])
        await deployments.until(
            lambda: any(
                msgspec.json.decode(event.body).get("namespace") == namespace
                for event in deployments.transport.events
            )
        )

        assert {watched.reflector.state.refused for watched in all_watched} == {0}
        assert all(watched.reflector.state.version for watched in all_watched)


async def test_deletes_while_the_api_server_is_dead_are_closed_or_told(own_plane):
    async with Watched(own_plane) as watched:
        kept, gone = await watched.create("kept"), await watched.create("gone")
        await watched.until(lambda: watched.said(kept) and watched.said(gone))
        own_plane.kill_apiserver()
        await watched.until(lambda: watched.reflector.state.trouble)
        await asyncio.to_thread(own_plane.start_apiserver)
        await watched.ask("DELETE", "gone")
        # A server that was started anew may not know our version any more, though its store does.
        await watched.until(
            lambda: watched.saw(gone, "pod.vanished") or watched.listed()[-1] == {kept}
        )

        assert not watched.saw(kept, "pod.vanished")
        assert watched.reflector.state.refused == 0


async def test_deletes_beyond_the_watch_are_closed_by_the_next_list(own_plane):
    async with Watched(own_plane) as watched:
        kept, gone = await watched.create("kept"), await watched.create("gone")
        await watched.until(lambda: watched.said(kept) and watched.said(gone))
        own_plane.kill_apiserver()
        await watched.until(lambda: watched.reflector.state.trouble)
        watched.transport.gate.clear()
        await asyncio.to_thread(own_plane.start_apiserver)
        # More than fits between server and reader, so that the watch is held up at the server.
        for n in range(60):
            await watched.create(f"held-{n}", annotations={"x": BIG})
        await watched.ask("DELETE", "gone")
        again = await watched.create("gone")
        await asyncio.to_thread(own_plane.compact)
        watched.transport.gate.set()
        await watched.until(lambda: watched.listed()[-1] >= {kept, again})

        assert watched.reflector.state.relists["gone"]
        assert watched.saw(again, "pod.observed")
        assert not watched.saw(gone, "pod.vanished")
        assert gone not in watched.listed()[-1]


async def test_a_frozen_api_server_is_left_and_found_again(own_plane):
    settings = msgspec.structs.replace(QUICK, silence_seconds=2.0)
    async with Watched(own_plane, settings) as watched:
        before = await watched.create("before")
        await watched.until(lambda: watched.said(before))
        own_plane.pause_apiserver()
        await watched.until(lambda: watched.reflector.state.relists["silence"])
        own_plane.resume_apiserver()
        after = await watched.create("after")
        await watched.ask("DELETE", "before")
        await watched.until(lambda: watched.said(after) and watched.saw(before, "pod.vanished"))

        assert watched.reflector.state.refused == 0


async def test_a_list_of_many_pages_is_complete(own_plane):
    settings = msgspec.structs.replace(QUICK, page_size=7)
    async with Watched(own_plane, settings) as watched:
        uids = {await watched.create(f"p{n}") for n in range(30)}
        watched.reflector.relist("test")
        await watched.until(lambda: len(watched.listed()) == 2)

        assert watched.listed()[-1] == uids


async def test_refusals_have_their_own_errors(own_plane):
    config = own_plane.folder / "stranger"
    config.write_text(own_plane.kubeconfig.read_text().replace(own_plane.token, "stranger"))
    stranger = await connect(Access(str(config)))
    with pytest.raises(PermissionDeniedError) as caught:
        await stranger.page("/apis/batch/v1/jobs", limit=1)
    await stranger.close()
    cluster = await connect(Access(str(own_plane.kubeconfig)))
    with pytest.raises(GoneError):
        await cluster.page(PODS.path, limit=1, following="nonsense")
    with pytest.raises(NotInstalledError):
        await cluster.page("/apis/nowhere/v1/things", limit=1)
    own_plane.kill_apiserver()
    with pytest.raises(ClusterUnavailableError):
        await cluster.page(PODS.path, limit=1)
    await cluster.close()

    assert caught.value.permission == "list jobs.batch"
