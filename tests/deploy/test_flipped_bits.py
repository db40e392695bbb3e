"""A bit of the bus's file that flipped long after the ledger read it: noticed at the next start, mended by `bursar recover`."""

import asyncio
import json

import pytest

from bus.embedded import EmbeddedServer
from bus.errors import HistoryDivergedError
from bus.jetstream import JetStream
from bus.streams import history
from deploy.runtime.bootstrap import bus
from deploy.runtime.guarding import prove_blocks
from deploy.settings.load import load
from tests import factories as given
from tests.deploy.ledgers import process

pytestmark = pytest.mark.nats
#: More than two blocks of 8 MB hold.
COUNT = 4_000
LONG = {f"app.kubernetes.io/{n:02d}{'x' * 40}": "y" * 60 for n in range(48)}


async def published(data):
    events = given.numbered(
        [given.pod_observed(f"p{n}", n + 10, 1, labels=LONG) for n in range(COUNT)]
    )
    async with EmbeddedServer(data) as server:
        transport = await JetStream.connect(server.url, history(), credentials=server.credentials)
        await transport.publish(events)
        await transport.close()


def flip(block):
    raw = bytearray(block.read_bytes())
    raw[len(raw) // 2] ^= 1
    block.write_bytes(raw)


async def proven(settings):
    reads = []
    async with bus(settings) as opened:
        read = opened.transport.read

        def noted(*, after, live):
            reads.append(after)
            return read(after=after, live=live)

        opened.transport.read = noted
        await prove_blocks(opened, settings.data / "bus")
    return reads


async def test_a_flipped_bit_in_the_middle_is_noticed_at_the_next_start(tmp_path):
    settings = load({"data": tmp_path})
    await published(tmp_path)
    blocks = sorted((tmp_path / "bus" / "store").rglob("*.blk"))
    assert len(blocks) > 2 and blocks[1].read_bytes().startswith(b"cmp")

    # The first time all is read, then what changed.
    assert await proven(settings) == [0]
    assert await proven(settings) == []
    flip(blocks[1])
    with pytest.raises(HistoryDivergedError, match=r"a sequence is missing|lost a message"):
        await proven(settings)
    flip(blocks[1])
    assert await proven(settings) == []
    record = tmp_path / "bus" / "blocks.json"
    known = json.loads(record.read_text())
    record.write_text(json.dumps(known[:1]))
    assert await proven(settings) == [known[1]["first"] - 1] != [0]
    record.write_text("no record")
    assert await proven(settings) == [0]


def test_up_names_recover_which_mends_it(tmp_path):
    asyncio.run(published(tmp_path))
    assert process("up", "--once", "--data", tmp_path, HOME=str(tmp_path)).returncode == 0
    flip(min((tmp_path / "bus" / "store").rglob("*.blk")))
    up = process("up", "--once", "--data", tmp_path, HOME=str(tmp_path))

    assert (up.returncode, "run `bursar recover`" in up.stderr) == (6, True)
    assert process("recover", "--yes", "--data", tmp_path).returncode == 0
    assert process("up", "--once", "--data", tmp_path, HOME=str(tmp_path)).returncode == 0
