"""The bundled recording as a history: a simulated day of three teams, with all that admission and the reactors decided."""

from functools import cache
from pathlib import Path

import msgspec

from bus.sources.events import read_lines

(DAY,) = (Path(__file__).parents[1] / "deploy" / "recording").glob("*.ndjson.zst")


@cache
def recorded():
    """Its events, with sequences 1, 2, 3 …"""
    return [
        msgspec.structs.replace(event, sequence=n) for n, event in enumerate(read_lines(DAY), 1)
    ]
