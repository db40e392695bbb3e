"""The list of every ten minutes shows who is there, by metadata alone; what an object is, other lists show."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.kube.watch import records
from bus.kube.watch.schedule import ListSchedule
from tests.bus.kube.watch.fakes import QUICK, Followed, bookmark, line, page, pod

pytestmark = pytest.mark.simulated

SOON = msgspec.structs.replace(QUICK, relist_seconds=1.0, silence_seconds=50.0)


def bare(uid, version):
    """An object of which only metadata is said."""
    return {"metadata": pod(uid, version)["metadata"]}


async def test_a_periodic_list_of_metadata_says_who_is_gone_and_nothing_twice():
    pages = [page("3", pod("a", "3"), pod("b", "2")), page("9", bare("a", "3"))]
    async with Followed(pages, settings=SOON) as followed:
        await followed.until(lambda f: len(f.lists()) >= 2)

        assert followed.cluster.lean[:2] == [False, True]
        assert [one["uids"] for one in followed.lists()[:2]] == [["a", "b"], ["a"]]
        assert followed.said("pod.observed") == ["a/3", "b/2"]


@pytest.mark.parametrize("missed", [bare("a", "5"), bare("b", "5")], ids=["changed", "new"])
async def test_what_the_watch_does_not_tell_by_the_lists_version_has_objects_listed(missed):
    watches = [[], [bookmark("6")]]
    there = pod(missed["metadata"]["uid"], "5")
    pages = [page("3", pod("a", "3")), page("6", bare("a", "3"), missed), page("7", there)]
    async with Followed(pages, watches, settings=SOON) as followed:
        await followed.until(lambda f: f.state.relists["missed"])
        await followed.until(lambda f: len(f.said("pod.observed")) == 2)

        assert followed.cluster.lean[:3] == [False, True, False]
        assert followed.said("pod.observed")[1] == f"{missed['metadata']['uid']}/5"


@pytest.mark.parametrize(
    "told",
    [line("MODIFIED", pod("a", "5")), line("DELETED", pod("a", "5"))],
    ids=["changed", "gone meanwhile"],
)
async def test_what_the_watch_tells_after_the_list_has_no_other_list_follow(told):
    watches = [[], [told, bookmark("6"), bookmark("7")]]
    pages = [page("3", pod("a", "3")), page("6", bare("a", "5"))]
    async with Followed(pages, watches, settings=SOON) as followed:
        await followed.until(lambda f: f.state.version == "7")
        await followed.until(lambda f: f.state.relists["period"] >= 2)

        assert followed.state.relists.keys() == {"start", "period"}
        assert all(followed.cluster.lean[1:])


@pytest.mark.parametrize("watch", [[], [bookmark("4")] * 500], ids=["silent", "behind"])
async def test_a_watch_that_does_not_come_so_far_has_objects_listed(watch):
    settings = msgspec.structs.replace(SOON, silence_seconds=2.0)
    pages = [page("3", pod("a", "3")), page("6", bare("a", "5")), page("7", pod("a", "5"))]
    async with Followed(pages, [[], watch], settings=settings) as followed:
        await followed.until(lambda f: len(f.cluster.lean) >= 4)

        assert followed.cluster.lean[:4] == [False, True, False, True]
        assert followed.said("pod.observed") == ["a/3", "a/5"]
        assert [one["resource_version"] for one in followed.lists()][:2] == ["3", "7"]


async def test_a_list_of_metadata_is_said_behind_all_that_it_is_about():
    """Who reads it takes the object for what was observed of it before."""
    watches = [[], [line("MODIFIED", pod("a", "5")), line("ADDED", pod("b", "7"))]]
    pages = [page("3", pod("a", "3")), page("6", bare("a", "5")), page("9", bare("a", "5"))]
    async with Followed(pages, watches, settings=SOON) as followed:
        await followed.until(lambda f: len(f.lists()) >= 2)

        assert followed.said("pod.observed") == ["a/3", "a/5", "b/7"]
        assert [id.split("/")[0] for id in followed.said()][:5] == [
            "pod.observed", "pods.listed", "pod.observed", "pod.observed", "pods.listed",
        ]  # fmt: skip
        assert followed.lists()[1]["uids"] == ["a"]
        # What was made since is known still.
        await followed.until(lambda f: len(f.lists()) >= 3)
        assert followed.said("pod.observed") == ["a/3", "a/5", "b/7"]


async def test_a_version_older_than_the_one_that_was_said_has_objects_listed():
    """A store that was put back to an older state, and counts on."""
    pages = [page("5", pod("a", "5")), page("6", bare("a", "4")), page("7", pod("a", "4"))]
    async with Followed(pages, settings=SOON) as followed:
        await followed.until(lambda f: len(f.lists()) >= 2)

        assert followed.state.relists["contradicted"] == 1
        assert [one["resource_version"] for one in followed.lists()[:2]] == ["5", "7"]
        assert followed.said("pod.observed") == ["a/5", "a/4"]


async def test_while_an_object_is_in_no_row_every_list_shows_objects():
    hidden = {"metadata": {"uid": "h", "name": "hidden", "namespace": "x", "resourceVersion": 5}}
    async with Followed([page("3", hidden)], settings=SOON) as followed:
        await followed.until(lambda f: f.state.relists["period"] >= 2)

        assert not any(followed.cluster.lean)
        assert followed.state.unread_count == 1


@pytest.mark.parametrize(
    ("lean", "reason"),
    [
        (page("6", {"metadata": {"uid": "a"}}), "partial"),
        (page("6", {"metadata": {"uid": "a/b", "resourceVersion": "3"}}), "partial"),
        (page("6", b'"what"'), "partial"),
        (page("2", bare("a", "2")), "older"),
    ],
)
async def test_a_list_of_metadata_that_cannot_be_believed_closes_nobody(lean, reason):
    pages = [page("5", pod("a", "3"), pod("b", "4")), lean, page("7", pod("a", "3"), pod("b", "4"))]
    async with Followed(pages, settings=SOON) as followed:
        await followed.until(lambda f: len(f.lists()) >= 2)

        assert followed.state.relists[reason] == 1
        assert followed.cluster.lean[:3] == [False, True, False]
        assert [one["uids"] for one in followed.lists()[:2]] == [["a", "b"]] * 2


@given(
    st.binary(max_size=60)
    | st.recursive(
        st.none() | st.integers() | st.floats() | st.text(max_size=200),
        lambda inner: st.dictionaries(
            st.sampled_from(["metadata", "uid", "resourceVersion"]), inner
        ),
    ).map(lambda value: json.dumps(value).encode())
)
def test_an_item_has_a_uid_and_a_version_or_neither(raw):
    uid, version = records.version_of(raw)

    assert bool(uid) == bool(version)
    assert "/" not in uid + version


async def test_a_list_that_was_proven_leaves_only_what_others_want():
    schedule = ListSchedule(SOON)
    schedule.begin()
    schedule.want("missed", 75.0)
    schedule.proven()

    assert (schedule.reason, schedule.rest_seconds) == ("period", float("inf"))

    schedule.want("settle", 9.0)
    schedule.proven()

    assert schedule.reason == "settle" and schedule.rest_seconds <= 9.0
