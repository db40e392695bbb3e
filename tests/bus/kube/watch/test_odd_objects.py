"""One object with bytes that strict readers refuse harms no other, of any kind that is followed."""

import pytest

from bus.errors import BursarError
from bus.kube.client import answers
from bus.kube.watch.poller import Poller
from bus.kube.watch.reflector import Reflector
from bus.sources.catalogue import SOURCES
from tests.bus.kube.watch.fakes import Followed
from tests.bus.kube.watch.odd_bytes import ODD, in_unread_fields, written
from tests.bus.sources.records import POLICY, record

pytestmark = pytest.mark.simulated

WATCHED = [source for source in SOURCES if source.polling is None]


def thing(uid, version="1"):
    """An object that every kind can be."""
    metadata = {"uid": uid, "name": uid, "namespace": "team-a", "resourceVersion": version}
    return {
        "metadata": metadata, "spec": {}, "status": {}, "timestamp": "2026-11-22T11:50:00Z",
        "window": "20s", "usage": {"cpu": "1"},
    }  # fmt: skip


def refused(uid, version="1"):
    """An object that has half a character in what is read of it."""
    found = thing(uid, version)
    found["metadata"]["labels"] = {"app": "@"}
    found["timestamp"] = "@"
    return written(found, ODD["lone surrogate"])


def objects(prefix):
    """One object for each odd value, between plain ones and a refused one."""
    odd = [
        in_unread_fields(thing(f"{prefix}-{number}", f"{number}"), value)
        for number, value in enumerate(ODD.values(), 10)
    ]
    uids = [f"{prefix}-{number}" for number in range(10, 10 + len(ODD))]
    first, last = f"{prefix}-first", f"{prefix}-last"
    bad = refused(f"{prefix}-refused", "50")
    return (
        [written(thing(first, "9")), *odd, bad, written(thing(last, "51"))],
        {first, *uids, last},
    )


def a_list(items, version=b"99"):
    """A page as the client reads it off an API server's answer."""
    metadata = b'"metadata":{"resourceVersion":"%b"}' % version
    return answers.page(b'{"kind":"List",%b,"items":[%b]}' % (metadata, b",".join(items)))


def observed(followed):
    """Uids of what was observed; of measurements the names."""
    events = [one for one in followed.transport.events if one.type.endswith(".observed")]
    return {one.id.split("/")[1].removeprefix("measured-") for one in events}


@pytest.mark.parametrize("source", SOURCES, ids=[source.name for source in SOURCES])
async def test_a_list_with_odd_objects_is_followed_and_its_refused_object_is_named(source):
    items, uids = objects("l")
    made = Reflector if source.polling is None else Poller
    async with Followed([a_list(items)], source=source, made=made) as followed:
        await followed.until(lambda f: f.state.listed_us)

        assert observed(followed) == uids | ({"l-refused"} if source.translate_partly else set())
        assert [name.rpartition("/")[2] for name in followed.state.unread] == ["l-refused"]
        if source.list_fact:
            listed = [one for one in followed.transport.events if one.type.endswith(".listed")]
            assert all(uid.encode() in listed[0].body for uid in (*uids, "l-refused"))


@pytest.mark.parametrize("source", WATCHED, ids=[source.name for source in WATCHED])
async def test_a_watch_with_odd_objects_is_followed_and_a_list_comes_for_its_refused_one(source):
    items, uids = objects("w")
    lines = [b'{"type":"ADDED","object":%b}' % item for item in items]
    async with Followed([a_list([], b"1"), a_list(items)], [[lines]], source=source) as followed:
        await followed.until(lambda f: f.state.unread_count)

        assert observed(followed) == uids | ({"w-refused"} if source.translate_partly else set())
        assert followed.state.relists["refused"] == followed.state.refused == 1


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_the_deletion_of_an_odd_object_is_read(odd):
    raw = in_unread_fields(thing("u", "7"), odd)
    for source in WATCHED:
        event = source.translate(record(raw, "DELETED"), POLICY)

        assert event.type.endswith(".vanished") and event.id.endswith("/u/7")


@pytest.mark.parametrize("odd", [odd for name, odd in ODD.items() if "brackets" not in name])
def test_an_odd_value_in_a_field_that_is_read_is_refused_with_its_reason(odd):
    for source in SOURCES:
        found = thing("u")
        found["metadata"]["name"] = "@"
        with pytest.raises(BursarError):
            source.translate(record(written(found, odd)), POLICY)
