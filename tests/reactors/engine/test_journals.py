"""Journals of several clusters and processes in one history."""

from importlib import import_module

import msgspec
import pytest

from bus.clock import SystemClock
from bus.errors import BusUnavailableError, WrongExpectationError
from bus.events.admissions import QuotaDeclared, QuotaSpec
from bus.memory import MemoryTransport
from bus.waiting import beside
from projections.quota_trees import TreeOverlay
from reactors.engine import journals as journals_module
from reactors.engine.journals import Journals

#: The module; a function of the package has its name.
vocabulary = import_module("bus.events.vocabulary")


def declared(uid):
    return QuotaDeclared(
        number=1, quota="q", uid=uid, kind="BizGroupResourceQuota", parent="", stage="observed",
        verdict="adopted", reason="seen", spec=QuotaSpec(hard={"limits.cpu": 1}),
    )  # fmt: skip


async def appended(transport, cluster, uid):
    journals = Journals(transport, SystemClock(), cluster=cluster, source="keeper")
    draft = TreeOverlay(journals.tree("biz/q"))
    draft.add(declared(uid), 1)
    await journals.append(draft, ["keeper/biz/q/1/0"])
    return journals


async def test_trees_of_one_name_in_two_clusters_are_two_trees():
    transport = MemoryTransport()
    one = await appended(transport, "c1", "a")
    other = await appended(transport, "c2", "b")

    assert [event.cluster for event in transport.events] == ["c1", "c2"]
    assert (one.tree("biz/q").nodes["q"].uid, other.tree("biz/q").nodes["q"].uid) == ("a", "b")


async def test_what_a_process_appended_itself_is_not_taken_in_twice():
    transport = MemoryTransport()
    journals = await appended(transport, "c1", "a")
    journals.apply(transport.events)

    assert (journals.tree("biz/q").number, journals.parked) == (1, 0)
    assert journals.sequence == 1


async def test_catching_up_reads_to_the_end_of_the_history_or_says_that_it_is_behind(monkeypatch):
    transport = MemoryTransport()
    await appended(transport, "c1", "a")
    journals = Journals(transport, SystemClock(), cluster="c1", source="webhook/1")
    monkeypatch.setattr(journals_module, "CATCH_UP_SECONDS", 0.01)
    with pytest.raises(BusUnavailableError):
        await journals.caught_up()
    monkeypatch.undo()
    async with beside(journals.follow()):
        await journals.caught_up()

    assert journals.sequence == 1


async def test_what_a_process_appended_itself_is_not_decoded_by_those_who_listen(monkeypatch):
    """Several folds read each entry, and every review makes one."""
    transport, said = MemoryTransport(), []
    journals = await appended(transport, "c1", "a")
    journals.listen(lambda event: said.append(QuotaDeclared.read(event)))
    monkeypatch.setattr(vocabulary, "_decoder", None)
    journals.apply(transport.events)

    assert said == [declared("a")]


async def test_what_another_process_appended_is_decoded_once(monkeypatch):
    transport, said, decoded = MemoryTransport(), [], []
    await appended(transport, "c1", "a")
    journals = Journals(transport, SystemClock(), cluster="c1", source="webhook")
    for _ in range(3):
        journals.listen(lambda event: said.append(QuotaDeclared.read(event)))
    decoder = vocabulary._decoder
    monkeypatch.setattr(vocabulary, "_decoder", lambda fact: decoded.append(fact) or decoder(fact))
    journals.apply(transport.events)

    assert said == [declared("a")] * 3
    assert decoded == [QuotaDeclared]


@pytest.mark.parametrize("by", ["this process", "another"])
async def test_a_draft_on_which_somebody_decided_meanwhile_is_not_stored(by):
    """Its numbers are given. Queues decide on all trees at one look, and store one after the other."""
    transport = MemoryTransport()
    journals = await appended(transport, "c1", "a")
    journals.apply(transport.events)
    tree = journals.tree("biz/q")
    drafts = [TreeOverlay(tree), TreeOverlay(tree)]
    for draft, uid in zip(drafts, ("b", "c"), strict=True):
        draft.add(msgspec.structs.replace(declared(uid), number=draft.number), 2)
    who = journals
    if by == "another":
        who = Journals(transport, SystemClock(), cluster="c1", source="webhook")
        who.apply(transport.events)
        drafts[0].tree = who.tree("biz/q")
    await who.append(drafts[0], ["first"])
    with pytest.raises(WrongExpectationError):
        await journals.append(drafts[1], ["second"])

    assert [event.id for event in transport.events] == ["c1/keeper/biz/q/1/0", "c1/first"]
    journals.apply(transport.events[1:])
    assert (tree.number, tree.nodes["q"].uid, journals.parked) == (2, "b", 0)
