"""A nats-server of one's own on a disk that is full for a while.

Source: docs/limits.md.
"""

import asyncio
import contextlib
from contextlib import ExitStack

import pytest

from bus.envelope import Event
from bus.errors import BusUnavailableError, PublishUnknownError
from bus.jetstream import JetStream
from bus.streams import history
from tests.acceptance.soak import parts as soak_parts
from tests.acceptance.soak.buses import Nodes
from tests.acceptance.soak.parts import Parts, is_healthy
from tests.disks import fill, small_disk

pytestmark = [pytest.mark.nats, pytest.mark.timeout(120)]


def said(number):
    return Event("c1", "pod.observed", "p", f"uid/{number}", "watch", 1_700_000_000_000_000, b"{}")


async def test_a_liveness_probe_starts_a_server_again_whose_disk_was_full(tmp_path, monkeypatch):
    """Without one it refuses every write for good, also when there is room, and says so at /healthz."""
    monkeypatch.setattr(soak_parts, "PROBE_SECONDS", 0.5)
    with ExitStack() as stack:
        if not stack.enter_context(small_disk(tmp_path / "disk", mib=64)):
            pytest.skip("nobody may mount a small disk here")
        nodes, parts = Nodes(tmp_path / "nats", tmp_path / "disk/store", 1, stack), Parts(tmp_path)
        stack.callback(parts.stop)
        nodes.start(parts)
        bus = await JetStream.connect(
            f"nats://127.0.0.1:{nodes.port}", history(), ack_seconds=1, attempts=2
        )
        await bus.publish([said(0)])
        filling = tmp_path / "disk" / "filling"
        fill(filling)
        with pytest.raises((PublishUnknownError, BusUnavailableError)):
            for n in range(1, 200):
                await bus.publish([said(n)])
        filling.unlink()
        with pytest.raises((PublishUnknownError, BusUnavailableError)):
            await bus.publish([said(1000)])
        assert not await asyncio.to_thread(is_healthy, f"{nodes.monitor_urls[0]}/healthz")

        parts.watch()
        async with asyncio.timeout(60):
            while True:
                with contextlib.suppress(PublishUnknownError, BusUnavailableError):
                    sequences = await bus.publish([said(n) for n in range(200)])
                    break
        last = (await bus.head()).last_sequence
        await bus.close()

    assert parts.unhealthy == {"nats-0": 1}
    assert sequences == list(range(1, 201))
    assert last == 200
