"""The reflector against a scripted cluster: what it says, what it asks, and rows A1 to A30 of
the catalogue.
"""

import asyncio

import msgspec
import pytest

from bus.errors import (
    BusUnavailableError,
    ClusterUnavailableError,
    MalformedJsonError,
    PermissionDeniedError,
    PublishUnknownError,
)
from bus.kube.watch.contract import GoneError, ReflectorSettings
from bus.memory import MemoryTransport
from bus.sources.catalogue import NODES
from tests.bus.kube.watch.fakes import QUICK, Followed, bookmark, error, line, page, pod

pytestmark = pytest.mark.simulated

MANY = [pod(f"u{n:02}", str(n)) for n in range(1, 31)]


def node(version, ready="True", **status):
    conditions = [{"type": "Ready", "status": ready, "lastHeartbeatTime": version}]
    metadata = {"uid": "n", "name": "n", "resourceVersion": version}
    return {"metadata": metadata, "status": {"conditions": conditions, **status}}


async def test_a_list_is_said_item_by_item_and_then_as_a_whole_before_the_watch_begins():
    pages = [page("7", pod("b", "3"), following="next"), page("7", pod("a", "5"))]
    async with Followed(pages, [[line("MODIFIED", pod("a", "8"))]]) as followed:
        await followed.until(lambda f: f.state.version == "8")

        assert followed.cluster.asked == [("list", ""), ("list", "next"), ("watch", "7")]
        assert followed.said("pod.observed") == ["b/3", "a/5", "a/8"]
        assert followed.lists()[0]["uids"] == ["a", "b"]
        assert followed.lists()[0]["resource_version"] == "7"
        assert [e.type for e in followed.transport.events][2] == "pods.listed"


async def test_changes_arrive_in_order_with_the_time_of_their_arrival():
    chunk = [line("ADDED", pod("a", "2")), line("MODIFIED", pod("a", "3")), b""]
    async with Followed([page("1")], [[chunk, line("DELETED", pod("a", "4"))]]) as followed:
        await followed.until(lambda f: f.state.version == "4")

        assert followed.said("pod.")[-3:] == [
            "pod.observed/a/2",
            "pod.observed/a/3",
            "pod.vanished/a/4",
        ]
        assert {event.time_us for event in followed.transport.events} == {followed.clock.us}


async def test_what_the_history_holds_already_is_not_said_again_after_a_restart():
    async with Followed([page("9", pod("a", "3"), pod("b", "9"))], known={"a": "3"}) as followed:
        await followed.until(lambda f: f.lists())

        assert followed.said("pod.observed") == ["b/9"]
        assert followed.lists()[0]["uids"] == ["a", "b"]


async def test_a1_a_cut_line_is_parked_and_listed_for_and_the_watch_goes_on_before_it():
    cut = line("DELETED", pod("a", "5"))[:-20]
    watches = [[line("ADDED", pod("b", "4")), cut], [line("DELETED", pod("a", "5"))]]
    async with Followed([page("3", pod("a", "3")), page("6")], watches) as followed:
        await followed.until(lambda f: f.state.version == "5")

        assert followed.state.refused == 1
        assert followed.state.relists == {"start": 1, "refused": 1}
        assert followed.cluster.asked[-1] == ("watch", "4")
        assert followed.said("pod.vanished") == ["a/5"]
        assert followed.lists()[-1]["uids"] == []


async def test_a1_a_line_that_stays_unreadable_is_said_and_listed_for_once():
    watches = [[b"{not JSON"]] * 4
    async with Followed([page("3")], watches) as followed:
        await followed.until(lambda f: len(f.cluster.asked) >= 4)
        await followed.settle()

        assert len(followed.said("observation.refused")) == followed.state.relists["refused"] == 1


@pytest.mark.parametrize("bad", [line("FOO", pod("a", "4")), b'{"object":{}}', b'{"type":5}'])
async def test_a2_an_unknown_type_is_ignored_and_listed_for_once_in_ten_minutes(bad):
    watches = [[[bad, bad]], [[bad, line("ADDED", pod("b", "5"))]]]
    async with Followed([page("3")], watches) as followed:
        await followed.until(lambda f: f.state.version == "5")

        assert followed.state.unknown == 3
        assert followed.state.relists == {"start": 1, "unknown": 1}
        assert followed.said("pod.observed") == ["b/5"]


@pytest.mark.parametrize("gone", [error(410), GoneError(), error(400)])
async def test_a3_a_version_that_is_gone_is_listed_for_and_the_absent_are_closed(gone):
    pages = [page("3", pod("a", "3"), pod("b", "2")), page("9", pod("b", "2"))]
    async with Followed(pages, [[gone]]) as followed:
        await followed.until(lambda f: len(f.lists()) == 2)
        await followed.until(lambda f: f.cluster.asked[-1] == ("watch", "9"))

        assert followed.state.relists == {"start": 1, "gone": 1}
        assert followed.lists()[1]["uids"] == ["b"]


