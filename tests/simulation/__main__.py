"""Writes the bundled recording: `python -m tests.simulation [--out FILE]`."""

import argparse
import sys
import tempfile
from pathlib import Path

import zstandard

from bus.envelope import from_line, to_line
from tests.simulation.day import lived
from tests.simulation.loop import simulate

OUT = Path(__file__).parents[2] / "deploy" / "recording" / "day.ndjson.zst"


def main() -> int:
    """Lives the day and writes it."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT)
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as folder:
        lines = [to_line(event) for event in simulate(lived(Path(folder)))]
    for line in lines:
        from_line(line)
    packed = zstandard.ZstdCompressor(level=19).compress(b"".join(line + b"\n" for line in lines))
    out.write_bytes(packed)
    print(f"{len(lines)} events, {len(packed)} bytes: {out}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
