"""What ends `bursar up` by itself."""

import asyncio
import types

import pytest

from bus.errors import UnsafeBusError
from bus.jetstream import GuardLine, State
from deploy.runtime import service

SAFE = [GuardLine("max_msgs", State.OK, "-1", "-1", "bus-max-msgs")]
CUT = [GuardLine("max_msgs", State.UNSAFE, "2", "-1", "bus-max-msgs")]


async def test_e14_a_bus_that_becomes_unsafe_is_noticed_within_a_minute_and_ends_it(monkeypatch):
    within = service.GUARD_SECONDS
    monkeypatch.setattr(service, "GUARD_SECONDS", 0.01)
    answers = iter([SAFE, SAFE, CUT])

    class Bus:
        async def guard(self, *_):
            return next(answers)

    opened = types.SimpleNamespace(transport=Bus(), monitor_urls=())
    async with asyncio.timeout(5):
        with pytest.raises(UnsafeBusError, match="max_msgs"):
            await service.guarded(opened)

    assert within <= 60
    assert next(answers, None) is None
