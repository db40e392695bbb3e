"""What cannot be watched is read again and again: what is new is said once, and what is there no more."""

import msgspec
import pytest

from bus.errors import ClusterUnavailableError, PermissionDeniedError
from bus.kube.watch.contract import NotInstalledError
from bus.kube.watch.poller import Poller
from bus.sources.catalogue import NODE_USAGE
from tests.bus.kube.watch.fakes import QUICK, Followed, page

pytestmark = pytest.mark.simulated

STAMPS = [f"2026-11-22T11:5{n}:00Z" for n in range(5)]


def usage(name, at=0):
    return {
        "metadata": {"name": name},
        "timestamp": STAMPS[at],
        "window": "20s",
        "usage": {"cpu": "1"},
    }


def polled(*pages, **options):
    return Followed(list(pages), source=NODE_USAGE, made=Poller, **options)


def names(followed, kind):
    return [event.key for event in followed.transport.events if event.type == f"nodemetric.{kind}"]


async def test_each_measurement_is_said_once_and_what_is_not_listed_any_more_has_vanished():
    pages = [
        page("", usage("a"), usage("b")),
        page("", usage("a"), usage("b", 1)),
        page("", usage("b", 2)),
    ]
    async with polled(*pages) as followed:
        await followed.until(lambda f: names(f, "vanished"), 600)

        assert names(followed, "observed") == ["a", "b", "b", "b"]
        assert names(followed, "vanished") == ["a"]
        assert (
            followed.state.skipped >= 1 and followed.state.heard_us and not followed.state.trouble
        )
        assert {what for what, _ in followed.cluster.asked} == {"list"}


async def test_after_a_restart_only_news_is_said_and_who_went_meanwhile():
    version = "1795348200000000"
    known = {"measured-gone": version, "measured-a": "1"}
    async with polled(page("", usage("a")), known=known) as followed:
        await followed.until(lambda f: names(f, "vanished"))

        assert (names(followed, "observed"), names(followed, "vanished")) == (["a"], ["gone"])


async def test_an_empty_list_after_many_nodes_needs_a_second_that_agrees():
    many = page("", *(usage(f"n{n}") for n in range(30)))
    async with polled(many, page(""), many, page(""), page("")) as followed:
        await followed.until(lambda f: names(f, "vanished"), 900)

        assert len(names(followed, "vanished")) == 30 and len(followed.cluster.asked) == 5


@pytest.mark.parametrize(
    ("metadata", "ends"), [({}, []), ({"name": "a"}, ["b"]), ({"name": "c"}, ["a", "b"])]
)
async def test_a_refused_measurement_ends_every_node_but_its_own(metadata, ends):
    """Without a name it may be of any node."""
    broken = {"metadata": metadata, "timestamp": "soon"}
    pages = [page("", usage("a"), usage("b")), page("", broken), page("", broken)]
    async with polled(*pages) as followed:
        await followed.until(lambda f: len(f.cluster.asked) >= 3, 600)
        await followed.settle(0.1)

        assert names(followed, "vanished") == ends and followed.state.unread_count == 1


async def test_outages_pass_and_a_list_is_asked_for_at_once():
    troubles = [ClusterUnavailableError("away")] * 3
    async with polled(*troubles, page("", usage("a")), page("", usage("a", 1))) as followed:
        await followed.until(lambda f: names(f, "observed"))
        await followed.settle(0.1)
        followed.reflector.relist("settle")
        await followed.until(lambda f: len(names(f, "observed")) == 2, 5)

        assert followed.state.relists["asked"] == 1 and not followed.state.trouble


@pytest.mark.parametrize("error", [PermissionDeniedError("no"), NotInstalledError("absent")])
async def test_what_is_missing_for_long_ends_the_loop_with_its_reason(error):
    settings = msgspec.structs.replace(QUICK, denied_seconds=0.0)
    followed = polled(error, settings=settings)
    with pytest.raises(type(error)):
        await followed.reflector.run()
