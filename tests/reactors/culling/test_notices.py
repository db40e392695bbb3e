"""Telling an address outside of each warning: beside the warning and the stop, never in their way."""

import asyncio
from functools import partial

import pytest

from bus.errors import BusUnavailableError
from bus.events.decisions import NoticeSettled, Warn
from bus.events.policies import PauseChanged
from bus.notify import Delivery, tell
from reactors.culling.effectors import Notices
from reactors.culling.effectors.notices import AT_ONCE
from reactors.culling.reactor import reactor
from reactors.engine.verify import rederive
from tests.bus.receiving import OK, receiver, receiving
from tests.factories import CLUSTER, said, us
from tests.reactors.culling.scene import Notebooks


class Outside:
    """Takes what is told; ``fault`` is what it answers."""

    def __init__(self, fault=""):
        self.got = []
        self.fault = fault

    async def __call__(self, body):
        self.got.append(body)
        return Delivery(self.fault, 3 if self.fault else 1)


async def warned(count=1, mode="on"):
    at = Notebooks()
    await at.idle(count, mode=mode)
    await at.pass_time(1_810)
    assert count == len(at.decisions(Warn))
    return at


def notices(at, outside, transport=None):
    return Notices(at.runner.replica, transport or at.transport, at.clock, outside)


def settled(at):
    events = [e for e in at.transport.events if e.type == NoticeSettled.wire_type]
    return [(f.decision, f.result, f.message, f.attempts) for f in map(NoticeSettled.read, events)]


async def rounds(at, notices, count=3):
    for _ in range(count):
        await notices.round()
        await at.read()


async def test_each_warning_is_told_once_and_that_is_recorded():
    at, outside = await warned(2), Outside()
    await rounds(at, notices(at, outside))
    ids = [warn.id for warn in at.decisions(Warn)]

    assert ids == [body["decision"] for body in outside.got]
    assert [(id, "told", "", 1) for id in ids] == settled(at)


async def test_what_is_said_tells_whose_when_why_and_how_to_snooze():
    at, outside = await warned(), Outside()
    await notices(at, outside).round()
    (warn,) = at.decisions(Warn)

    assert [
        {
            "decision": warn.id,
            "kind": "Notebook",
            "namespace": "ns",
            "name": "Notebook-nb-1",
            "culls_at": "2026-10-26T08:45:00Z",
            "reason": "idle",
            "message": "Nobody used it since 2026-10-26T08:00:00Z; the limit is 1800 s.",
            "last_activity": "2026-10-26T08:00:00Z",
            "snooze": "kubectl annotate --overwrite -n ns notebook Notebook-nb-1 "
            "bursar.io/notebook-snoozed-until=<RFC 3339 time>",
        }
    ] == outside.got


async def test_a_failure_is_recorded_and_changes_nothing_of_warning_and_stop():
    at, outside = await warned(), Outside("http_500")
    await rounds(at, notices(at, outside))
    (warn,) = at.decisions(Warn)
    await at.pass_time(1_000)

    assert ([(warn.id, "failed", "http_500", 3)], 1) == (settled(at), len(outside.got))
    assert ["nb-1"] == at.culled()


async def test_a_call_that_hangs_delays_neither_other_warnings_nor_the_stop():
    at, hangs = await warned(), asyncio.Event()

    async def outside(body):
        await hangs.wait()
        return Delivery("timed_out", 3)

    telling = asyncio.create_task(notices(at, outside).round())
    await asyncio.sleep(0)
    await at.pass_time(1_000)
    culled = at.culled()
    hangs.set()
    await telling

    assert ["nb-1"] == culled


async def test_after_a_restart_nobody_is_told_again():
    at, outside = await warned(), Outside()
    await rounds(at, notices(at, outside))
    await rounds(at, notices(at, outside))

    assert 1 == len(outside.got)


async def test_before_it_is_read_back_nobody_is_told_again():
    at, outside = await warned(), Outside()
    found = notices(at, outside)
    await found.round()
    await found.round()

    assert (1, 1) == (len(outside.got), len(settled(at)))


