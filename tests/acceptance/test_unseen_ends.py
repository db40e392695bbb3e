"""Ends that nobody saw, on a real API server that is killed, frozen, compacted or put back: each is booked as specified.

The watchers' clock stands at the second that the test sets, so that rows are exact. The API server's stamps are real.
A row is (waiting, held intervals with milli-cores and team, unknown seconds, open, flags).
"""

import asyncio
import base64
import contextlib
import shutil
from dataclasses import dataclass

import msgspec
import pytest

from bus.sources.catalogue import PODS
from tests.acceptance.bookkeeping import QUICK, Bookkeeping, SetClock, pods_of, second
from tests.cluster.api import STRATEGIC, Api, ApiError, eventually

pytestmark = [pytest.mark.kube, pytest.mark.timeout(180)]

#: Later than the API server's stamps by this many seconds: the first moment that the watchers' clock shows.
LATER = 20


@dataclass
class Seen:
    """A pod as the API server answered for it."""

    uid: str
    created_s: int
    start_s: int = 0

    def held(self, until_s, *, unknown_s=0, flags=()):
        """The row of a pod that held one core of nobody's from its creation on, and has ended."""
        return 0, [(self.created_s, until_s, 1000, "unassigned")], unknown_s, False, flags

    def open(self, as_of_s):
        """The row of a pod that holds still."""
        return 0, [(self.created_s, as_of_s, 1000, "unassigned")], 0, True, ()


class Cluster:
    """Requests to a control plane from a test, which must not hold up the watchers."""

    def __init__(self, plane, namespace="default"):
        self.plane, self.path = plane, f"/api/v1/namespaces/{namespace}/pods"

    async def ask(self, method, name="", body=None, **options):
        path = f"{self.path}/{name}".rstrip("/")
        return await asyncio.to_thread(self.plane.api.request, method, path, body, **options)

    async def bound(self, *names):
        """New pods that were created with a node's name."""
        requests = {"cpu": "1"}
        container = {"name": "main", "image": "x", "resources": {"requests": requests}}
        spec = {"containers": [container], "nodeName": "nowhere"}
        made = [await self.ask("POST", body={"metadata": {"name": n}, "spec": spec}) for n in names]
        return [seen(one) for one in made]

    async def relabeled(self, name, times, team):
        """Names another team for the pod, so many times."""
        for number in range(times):
            labels = {"metadata": {"labels": {"bursar.io/team": f"{team}-{number}"}}}
            await self.ask("PATCH", name, labels, content_type=STRATEGIC)

    async def removed(self, name):
        """Deletes a pod at once; the second that the API server wrote for it."""
        version = (await self.ask("GET"))["metadata"]["resourceVersion"]
        await self.ask("DELETE", name, {"gracePeriodSeconds": 0})
        watch = self.plane.api.watch(self.path, version, seconds=1)
        told = await asyncio.to_thread(list, watch)
        metadata = [event["object"]["metadata"] for event in told if event["type"] == "DELETED"][-1]
        assert (name, 0) == (metadata["name"], metadata["deletionGracePeriodSeconds"])
        return second(metadata["deletionTimestamp"])


def seen(thing):
    return Seen(thing["metadata"]["uid"], second(thing["metadata"]["creationTimestamp"]))


# Nobody watches.


async def test_what_is_deleted_while_bursar_is_away_is_charged_until_it_was_last_seen(
    own_plane, tmp_path
):
    cluster = Cluster(own_plane)
    kept, gone, ending = await cluster.bound("kept", "gone", "ending")
    seen_s = ending.created_s + LATER
    async with Bookkeeping(tmp_path) as books:
        # Until the deadline of its deletion it still holds.
        await cluster.ask("DELETE", "ending")
        before = await books.watch(own_plane, sources=(PODS,), clock=SetClock(seen_s))
        await before.stop()
        await cluster.removed("gone")
        await cluster.removed("ending")
        await books.watch(own_plane, sources=(PODS,), clock=SetClock(seen_s + 100))
        await books.settled()

        vanished = {"unknown_s": 100, "flags": ("vanished",)}
        assert gone.held(seen_s, **vanished) == books.row(gone.uid)
        assert ending.held(seen_s, **vanished) == books.row(ending.uid)
        assert kept.open(seen_s + 200) == books.row(kept.uid, seen_s + 200)


async def test_a_killed_api_server_tells_of_deletes_that_came_before_the_watch(own_plane, tmp_path):
    cluster = Cluster(own_plane)
    kept, gone = await cluster.bound("kept", "gone")
    seen_s = gone.created_s + LATER
    clock = SetClock(seen_s)
    async with Bookkeeping(tmp_path) as books:
        watcher = await books.watch(own_plane, sources=(PODS,), clock=clock)
        own_plane.kill_apiserver()
        await watcher.until(lambda: watcher.pods.state.trouble)
        watcher.taps["pods"].cut()
        await asyncio.to_thread(own_plane.start_apiserver)
        removed_s = await cluster.removed("gone")
        clock.set(seen_s + 100)
        watcher.taps["pods"].mend()
        await books.until(lambda books: not books.row(gone.uid)[3])

        assert gone.held(removed_s) == books.row(gone.uid)
        assert kept.open(seen_s + 200) == books.row(kept.uid, seen_s + 200)


