"""Pods that move to another node, which none ever does (row A22), and pods of a namespace that goes (A24)."""

import json

import pytest

from bus.kube.watch.contract import ReflectorSettings
from bus.sources.catalogue import NAMESPACES
from tests.bus.kube.watch.fakes import Followed, bookmark, line, page, pod

pytestmark = pytest.mark.simulated


def on(node, version, uid="a", **spec):
    return pod(uid, version) | {
        "spec": {"nodeName": node, "containers": [{"name": "main"}], **spec}
    }


def nodes(followed):
    """(uid/version, node) of every pod that was said."""
    told = [event for event in followed.transport.events if event.type == "pod.observed"]
    return [(e.id.removeprefix("pod.observed/"), json.loads(e.body).get("node")) for e in told]


async def test_a22_a_pod_that_moves_node_is_parked_and_believed_when_a_list_agrees():
    pages = [page("3", on("n1", "3")), page("9", on("n2", "6"))]
    moved = [line("MODIFIED", on("n2", version)) for version in "456"]
    watches = [[moved], [line("MODIFIED", on("n2", "10"))]]
    async with Followed(pages, watches) as followed:
        await followed.until(lambda f: f.state.version == "10")

        assert nodes(followed) == [("a/3", "n1"), ("a/6", "n2"), ("a/10", "n2")]
        assert [e.type for e in followed.transport.events] == [
            "pod.observed", "pods.listed", "observation.refused",
            "pod.observed", "pods.listed", "pod.observed",
        ]  # fmt: skip
        parked = json.loads(followed.transport.events[2].body)
        assert "a bound object moved to another node" in parked["reason"]
        assert (followed.state.moved, followed.state.refused) == (3, 1)
        assert followed.state.relists == {"start": 1, "moved": 1}


async def test_a22_a_move_that_the_list_does_not_show_is_not_believed():
    pages = [page("3", on("n1", "3")), page("9", on("n1", "5"))]
    watches = [[line("MODIFIED", on("n2", "4"))], [line("MODIFIED", on("n1", "10"))]]
    async with Followed(pages, watches) as followed:
        await followed.until(lambda f: f.state.version == "10")

        assert nodes(followed) == [("a/3", "n1"), ("a/5", "n1"), ("a/10", "n1")]


async def test_a22_a_pod_that_moves_to_and_fro_is_parked_and_listed_for_once_in_ten_minutes():
    pages = [page("3", on("n1", "3")), page("5", on("n2", "4"))]
    to_and_fro = [line("MODIFIED", on(f"n{v % 2}", str(v))) for v in range(6, 30)]
    watches = [[line("MODIFIED", on("n2", "4"))], [*to_and_fro, bookmark("99")]]
    async with Followed(pages, watches) as followed:
        await followed.until(lambda f: f.state.version == "99")
        await followed.settle()

        assert followed.state.relists == {"start": 1, "moved": 1}
        assert len(followed.said("observation.refused")) == 1
        assert nodes(followed) == [("a/3", "n1"), ("a/4", "n2")]


async def test_a22_a_list_that_is_not_complete_does_not_settle_a_move():
    partial = page("9", on("n2", "6"), remaining=1)
    pages = [page("3", on("n1", "3")), partial, page("9", on("n2", "6"))]
    watches = [[line("MODIFIED", on("n2", "4"))]]
    settings = ReflectorSettings(linger_seconds=0, apart_seconds=0, wait_seconds=0.2)
    async with Followed(pages, watches, settings=settings) as followed:
        await followed.until(lambda f: f.cluster.asked.count(("list", "")) == 2)
        await followed.settle(0.03)
        before = nodes(followed)
        await followed.until(lambda f: len(f.lists()) == 2)

        assert (before, nodes(followed)) == ([("a/3", "n1")], [("a/3", "n1"), ("a/6", "n2")])


async def test_a22_a_delete_ends_a_pod_wherever_it_says_that_it_was():
    watches = [[line("DELETED", on("n2", "4"))]]
    async with Followed([page("3", on("n1", "3"))], watches) as followed:
        await followed.until(lambda f: f.state.version == "4")

        assert followed.said("pod.vanished") == ["a/4"]
        assert (followed.state.moved, followed.state.relists) == (0, {"start": 1})


async def test_a22_being_bound_is_no_move_and_neither_is_a_namesake():
    watches = [[line("MODIFIED", on("n1", "4")), line("ADDED", on("n2", "5", uid="b"))]]
    async with Followed([page("3", pod("a", "3"))], watches) as followed:
        await followed.until(lambda f: f.state.version == "5")

        assert nodes(followed) == [("a/3", None), ("a/4", "n1"), ("b/5", "n2")]
        assert followed.state.moved == 0


async def test_a24_pods_are_listed_when_their_namespace_vanishes():
    namespace = {"metadata": {"uid": "n", "name": "team-a", "resourceVersion": "5"}}
    async with Followed([page("3", pod("a", "3")), page("6")]) as followed:
        await followed.until(lambda f: f.lists() and f.reflector._schedule.waiting)
        gone = [line("DELETED", namespace)]
        async with Followed(
            [page("4")],
            [gone],
            source=NAMESPACES,
            vanished=lambda event: followed.reflector.relist("namespace"),
        ):
            await followed.until(lambda f: len(f.lists()) == 2)

        assert followed.state.relists == {"start": 1, "namespace": 1}
        assert followed.lists()[1]["uids"] == []