async def test_while_the_bus_is_away_the_call_is_not_made_again():
    at, outside = await warned(), Outside()

    class Away:
        fails = True

        async def publish(self, events, expect=None):
            if self.fails:
                raise BusUnavailableError()
            return await at.transport.publish(events, expect=expect)

    away = Away()
    found = notices(at, outside, away)
    with pytest.raises(BusUnavailableError):
        await found.round()
    away.fails = False
    await rounds(at, found)

    assert (1, 1) == (len(outside.got), len(settled(at)))


@pytest.mark.simulated
async def test_a_round_that_cannot_record_one_call_does_not_leave_the_others_behind():
    at, hangs, got = await warned(2), asyncio.Event(), []
    slow = at.decisions(Warn)[0].id

    async def outside(body):
        got.append(body["decision"])
        if body["decision"] == slow:
            await hangs.wait()
        return Delivery("", 1)

    class Away:
        fails = True

        async def publish(self, events, expect=None):
            if self.fails:
                raise BusUnavailableError()
            return await at.transport.publish(events, expect=expect)

    away = Away()
    found = notices(at, outside, away)
    first = asyncio.create_task(found.round())
    await asyncio.sleep(0.01)
    # As ``run`` goes on when a round is over.
    again = [asyncio.create_task(found.round())] if first.done() else []
    await asyncio.sleep(0.01)
    hangs.set()
    await asyncio.gather(*again, return_exceptions=True)
    with pytest.raises(BusUnavailableError):
        await first
    away.fails = False
    await rounds(at, found)

    assert (sorted({*got}), 2) == (sorted(got), len(settled(at)))


@pytest.mark.parametrize("mode", ["shadow", "off"])
async def test_without_effects_nobody_is_told(mode):
    at, outside = await warned(mode="shadow"), Outside()
    await at.policy(mode)
    await rounds(at, notices(at, outside))

    assert [] == outside.got


async def test_a_pause_holds_it():
    at, outside = await warned(), Outside()
    await at.say(said(PauseChanged(is_paused=True, author="me"), key="r", id="p", at=at.at()))
    await rounds(at, notices(at, outside))

    assert [] == outside.got


async def held_by_a_pause(at):
    await at.say(said(PauseChanged(is_paused=True, author="me"), key="r", id="p", at=at.at()))


async def taken_back(at):
    at.kernels = {uid: {"active_us": us(1_805)} for uid in at.kernels}
    await at.pass_time(200)


@pytest.mark.simulated
@pytest.mark.parametrize("change", [held_by_a_pause, taken_back])
async def test_what_waits_for_a_slow_call_is_not_told_of_any_more(change):
    at, hangs, got = await warned(AT_ONCE + 4), asyncio.Event(), []

    async def outside(body):
        got.append(body["decision"])
        await hangs.wait()
        return Delivery("", 1)

    telling = asyncio.create_task(notices(at, outside).round())
    await asyncio.sleep(0.01)
    await change(at)
    hangs.set()
    await telling

    assert (AT_ONCE, AT_ONCE) == (len(got), len(settled(at)))


async def test_of_a_warning_that_was_taken_back_nobody_is_told():
    at, outside = await warned(), Outside()
    at.kernels["nb-1"] = {"active_us": us(1_805)}
    await at.pass_time(200)
    await rounds(at, notices(at, outside))

    assert [] == outside.got


async def test_a_replay_decides_the_same_with_and_without_it():
    at = await warned()
    await rounds(at, notices(at, Outside()))
    await at.pass_time(1_000)
    found = rederive(lambda: at.transport.events, (reactor,), CLUSTER)

    assert (2, ()) == (found.same, found.mismatches)


async def test_over_http_a_receiver_that_fails_first_is_told_and_counted():
    at = await warned()
    async with receiving(b"HTTP/1.1 500 No\r\n\r\n", OK) as (port, got):
        await notices(at, partial(tell, receiver(port))).round()
    (warn,) = at.decisions(Warn)

    assert [warn.id, warn.id] == [body["decision"] for _, body in got]
    assert [(warn.id, "told", "", 2)] == settled(at)