async def test_what_left_a_dead_api_servers_store_is_closed_by_the_list_and_its_time_is_unknown(
    own_plane, tmp_path
):
    cluster = Cluster(own_plane)
    kept, gone = await cluster.bound("kept", "gone")
    seen_s = gone.created_s + LATER
    clock = SetClock(seen_s)
    async with Bookkeeping(tmp_path) as books:
        watcher = await books.watch(own_plane, sources=(PODS,), clock=clock)
        own_plane.kill_apiserver()
        await watcher.until(lambda: watcher.pods.state.trouble)
        key = base64.b64encode(b"/registry/pods/default/gone").decode()
        Api(own_plane.etcd_url).request("POST", "/v3/kv/deleterange", {"key": key})
        clock.set(seen_s + 100)
        await asyncio.to_thread(own_plane.start_apiserver)
        await books.until(lambda books: not books.row(gone.uid)[3])

        # Its memory begins with its start, and what was before is gone for watches too.
        assert {"start": 1, "gone": 1} == watcher.pods.state.relists
        assert gone.held(seen_s, unknown_s=100, flags=("vanished",)) == books.row(gone.uid)
        assert kept.open(seen_s + 200) == books.row(kept.uid, seen_s + 200)


async def test_after_compaction_the_list_tells_who_is_new_who_changed_and_who_is_gone(
    own_plane, tmp_path
):
    cluster = Cluster(own_plane)
    kept, gone = await cluster.bound("kept", "gone")
    seen_s = gone.created_s + LATER
    clock = SetClock(seen_s)
    async with Bookkeeping(tmp_path) as books:
        watcher = await books.watch(own_plane, sources=(PODS,), clock=clock)
        watcher.taps["pods"].cut()
        await cluster.relabeled("kept", 1, "vision")
        await cluster.ask("DELETE", "gone", {"gracePeriodSeconds": 0})
        (new,) = await cluster.bound("new")
        await asyncio.to_thread(own_plane.compact)
        clock.set(seen_s + 100)
        watcher.taps["pods"].mend()
        await books.until(lambda books: books.row(new.uid) and not books.row(gone.uid)[3])

        assert 1 == watcher.pods.state.relists["gone"]
        assert gone.held(seen_s, unknown_s=100, flags=("vanished",)) == books.row(gone.uid)
        assert new.open(seen_s + 200) == books.row(new.uid, seen_s + 200)
        moved = (seen_s + 100, seen_s + 200, 1000, "vision-0")
        before = (kept.created_s, seen_s + 100, 1000, "unassigned")
        assert (0, [before, moved], 0, True, ()) == books.row(kept.uid, seen_s + 200)
        removed_s = await cluster.removed("new")
        await books.until(lambda books: not books.row(new.uid)[3])
        assert new.held(removed_s) == books.row(new.uid)


async def test_what_was_asked_of_a_frozen_api_server_is_booked_when_it_thaws(own_plane, tmp_path):
    cluster = Cluster(own_plane)
    kept, gone = await cluster.bound("kept", "gone")
    seen_s = gone.created_s + LATER
    settings = msgspec.structs.replace(QUICK, silence_seconds=1.0)
    async with Bookkeeping(tmp_path) as books:
        watcher = await books.watch(
            own_plane, sources=(PODS,), clock=SetClock(seen_s), settings=settings
        )
        own_plane.pause_apiserver()
        removing = asyncio.create_task(cluster.ask("DELETE", "gone", {"gracePeriodSeconds": 0}))
        await watcher.until(lambda: watcher.pods.state.relists["silence"])
        own_plane.resume_apiserver()
        told = await removing
        (new,) = await cluster.bound("new")
        await books.until(lambda books: books.row(new.uid) and not books.row(gone.uid)[3])

        assert gone.held(second(told["metadata"]["deletionTimestamp"])) == books.row(gone.uid)
        assert kept.open(seen_s + 200) == books.row(kept.uid, seen_s + 200)
        assert new.open(seen_s + 200) == books.row(new.uid, seen_s + 200)


# Namesakes, and a store that was put back.


async def test_a_namesake_whose_predecessors_end_was_not_seen_is_another_run(
    plane, namespace, tmp_path
):
    cluster = Cluster(plane, namespace)
    await asyncio.to_thread(plane.api.request, "POST", *stateful_set(namespace))
    first = await running(cluster, "web-0")
    seen_s = first.start_s + 2
    await asyncio.sleep(4)
    async with Bookkeeping(tmp_path) as books:
        source = (pods_of(namespace),)
        before = await books.watch(plane, sources=source, clock=SetClock(seen_s))
        await before.stop()
        await cluster.ask("DELETE", "web-0")
        again = await running(cluster, "web-0", other_than=first.uid)
        await books.watch(plane, sources=source, clock=SetClock(seen_s + 100))
        await books.settled()
        rows = {one.uid: (one.name, one.workload) for one in books.accounts().values()}

        assert dict.fromkeys((first.uid, again.uid), ("web-0", "StatefulSet/web")) == rows
        ended = [(first.start_s, seen_s, 1000, "unassigned")]
        waited_s = first.start_s - first.created_s
        assert (waited_s, ended, 100, False, ("vanished",)) == books.row(first.uid)
        held = [(again.start_s, seen_s + 200, 1000, "unassigned")]
        waited_s = again.start_s - again.created_s
        assert (waited_s, held, 0, True, ()) == books.row(again.uid, seen_s + 200)


