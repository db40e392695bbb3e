"""Decisions that were stored together are read as if each stood alone."""

import msgspec
import pytest

from bus.clock import SystemClock
from bus.events.admissions import AdmissionDecided, AdmissionsGrouped, entries
from bus.memory import MemoryTransport
from projections.quota_trees import TreeOverlay
from reactors.engine.journals import LARGEST_GROUP, Journals


def decision(number, name="w"):
    return AdmissionDecided(
        number=number, quota="q", uid=f"u{number}", kind="Job", namespace="ns", name=name,
        verdict="refused", reason="quota-unknown",
    )  # fmt: skip


async def stored(count, name="w", times=None):
    """A journal with these decisions, appended at once; its events, and the tree of who appended."""
    transport = MemoryTransport()
    journals = Journals(transport, SystemClock(), cluster="c", source="test")
    draft = TreeOverlay(journals.tree("t"))
    for number in range(1, count + 1):
        draft.add(decision(number, name), times[number - 1] if times else 7)
    await journals.append(draft, [f"id{number}" for number in range(1, count + 1)])
    return transport.events, journals.tree("t")


async def test_decisions_of_one_moment_are_one_event():
    events, tree = await stored(5)

    assert [event.type for event in events] == [AdmissionsGrouped.wire_type]
    assert (tree.number, tree.sequence) == (5, 1)


async def test_a_group_is_read_as_events_of_its_sequence_each_with_its_own_id():
    events, _ = await stored(3)
    found = entries(events[0])

    assert [one.id for one in found] == ["c/id1", "c/id2", "c/id3"]
    assert {(one.sequence, one.time_us, one.key) for one in found} == {(1, 7, "t")}
    assert [AdmissionDecided.read(one) for one in found] == [decision(n) for n in (1, 2, 3)]


async def test_a_single_decision_is_no_group():
    events, _ = await stored(1)

    assert [event.type for event in events] == ["admission.decided"]


async def test_decisions_of_two_moments_are_two_events():
    events, _ = await stored(4, times=[1, 1, 2, 2])

    assert [len(entries(event)) for event in events] == [2, 2]


async def test_a_group_fits_a_message():
    events, tree = await stored(200, name="w" * 1000)

    assert len(events) > 1
    assert max(len(event.body) for event in events) < LARGEST_GROUP + 2_000
    assert tree.number == 200


async def test_who_reads_a_group_has_the_tree_of_who_appended_it():
    events, _ = await stored(5)
    reader = Journals(MemoryTransport(), SystemClock(), cluster="c", source="other")
    seen = []
    reader.listen(seen.append)
    reader.apply(events)
    reader.apply(events)

    assert (reader.tree("t").number, reader.tree("t").sequence, reader.parked) == (5, 1, 0)
    assert [event.type for event in seen[:5]] == ["admission.decided"] * 5


@pytest.mark.parametrize("body", [b"{}", b'{"ids":["a"],"decisions":[]}', b"[]"])
async def test_e11_an_unreadable_group_is_passed_over(body):
    events, _ = await stored(2)
    bad = msgspec.structs.replace(events[0], body=body, sequence=9)
    reader = Journals(MemoryTransport(), SystemClock(), cluster="c", source="other")
    reader.apply([*events, bad])

    assert reader.tree("t").number == 2
    assert (reader.tree("t").sequence, reader.parked) == (9, 1)


async def test_entries_that_we_appended_are_not_decoded_once_more(monkeypatch):
    transport = MemoryTransport()
    journals = Journals(transport, SystemClock(), cluster="c", source="test")
    draft = TreeOverlay(journals.tree("t"))
    for number in (1, 2):
        draft.add(decision(number), 7)
    await journals.append(draft, ["id1", "id2"])
    seen = []
    journals.listen(seen.append)
    expected = list(entries(transport.events[0]))
    monkeypatch.setattr("reactors.engine.journals.entries", None)
    journals.apply(transport.events)

    assert seen == expected
    assert journals.parked == 0