@pytest.mark.parametrize(
    "trouble",
    [
        error(500),
        error(429, details={"retryAfterSeconds": 0}),
        ClusterUnavailableError(delay_seconds=0),
    ],
)
async def test_a4_overload_and_outage_wait_and_go_on_from_the_last_version(trouble):
    watches = [[line("ADDED", pod("a", "4")), trouble], [line("ADDED", pod("b", "5"))]]
    async with Followed([page("3")], watches) as followed:
        await followed.until(lambda f: f.state.version == "5")

        assert followed.cluster.asked == [("list", ""), ("watch", "3"), ("watch", "4")]
        assert followed.state.trouble == ""


@pytest.mark.parametrize("trouble", [error(403), error(401)])
async def test_a4_a_permission_that_stays_missing_ends_the_loop_with_its_name(trouble):
    async with Followed([page("3")], [[trouble]] * 100) as followed:
        with pytest.raises(PermissionDeniedError) as caught:
            await followed.until(lambda f: False)

        assert caught.value.permission == "watch pods"


async def test_a4_a_permission_that_comes_back_in_time_ends_nothing():
    watches = [[error(403)], [error(401)], [line("ADDED", pod("a", "4"))]]
    async with Followed([page("3")], watches) as followed:
        await followed.until(lambda f: f.state.version == "4")

        assert not followed.task.done()


async def test_a5_a_bookmark_moves_the_version_forward_only():
    bad = [line("BOOKMARK", {}), line("BOOKMARK", {"metadata": {"resourceVersion": 9}})]
    watches = [[bookmark("50"), bookmark("5"), *bad, bookmark(""), None]]
    async with Followed([page("3")], watches) as followed:
        await followed.until(lambda f: len(f.cluster.asked) == 3)

        assert followed.cluster.asked[-1] == ("watch", "50")
        assert len(followed.transport.events) == followed.state.relists.total() == 1


async def test_a6_a_change_of_an_unknown_uid_is_said_like_a_new_one_and_counted_as_late():
    watches = [[line("MODIFIED", pod("a", "4")), line("MODIFIED", pod("a", "5"))]]
    async with Followed([page("3", pod("b", "3"))], watches) as followed:
        await followed.until(lambda f: f.state.version == "5")

        assert followed.said("pod.observed") == ["b/3", "a/4", "a/5"]
        assert (followed.state.late, followed.state.relists) == (1, {"start": 1})


async def test_a6_what_begins_with_a_list_or_with_added_is_not_late():
    watches = [[line("ADDED", pod("a", "4")), line("MODIFIED", pod("b", "5"))]]
    async with Followed([page("3", pod("b", "3"))], watches) as followed:
        await followed.until(lambda f: f.state.version == "5")

        assert followed.state.late == 0


async def test_a7_the_same_version_twice_is_said_once():
    twice = [line("ADDED", pod("a", "4"))] * 2
    async with Followed([page("3")], [[twice, line("ADDED", pod("b", "5"))]]) as followed:
        await followed.until(lambda f: f.state.version == "5")

        assert followed.said("pod.observed") == ["a/4", "b/5"]
        assert (followed.state.skipped, followed.state.stale) == (1, 0)


async def test_a8_a_delete_that_is_told_twice_is_said_once():
    gone = line("DELETED", pod("a", "5"))
    async with Followed([page("3", pod("a", "3"))], [[gone, gone, bookmark("6")]]) as followed:
        await followed.until(lambda f: f.state.version == "6")

        assert followed.said("pod.") == ["pod.observed/a/3", "pod.vanished/a/5"]
        assert (followed.state.stale, followed.state.late) == (1, 0)


async def test_a8_a_delete_before_its_add_is_said_and_the_add_is_stale():
    watches = [[line("DELETED", pod("a", "5")), line("ADDED", pod("a", "4")), bookmark("6")]]
    async with Followed([page("3")], watches) as followed:
        await followed.until(lambda f: f.state.version == "6")

        assert followed.said("pod.") == ["pod.vanished/a/5"]
        assert (followed.state.stale, followed.state.late) == (1, 1)


async def test_a9_a_new_uid_under_an_old_name_is_another_object():
    watches = [[line("ADDED", pod("new", "5", name="web"))]]
    async with Followed([page("3", pod("old", "3", name="web"))], watches) as followed:
        await followed.until(lambda f: f.state.version == "5")
        followed.cluster.pages.append(page("6", pod("new", "5", name="web")))
        followed.cluster.pages.popleft()
        followed.reflector.relist("test")
        await followed.until(lambda f: len(f.lists()) == 2)

        assert followed.said("pod.observed") == ["old/3", "new/5"]
        assert followed.lists()[1]["uids"] == ["new"]


