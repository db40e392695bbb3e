"""What a reflector does with lists that hold too much, or what cannot be read."""

import asyncio

import msgspec
import pytest

from bus.kube.watch.contract import AnswerTooLargeError
from bus.sources.catalogue import NODES, PODS
from tests.bus.kube.watch.fakes import QUICK, Followed, line, page, pod

pytestmark = pytest.mark.simulated

UNREADABLE = b'{"metadata":{"uid":"h","name":"hidden","namespace":"team-a","resourceVersion":5}}'


async def test_the_state_names_what_the_newest_list_holds_and_no_row_has():
    """Also of other kinds; until a list holds no such object."""
    for source in (PODS, NODES):
        pages = [page("3", pod("a", "3"), UNREADABLE), page("9", pod("a", "3"))]
        async with Followed(pages, source=source) as followed:
            await followed.until(lambda f: f.state.unread_count)

            assert list(followed.state.unread) == ["team-a/hidden"]
            assert "resourceVersion" in followed.state.unread["team-a/hidden"]

            followed.reflector.relist("test")
            await followed.until(lambda f: not f.state.unread_count)

            assert followed.state.unread == {}


async def test_a_refused_watch_record_is_named_by_the_list_that_follows_it():
    hidden = {"metadata": {"uid": "h", "name": "hidden", "namespace": "team-a"}}
    watches = [[line("ADDED", hidden)]]
    async with Followed([page("3"), page("9", UNREADABLE)], watches) as followed:
        await followed.until(lambda f: f.state.unread_count)

        assert followed.state.unread_count == 1


async def test_a_page_that_is_too_large_is_asked_for_in_smaller_ones():
    """Thirty pods whose arguments are `<`, 9 MiB of JSON each, were a list that never came."""
    too_large = [AnswerTooLargeError(limit=1)] * 4
    async with Followed([*too_large, page("3", pod("a", "3"))], settings=QUICK) as followed:
        await followed.until(lambda f: f.lists())

        assert followed.cluster.limits == [500, 62, 7, 1, 1]
        assert followed.lists()[0]["uids"] == ["a"]


async def test_a_list_that_is_asked_for_soon_after_another_comes_soon_and_not_when_the_watch_says_something():
    settings = msgspec.structs.replace(QUICK, apart_seconds=0.1, silence_seconds=60.0)
    async with Followed([page("3"), page("4")], settings=settings) as followed:
        await followed.until(lambda f: f.cluster.asked[-1:] == [("watch", "3")])
        await followed.settle(0.02)
        followed.reflector.relist("test")
        await followed.until(lambda f: len(f.lists()) == 2)

        assert followed.state.relists == {"start": 1, "test": 1}


async def test_an_object_of_thousands_of_levels_is_listed_and_published():
    """Whatever is listed of it: what is nested in its spec, or in the server's notes on who set what."""
    levels = b'{"f:a":' * 5000 + b"1" + b"}" * 5000
    metadata = b'"name":"deep","namespace":"team-a","resourceVersion":"3","uid":"d"'
    deep = b'{"metadata":{%s},"spec":{"x":%s}}' % (metadata, levels)
    bare = b'{"metadata":{"managedFields":[{"fieldsV1":%s}],%s}}' % (levels, metadata)
    soon = msgspec.structs.replace(QUICK, relist_seconds=1.0, silence_seconds=50.0)
    pages = [
        page("3", deep, pod("a", "3")),
        page("5", bare, {"metadata": pod("a", "3")["metadata"]}),
    ]
    async with Followed(pages, settings=soon) as followed:
        await followed.until(lambda f: len(f.lists()) >= 2)

        assert [one["uids"] for one in followed.lists()[:2]] == [["a", "d"]] * 2
        assert followed.cluster.lean[:2] == [False, True]
        assert followed.state.unread_count == 0
        assert followed.said("pod.observed") == ["d/3", "a/3"]


async def test_a_page_of_large_objects_lets_others_have_their_turn():
    large = [pod(f"p{n}", "3", annotations={"x": "x" * 600_000}) for n in range(20)]
    turns = []

    async def beside(followed):
        while not followed.lists():
            turns.append(len(followed.transport.events))
            await asyncio.sleep(0)

    async with Followed([page("3", *large)]) as followed:
        await asyncio.wait_for(beside(followed), 30)

        assert len(followed.lists()[0]["uids"]) == 20
    assert len(turns) >= 5
