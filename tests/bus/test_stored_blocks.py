"""The beginning of a block on disk, whatever its bytes are."""

import random

import pytest

from bus.stored_blocks import closed_blocks

FOLDER = "jetstream/$G/streams/HISTORY/msgs"
#: The beginning of blocks that nats-server 2.15 compressed: copies of zeros, and a long literal.
FIRST = "636d700182ffff03ff06000053327354774f00289600f6359eff808040147806008001000901f05a28e2a4705dec1818"
LATER = (
    "636d700181ffff03ff06000053327354774f00749400e76c9bca808040f069880600808b1300000000000015748fb3"
)


def first(folder, content):
    blocks = folder / FOLDER
    blocks.mkdir(parents=True, exist_ok=True)
    for name in ("1.blk", "2.blk"):
        (blocks / name).write_bytes(content)
    return closed_blocks(folder, "HISTORY")[0].first


@pytest.mark.parametrize(("content", "sequence"), [(FIRST, 1), (LATER, 5_003)])
def test_the_first_sequence_of_a_compressed_block(tmp_path, content, sequence):
    assert first(tmp_path, bytes.fromhex(content) + b"x" * 200) == sequence


def test_a_plain_block_has_it_in_its_first_message(tmp_path):
    assert first(tmp_path, bytes(4) + (77).to_bytes(8, "little") + bytes(40)) == 77


def test_a_block_whose_beginning_is_damaged_may_begin_anywhere(tmp_path):
    whole = bytes.fromhex(LATER)
    for size in range(40):
        assert first(tmp_path, whole[:size]) in (1, *([5_003] if size >= 39 else []))
    chance = random.Random(7)
    for _ in range(300):
        assert first(tmp_path, b"cmp\x01" + chance.randbytes(chance.randrange(600))) >= 0