async def test_a10_an_object_without_identity_is_parked_and_the_stream_goes_on():
    chunk = [line("ADDED", pod("", "4")), line("ADDED", pod("b", "5"))]
    async with Followed([page("3")], [[chunk]]) as followed:
        await followed.until(lambda f: f.state.relists["refused"])

        assert followed.said("pod.observed") == ["b/5"]
        assert len(followed.said("observation.refused")) == 1


async def test_a11_a_list_without_a_version_says_nothing_about_absence():
    async with Followed([page("", pod("a", "3")), page("4", pod("a", "3"))]) as followed:
        await followed.until(lambda f: f.lists())

        assert followed.state.relists == {"start": 1, "partial": 1}
        assert followed.cluster.asked[:2] == [("list", ""), ("list", "")]


async def test_a12_versions_that_go_back_are_ignored_counted_and_at_last_listed_for():
    back = [line("MODIFIED", pod("a", str(n))) for n in (5, 6, 7)]
    async with Followed([page("50", pod("a", "50"))], [back]) as followed:
        await followed.until(lambda f: f.state.relists["stale"])

        assert followed.said("pod.observed") == ["a/50"]
        assert (followed.state.stale, followed.state.version) == (3, "50")


async def test_a13_a_list_that_expires_between_its_pages_closes_nobody_and_begins_again():
    first = page("3", pod("a", "3"), following="next")
    pages = [first, GoneError(), first, GoneError(), page("5", pod("a", "3"), pod("b", "4"))]
    async with Followed(pages) as followed:
        await followed.until(lambda f: f.lists())

        assert followed.state.relists == {"start": 1, "expired": 2}
        assert followed.lists()[0]["uids"] == ["a", "b"]
        assert followed.cluster.limits == [500, 500, 500, 500, 0]


async def test_a14_an_emptied_list_closes_nobody_until_a_second_one_agrees():
    pages = [page("30", *MANY), page("40"), page("41")]
    settings = ReflectorSettings(linger_seconds=0, apart_seconds=0, wait_seconds=0.2)
    async with Followed(pages, settings=settings) as followed:
        await followed.until(lambda f: f.lists())
        followed.reflector.relist("test")
        await followed.until(lambda f: f.state.relists["test"] and len(f.cluster.asked) >= 4)

        assert len(followed.lists()) == 1
        await followed.until(lambda f: len(f.lists()) == 2)
        assert followed.state.relists == {"start": 1, "test": 1, "emptied": 1}
        assert (followed.lists()[1]["uids"], followed.lists()[1]["resource_version"]) == ([], "41")


async def test_a14_an_emptied_list_that_is_not_confirmed_closes_nobody():
    known = {f"u{n:02}": str(n) for n in range(1, 31)}
    async with Followed([page("40"), page("41", *MANY)], known=known) as followed:
        await followed.until(lambda f: f.lists())

        assert len(followed.lists()[0]["uids"]) == 30
        assert followed.said("pod.observed") == []


@pytest.mark.parametrize(
    "partial",
    [
        [page("3", pod("a", "3"), remaining=7)],
        [page("3", pod("a", "3"), following="next"), page("4", pod("c", "2"))],
        [page("3", pod("a", "3"), following="next"), MalformedJsonError()],
        [page("3", pod("a", "3"), following="next"), ClusterUnavailableError(delay_seconds=0)],
        [page("3", b'{"metadata":{}}')],
    ],
    ids=["truncated", "of two versions", "no list", "broken off", "holding an item without uid"],
)
async def test_a15_a_partial_list_closes_nobody(partial):
    async with Followed([*partial, page("5", pod("a", "3"), pod("b", "4"))]) as followed:
        await followed.until(lambda f: f.lists())

        assert [one["resource_version"] for one in followed.lists()] == ["5"]


async def test_an_item_that_cannot_be_translated_is_said_and_is_still_there():
    bad = pod("bad", "3", labels=7)
    async with Followed([page("3", bad, pod("good", "2"))]) as followed:
        await followed.until(lambda f: f.lists())
        await followed.settle()

        assert followed.lists()[0]["uids"] == ["bad", "good"]
        assert followed.state.refused == 1
        assert followed.state.relists == {"start": 1}


async def test_a_list_older_than_the_watch_is_not_believed_until_a_second_one_agrees():
    pages = [page("50", pod("a", "50")), page("40"), page("41", pod("c", "41"))]
    async with Followed(pages) as followed:
        await followed.until(lambda f: f.lists())
        followed.reflector.relist("test")
        await followed.until(lambda f: len(f.lists()) == 2)

        assert followed.state.relists == {"start": 1, "test": 1, "older": 1}
        assert (followed.state.version, followed.lists()[1]["uids"]) == ("41", ["c"])


