"""Packed events of a stranger: a small file takes no more memory than a file of ours."""

import subprocess
import sys

import msgspec
import pytest
import zstandard

from bus.errors import DamagedSegmentError
from projections.engine.segments.form import pack, size_of, unpack
from tests.recording import recorded

ROW = msgspec.msgpack.encode((1, "", "", "", "", "", 0, 0, "", b""))


def packed(content, **options):
    return zstandard.ZstdCompressor(level=3, **options).compress(content)


def rows(count):
    return b"\xdd" + count.to_bytes(4) + ROW * count


BOMBS = {
    "more rows than are named": lambda: packed(rows(4_000_000)),
    "more bytes than rows have": lambda: packed(b"\xdd" + (300).to_bytes(4) + bytes(200_000_000)),
    "a size that is not named": lambda: packed(rows(4_000_000), write_content_size=False),
    "zeros": lambda: packed(bytes(1_000_000_000)),
    "arrays in arrays": lambda: packed(b"\xdd" + (300).to_bytes(4) + b"\x91" * 60_000_000),
    "a map": lambda: packed(b"\xdf" + (300).to_bytes(4) + b"\x00\x00" * 30_000_000),
    "one row of many values": lambda: packed(
        b"\xdd" + (300).to_bytes(4) + b"\xdd" + (60_000_000).to_bytes(4) + bytes(60_000_000)
    ),
    "a short length and many rows": lambda: packed(b"\xdc" + (300).to_bytes(2) + ROW * 4_000_000),
    "nothing": lambda: packed(b""),
    "no frame": lambda: b"no frame",
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_does_not_become_a_large_one(name, tmp_path):
    """66 KB became 5.9 GB."""
    (tmp_path / "bomb").write_bytes(BOMBS[name]())
    limited = (
        "import resource, sys, pathlib, zstandard\n"
        "from projections.engine.segments.form import unpack\n"
        "raw = pathlib.Path(sys.argv[1]).read_bytes()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (450 << 20, 450 << 20))\n"
        "unpack(raw, 300)"
    )
    found = subprocess.run(
        [sys.executable, "-c", limited, tmp_path / "bomb"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert (tmp_path / "bomb").stat().st_size < 200_000
    assert "DamagedSegmentError" in found.stderr, found.stderr


def test_another_number_of_events_than_named_is_damage():
    events = recorded()[:300]
    content = pack(events)

    assert len(unpack(content, 300)) == 300
    for count in (299, 301, 0):
        with pytest.raises(DamagedSegmentError, match=f"300 events where {count}"):
            unpack(content, count)
    for count in (1, 15, 16, 70):
        assert len(unpack(pack(events[:count]), count)) == count


def test_the_size_of_events_is_that_of_their_rows_or_more():
    events = recorded()[:2_000]
    size = zstandard.frame_content_size(pack(events))

    assert size <= sum(map(size_of, events)) < 2 * size