def stateful_set(namespace):
    """Where one is made, and one of a single pod."""
    labels = {"app": "web"}
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"serviceName": "web", "selector": {"matchLabels": labels}, "template": template}
    return f"/apis/apps/v1/namespaces/{namespace}/statefulsets", {
        "metadata": {"name": "web"},
        "spec": {**spec, "replicas": 1},
    }


async def running(cluster, name, *, other_than=""):
    """The pod of this name once it runs."""

    def found():
        with contextlib.suppress(ApiError):
            thing = cluster.plane.api.request("GET", f"{cluster.path}/{name}")
            if thing["metadata"]["uid"] != other_than and thing["status"]["phase"] == "Running":
                return thing
        return None

    thing = await asyncio.to_thread(eventually, found)
    scheduled = [one for one in thing["status"]["conditions"] if one["type"] == "PodScheduled"]
    pod = seen(thing)
    pod.start_s = second(scheduled[0]["lastTransitionTime"])
    return pod


@pytest.mark.slow
@pytest.mark.waits
async def test_a_store_put_back_is_followed_again_and_what_it_lost_is_closed_when_it_counts_past_it(
    own_plane, tmp_path
):
    cluster = Cluster(own_plane)
    kept, back = await cluster.bound("kept", "back")
    seen_s = back.created_s + LATER
    clock = SetClock(seen_s)
    older, newest = tmp_path / "older", own_plane.folder / "etcd"
    await restarted(own_plane, lambda: shutil.copytree(newest, older))
    settings = msgspec.structs.replace(QUICK, relist_seconds=1.0)
    async with Bookkeeping(tmp_path / "data") as books:
        watcher = await books.watch(own_plane, sources=(PODS,), clock=clock, settings=settings)
        removed_s = await cluster.removed("back")
        *_, lost = await cluster.bound(*(f"lost-{n}" for n in range(20)))
        await books.until(lambda books: books.row(lost.uid) and not books.row(back.uid)[3])
        await restarted(own_plane, lambda: put_back(older, newest))
        clock.set(seen_s + 100)
        await watcher.moved(own_plane)
        # A watch of a version that is yet to come is accepted and silent: only the lists tell.
        await watcher.until(lambda: watcher.pods.state.relists["older"])
        (new,) = await cluster.bound("new")
        # Until a list has it, the lists from before count against it, as their versions are higher.
        await books.until(lambda books: books.row(new.uid) and books.row(new.uid)[3])

        assert new.open(seen_s + 200) == books.row(new.uid, seen_s + 200)
        assert kept.open(seen_s + 200) == books.row(kept.uid, seen_s + 200)
        # It is there again, but what has ended stays ended.
        assert back.held(removed_s) == books.row(back.uid)
        assert lost.open(seen_s + 200) == books.row(lost.uid, seen_s + 200)
        for n in range(30):
            await cluster.bound(f"later-{n}")
        await books.until(lambda books: not books.row(lost.uid)[3])
        assert lost.held(seen_s, unknown_s=100, flags=("vanished",)) == books.row(lost.uid)


@pytest.mark.slow
@pytest.mark.waits
async def test_a_version_that_a_store_put_back_gives_out_again_does_not_end_the_watch(
    own_plane, tmp_path
):
    cluster = Cluster(own_plane)
    (kept,) = await cluster.bound("kept")
    clock = SetClock(kept.created_s + LATER)
    older, newest = tmp_path / "older", own_plane.folder / "etcd"
    await restarted(own_plane, lambda: shutil.copytree(newest, older))
    settings = msgspec.structs.replace(QUICK, relist_seconds=1.0)
    async with Bookkeeping(tmp_path / "data") as books:
        watcher = await books.watch(own_plane, sources=(PODS,), clock=clock, settings=settings)
        await cluster.relabeled("kept", 20, "before")
        await books.until(lambda books: books.row(kept.uid)[1][-1][-1] == "before-19")
        await restarted(own_plane, lambda: put_back(older, newest))
        clock.set(kept.created_s + LATER + 100)
        await watcher.moved(own_plane)
        await watcher.until(lambda: watcher.pods.state.relists["older"])
        await cluster.relabeled("kept", 40, "after")
        # How many events were published says nothing of it: heartbeats count among them.
        await books.until(lambda books: books.row(kept.uid)[1][-1][-1] == "after-39")


def put_back(older, newest):
    """The store as it was."""
    shutil.rmtree(newest)
    shutil.copytree(older, newest)


async def restarted(plane, between):
    """Stops all of a control plane, does something to its store, and starts it, at another address."""
    await asyncio.to_thread(plane.stop)
    await asyncio.to_thread(between)
    await asyncio.to_thread(plane.start)
