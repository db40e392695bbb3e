"""Settings of a long history: the place of its segments, and the retention of table and bus.

Source: docs/history.md (segments).
"""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, field_validator

from bus.object_store import SCHEME

_DAYS = re.compile(r"[1-9]\d{0,4}d\Z", re.ASCII)
_DAY_US = 86_400_000_000


class HistorySettings(BaseModel):
    """How the beginning of a long history is kept: in sealed segments, see ``docs/history.md``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: Events of one segment; fewer where they are large. 0 = none is written.
    segment_events: int = Field(20_000, ge=0, le=1_000_000)
    #: The folder of the segments, or ``s3://BUCKET/PREFIX``. None = ``segments`` in the data folder; of a ledger on PostgreSQL none
    #: are written then. There it is a folder that all processes of Bursar have under this path, or a bucket that they may read.
    folder: str | Path | None = None
    #: How long the ledger's table keeps what a verified segment holds, such as ``90d``. ``for ever``: nothing is trimmed.
    keep: str = "for ever"
    #: How long the bus keeps what a verified segment holds, such as ``30d``: longer than any reader, a hub's mirror included, is
    #: ever away. ``for ever``: the bus is not trimmed.
    bus_keep: str = "for ever"

    @field_validator("folder")
    @classmethod
    def _place(cls, folder: str | Path | None) -> str | Path | None:
        if not isinstance(folder, str) or folder.startswith(SCHEME):
            return folder
        return Path(folder) if folder else None

    @field_validator("keep", "bus_keep")
    @classmethod
    def _days(cls, keep: str) -> str:
        if keep != "for ever" and not _DAYS.match(keep):
            raise ValueError("'for ever', or a number of days such as 90d")
        return keep

    @property
    def keep_us(self) -> int | None:
        """``keep`` in microseconds; None = for ever."""
        return _span_us(self.keep)

    @property
    def bus_keep_us(self) -> int | None:
        """``bus_keep`` in microseconds; None = for ever."""
        return _span_us(self.bus_keep)


def _span_us(keep: str) -> int | None:
    return None if keep == "for ever" else int(keep[:-1]) * _DAY_US
