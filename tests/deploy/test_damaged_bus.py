"""`bursar up` and `recover` where the bus lost what it acknowledged: said with the way out, and mended by it."""

import asyncio
import json

import pytest

from bus.embedded import EmbeddedServer
from bus.envelope import to_line
from bus.jetstream import JetStream
from bus.streams import history
from tests import factories as given
from tests.bus.damage import cut, flip
from tests.deploy.ledgers import EVENTS, process

pytestmark = pytest.mark.nats

LATE = [given.pod_observed(f"late-{n}", 1, 9_000 + n, created=9_000 + n) for n in range(3)]


async def published(data, events):
    """Events that the bus has and the ledger does not yet."""
    async with EmbeddedServer(data) as server:
        transport = await JetStream.connect(server.url, history(), credentials=server.credentials)
        await transport.publish(events)
        await transport.close()


@pytest.mark.parametrize("damage", [cut, flip], ids=["cut short", "a bit flipped"])
def test_up_says_how_to_recover_from_a_damaged_end_and_recover_mends_it(tmp_path, damage):
    """Covers the wait of `up`, of an import and of recover itself: each waited for ever for the lost message."""
    data, file = tmp_path / "data", tmp_path / "events.ndjson"
    file.write_bytes(b"".join(to_line(event) + b"\n" for event in EVENTS))
    assert process("import", "events", file, "--data", data).returncode == 0
    asyncio.run(published(data, LATE))
    damage(data / "bus" / "store")

    up = process("up", "--once", "--data", data, HOME=str(tmp_path))
    refused = process("recover", "--data", data)
    recovered = process("recover", "--yes", "--data", data, "-o", "json")
    again = process("up", "--once", "--data", data, HOME=str(tmp_path))

    assert (up.returncode, "run `bursar recover`" in up.stderr) == (6, True)
    assert (refused.returncode, "bursar recover --yes" in refused.stderr) == (6, True)
    found = json.loads(recovered.stdout)
    assert (recovered.returncode, found["lost"] > 0) == (0, True)
    assert again.returncode == 0
    assert process("verify", "--data", data).returncode == 0
