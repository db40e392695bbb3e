"""ADAPTER: what a long-running process says on stderr: lines for people, or one JSON object a line for whatever collects logs.

Keys of a line: ``time`` (UTC, RFC 3339 with microseconds), ``level`` (debug, info, warning, error, critical), ``logger``,
``message``; ``sequence``: the last event of the history that the process had read or published when it said this, where it
knows one; ``event``: the one event that the line is about, where there is one; ``error``: the traceback.

A line is at most 16,000 bytes, since container runtimes cut longer ones in two, which are no JSON. It holds ASCII alone, so no
text of a cluster's user can begin a line of its own or turn one around.

Source: docs/operating.md (logs); the CRI's log format (16 KiB for each part of a line).
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Literal

#: Bytes of a line, its end included.
MOST = 16_000
#: What a process says of its own work, where no module's logger does.
NAME = "bursar"

Form = Literal["text", "json"]

_log = logging.getLogger(NAME)
#: Of the history that this task follows. Each cluster of a hub has its own.
_position: ContextVar[Callable[[], int] | None] = ContextVar("position", default=None)
_form: Form = "text"


def begin(form: Form) -> None:
    """Write logs in this form from now on. Text is what the program begins with."""
    global _form
    _form = form
    if form == "text":
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.getLogger().level, force=True)
    # What it says to people is said at any level of the rest.
    _log.setLevel(logging.INFO)
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = lambda found: _log.critical(
        "a thread ended",
        exc_info=(found.exc_type, found.exc_value or found.exc_type(), found.exc_traceback),
    )


def tell(text: str, level: int = logging.INFO) -> bool:
    """Say it as a line of the log; False where logs are text, so that nothing was said."""
    if _form == "json":
        _log.log(level, "%s", text)
    return _form == "json"


def follow(position: Callable[[], int]) -> None:
    """``position`` gives the last event known, 0 for none, to what this task and those that it begins log from now on."""
    _position.set(position)


class JsonLines(logging.Formatter):
    """A record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, without its end."""
        stamp = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds")
        fields: dict[str, Any] = {
            "time": stamp.replace("+00:00", "Z"), "level": record.levelname.lower(),
            "logger": record.name, "message": record.getMessage(),
        }  # fmt: skip
        position = _position.get()
        if position is not None and (sequence := position()):
            fields["sequence"] = sequence
        if (event := getattr(record, "event", None)) is not None:
            fields["event"] = event
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        while len(line := json.dumps(fields)) >= MOST:
            # The end of a traceback says what happened, and of a message its beginning.
            if len(fields.get("error", "")) > len(fields["message"]):
                fields["error"] = "…" + fields["error"][len(fields["error"]) // 2 + 1 :]
            else:
                fields["message"] = fields["message"][: len(fields["message"]) // 2] + "…"
        return line


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _log.critical("the program ended", exc_info=(kind, error, trace))