async def test_a27_a_silent_watch_is_left_and_taken_up_from_its_version_after_a_list():
    watches = [[line("ADDED", pod("a", "4"))], [line("ADDED", pod("b", "6"))]]
    settings = ReflectorSettings(linger_seconds=0, silence_seconds=0.05)
    pages = [page("3"), page("5", pod("a", "4"))]
    async with Followed(pages, watches, settings=settings) as followed:
        await followed.until(lambda f: f.state.version == "6")

        assert followed.cluster.asked[-1] == ("watch", "4")
        assert followed.state.relists == {"start": 1, "silence": 1}
        assert followed.said("pod.observed") == ["a/4", "b/6"]


async def test_a29_a_broken_connection_goes_on_from_the_last_whole_line():
    watches = [[line("ADDED", pod("a", "4")), ClusterUnavailableError(delay_seconds=0)]]
    async with Followed([page("3")], watches) as followed:
        await followed.until(lambda f: len(f.cluster.asked) == 3)

        assert followed.cluster.asked[-1] == ("watch", "4")
        assert followed.state.relists == {"start": 1}


async def test_a30_two_reflectors_say_one_object_version_once():
    transport = MemoryTransport()
    pages, watches = [page("3", pod("a", "3"))], [[line("DELETED", pod("a", "4"))]]
    async with (
        Followed(pages, watches, transport=transport) as one,
        Followed(pages, watches, transport=transport) as other,
    ):
        await one.until(lambda f: f.state.version == other.state.version == "4")

    assert one.said("pod.") == ["pod.observed/a/3", "pod.vanished/a/4"]


async def test_what_happened_before_a_periodic_list_is_told_by_the_watch_all_the_same():
    watches = [[bookmark("4")], [line("MODIFIED", pod("a", "5")), line("DELETED", pod("a", "6"))]]
    pages = [page("3", pod("a", "3")), page("7")]
    settings = ReflectorSettings(linger_seconds=0, relist_seconds=0.05)
    async with Followed(pages, watches, settings=settings) as followed:
        await followed.until(lambda f: f.said("pod.vanished"))

        assert followed.cluster.asked[3:4] == [("watch", "4")]
        assert followed.said("pod.")[-2:] == ["pod.observed/a/5", "pod.vanished/a/6"]


async def test_a_node_is_said_when_it_changes_and_not_when_its_heart_beats():
    beats = [line("MODIFIED", node("4")), line("MODIFIED", node("5", ready="False"))]
    async with Followed([page("3", node("3"))], [beats], source=NODES) as followed:
        await followed.until(lambda f: f.state.version == "5")

        assert followed.said("node.observed") == ["n/3", "n/5"]
        assert (followed.state.skipped, followed.lists()) == (1, [])


class Stubborn(MemoryTransport):
    """Fails the first publishes, some of them after it has stored the events."""

    failures = [BusUnavailableError(delay_seconds=0), PublishUnknownError(delay_seconds=0)] * 2

    def __init__(self):
        super().__init__()
        self.failing = iter(self.failures)

    async def publish(self, events, *, expect=None):
        failure = next(self.failing, None)
        if not isinstance(failure, BusUnavailableError):
            sequences = await super().publish(events, expect=expect)
        if failure is not None:
            raise failure
        return sequences


async def test_nothing_is_lost_or_doubled_while_the_bus_is_away():
    watches = [[line("ADDED", pod("a", "4"))]]
    pages = [page("3", pod("b", "3"))]
    async with Followed(pages, watches, transport=Stubborn()) as followed:
        await followed.until(lambda f: f.state.version == "4" and f.state.published == 3)

        assert followed.said("pod.observed") == ["b/3", "a/4"]
        assert followed.state.trouble == ""


async def test_large_windows_are_published_in_parts():
    things = [pod(f"u{n:04}", str(n)) for n in range(1, 1201)]
    async with Followed([page("2000", *things)], settings=QUICK) as followed:
        await followed.until(lambda f: len(f.lists()) == 2)

        assert len(followed.said("pod.observed")) == 1200
        assert [len(one["uids"]) for one in followed.lists()] == [1000, 200]


@pytest.mark.parametrize(("is_urgent", "least_seconds"), [(True, 0.0), (False, 0.5)])
async def test_what_somebody_waits_for_is_published_again_where_that_takes_little(
    is_urgent, least_seconds
):
    quiet = msgspec.structs.replace(
        QUICK, linger_seconds=0.5, silence_seconds=5.0, is_urgent=is_urgent
    )
    lines = [line("ADDED", pod("a", "2")), line("ADDED", pod("b", "3"))]
    began = asyncio.get_running_loop().time()
    async with Followed([page("1")], [lines], settings=quiet) as run:
        await run.until(lambda run: len(run.said("pod.observed")) == 2)

    assert least_seconds <= asyncio.get_running_loop().time() - began < least_seconds + 0.1
