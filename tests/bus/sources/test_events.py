"""Recorded histories: what is written is read, and a damaged line is named."""

import pytest
import zstandard

from bus.envelope import Event, to_line
from bus.errors import EnvelopeError
from bus.sources.events import read_lines

EVENTS = [
    Event("default", "pod.observed", f"u{n}", f"pod.observed/u{n}/1", "test", n, b'{"n":"x"}', 1, n)
    for n in range(1, 4)
]
LINES = b"".join(to_line(event) + b"\n" for event in EVENTS)


@pytest.mark.parametrize(
    "lines",
    [LINES, LINES.rstrip(), b"\n" + LINES.replace(b"\n", b"\r\n\n")],
    ids=["as exported", "without the last line end", "with empty lines and carriage returns"],
)
def test_written_events_are_read(tmp_path, lines):
    path = tmp_path / "history.ndjson"
    path.write_bytes(lines)

    assert EVENTS == list(read_lines(path))


def test_compressed_segments_may_be_appended_to_each_other(tmp_path):
    path = tmp_path / "history.ndjson.zst"
    frames = [zstandard.compress(line) for line in LINES.splitlines(keepends=True)]
    path.write_bytes(b"".join(frames))

    assert EVENTS == list(read_lines(path))


@pytest.mark.parametrize(
    "line",
    [
        b"not JSON",
        b"{}",
        LINES.splitlines()[0].replace(b'{"id"', b'{"id":"other","id"'),
        LINES.splitlines()[0].replace(b'"n":"x"', b'"n":"x","n":"y"'),
        LINES.splitlines()[0][:-1],
        b'{"a":"' + b"x" * 600_000 + b'"}',
    ],
    ids=["not JSON", "no event", "two ids", "two equal keys", "cut short", "too long"],
)
def test_a_damaged_line_is_named_after_the_good_ones_were_read(tmp_path, line):
    path = tmp_path / "history.ndjson"
    path.write_bytes(LINES + line + b"\n" + LINES)
    read = []

    with pytest.raises(EnvelopeError) as caught:
        for event in read_lines(path):
            read.append(event)

    assert (caught.value.file, caught.value.line, read) == ("history.ndjson", 4, EVENTS)


@pytest.mark.parametrize("content", [b"no frame", zstandard.compress(LINES)[:-5]])
def test_damaged_compression_is_named(tmp_path, content):
    path = tmp_path / "history.zst"
    path.write_bytes(content)

    with pytest.raises(EnvelopeError, match=r"history\.zst"):
        list(read_lines(path))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(EnvelopeError, match=r"history\.ndjson"):
        list(read_lines(tmp_path / "history.ndjson"))
