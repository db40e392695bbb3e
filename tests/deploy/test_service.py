"""What ends `bursar up` by itself."""

import asyncio
import errno
import types

import pytest

from bus.errors import BusUnavailableError, UnsafeBusError
from bus.jetstream import GuardLine, Safety
from bus.waiting import beside
from deploy.runtime import guarding, service
from deploy.settings.shape import Settings

SAFE = [GuardLine("max_msgs", Safety.OK, "-1", "-1", "bus-max-msgs")]
CUT = [GuardLine("max_msgs", Safety.UNSAFE, "2", "-1", "bus-max-msgs")]


async def test_e14_a_bus_that_becomes_unsafe_is_noticed_within_a_minute_and_ends_it(monkeypatch):
    within = guarding.GUARD_SECONDS
    monkeypatch.setattr(guarding, "GUARD_SECONDS", 0.01)
    answers = iter([SAFE, SAFE, CUT])

    class Bus:
        async def guard(self, *_):
            return next(answers)

    opened = types.SimpleNamespace(transport=Bus(), monitor_urls=(), guard=[])
    async with asyncio.timeout(5):
        with pytest.raises(UnsafeBusError, match="max_msgs"):
            await guarding.guarded(opened)

    assert within <= 60
    assert opened.guard == CUT, "what metrics and `bursar status` show is the last look"
    assert next(answers, None) is None


async def test_a_bus_that_is_away_when_it_is_checked_ends_nobody(monkeypatch, caplog):
    """What was seen and is not stored yet would be lost with whoever watches."""
    monkeypatch.setattr(guarding, "GUARD_SECONDS", 0.01)
    answers = iter(
        [SAFE, BusUnavailableError(reason="cut"), BusUnavailableError(reason="cut"), CUT]
    )
    seen = []

    class Bus:
        given_up = False

        async def guard(self, *_):
            seen.append([line.state for line in opened.guard])
            if isinstance(found := next(answers), Exception):
                raise found
            return found

    opened = types.SimpleNamespace(transport=Bus(), monitor_urls=(), guard=[])
    async with asyncio.timeout(5):
        with pytest.raises(UnsafeBusError, match="max_msgs"):
            await guarding.guarded(opened)

    assert caplog.text.count("cannot be checked now") == 2


async def test_a_connection_that_will_never_come_back_ends_us(monkeypatch):
    monkeypatch.setattr(guarding, "GUARD_SECONDS", 0.01)

    class Bus:
        given_up = True

        async def guard(self, *_):
            raise BusUnavailableError(reason="cut")

    opened = types.SimpleNamespace(transport=Bus(), monitor_urls=(), guard=[])
    async with asyncio.timeout(5):
        with pytest.raises(BusUnavailableError, match="cut"):
            await guarding.guarded(opened)


async def test_a_bus_that_does_not_answer_for_a_while_ends_nobody_who_shows_how_far_it_is():
    """Three nodes choose a leader for seconds, and the connection is up all the time."""
    shown, enough = [], asyncio.Event()
    answers = iter([3, BusUnavailableError(reason="no leader"), 5])

    class Bus:
        connected = True

        async def head(self):
            if isinstance(found := next(answers), Exception):
                raise found
            return types.SimpleNamespace(last_sequence=found)

    class Screen:
        def show(self, progress):
            shown.append(progress.sequence)
            if len(shown) == 3:
                enough.set()

    opened = types.SimpleNamespace(transport=Bus())
    keeping = types.SimpleNamespace(sequence=1, filled=None, unsealed="")
    async with (
        asyncio.timeout(5),
        beside(service._shown(Screen(), service.Progress(), opened, keeping)),
    ):
        await enough.wait()

    assert shown == [3, 3, 5]


async def test_a_full_disk_ends_nobody_who_only_tells_how_he_is(monkeypatch, tmp_path, caplog):
    """Who watches would miss what happens meanwhile."""
    written, left = asyncio.Event(), [OSError(errno.ENOSPC, "No space left on device")] * 2

    def replace(path, content):
        if left:
            raise left.pop()
        written.set()

    monkeypatch.setattr(service, "replace", replace)
    monkeypatch.setattr(service, "STATE_SECONDS", 0.001)
    async with asyncio.timeout(5), service.written(Settings(data=tmp_path), service.Progress()):
        await written.wait()

    assert "is old: [Errno 28] No space left" in caplog.text
