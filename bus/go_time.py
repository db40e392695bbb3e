"""Instants in Go's form: nanoseconds, and their written offset.

The culler compares its own clock, in nanoseconds, with stamps cut to seconds, strictly; and it writes a kernel's
stamp back with that kernel's offset. Bursar's microseconds UTC would lose both.

Source: Go's ``time`` package, layout RFC3339; docs/culling.md.
"""

from __future__ import annotations

import msgspec

from bus.clock import SECOND_US, format_stamp, parse_stamp
from bus.errors import TimestampError

SECOND_NS = 1_000_000_000
MINUTE_NS = 60 * SECOND_NS
_WITHOUT_FRACTION = len("2024-08-14T12:00:00")


class Stamp(msgspec.Struct, frozen=True):
    """An instant in nanoseconds UTC since 1970, and its displayed zone."""

    ns: int
    offset_minutes: int = 0

    @classmethod
    def parse(cls, text: str) -> Stamp | None:
        """The instant of an RFC 3339 stamp; None where Go refuses it: no zone, second 60, no such day."""
        try:
            us = parse_stamp(text)
        except TimestampError:
            return None
        if text[17:19] == "60":
            return None
        zone_at = -1 if text.endswith("Z") else -6
        nanos = text[_WITHOUT_FRACTION + 1 : zone_at][6:9].ljust(3, "0")
        zone = text[zone_at:]
        minutes = 0 if zone == "Z" else int(zone[1:3]) * 60 + int(zone[4:6])
        return cls(us * 1_000 + int(nanos), -minutes if zone.startswith("-") else minutes)

    def text(self) -> str:
        """RFC 3339 in whole seconds, the fraction cut off: `Z` at offset 0, else `+08:00`."""
        seconds = self.ns // SECOND_NS
        if not self.offset_minutes:
            return format_stamp(seconds * SECOND_US)
        local = format_stamp((seconds + self.offset_minutes * 60) * SECOND_US)
        hours, minutes = divmod(abs(self.offset_minutes), 60)
        return f"{local[:-1]}{'-' if self.offset_minutes < 0 else '+'}{hours:02d}:{minutes:02d}"


#: The result of Go's parser beside an error: the culler takes it for a stamp.
YEAR_ONE = Stamp(parse_stamp("0001-01-01T00:00:00Z") * 1_000)
