"""ADAPTER: the log of a long-running process on stderr: lines for people, or one JSON object a line for a log collector.

Keys of a line: ``time`` (UTC, RFC 3339 with microseconds), ``level`` (debug, info, warning, error, critical), ``logger``,
``message``; ``sequence``: the last event of the history read or published by the process at that time, if it
knows one; ``event``: the one event in question, if there is one; ``error``: the traceback.

A line is at most 16,000 bytes, since container runtimes cut longer ones in two, and the parts are no JSON. It is ASCII only, so
the text of a cluster's user can neither begin a line of its own nor turn one around.

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
#: The logger of a process's own messages, outside any module's logger.
NAME = "bursar"

Form = Literal["text", "json"]

_log = logging.getLogger(NAME)
#: Of the history followed by this task. Each cluster of a hub has its own.
_position: ContextVar[Callable[[], int] | None] = ContextVar("position", default=None)
_form: Form = "text"


def begin(form: Form) -> None:
    """Write logs in this form from now on. The program starts with text."""
    global _form
    _form = form
    if form == "text":
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.getLogger().level, force=True)
    # Messages for people are shown at any level of the others.
    _log.setLevel(logging.INFO)
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = lambda found: _log.critical(
        "a thread ended",
        exc_info=(found.exc_type, found.exc_value or found.exc_type(), found.exc_traceback),
    )


def tell(text: str, level: int = logging.INFO) -> bool:
    """Log a message as a line; False if logs are text, and then nothing was written."""
    if _form == "json":
        _log.log(level, "%s", text)
    return _form == "json"


def follow(position: Callable[[], int]) -> None:
    """``position`` returns the last known event, 0 for none, for the logs of this task and of tasks started by it."""
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
            # The end of a traceback has the error, and the beginning of a message has its subject.
            if len(fields.get("error", "")) > len(fields["message"]):
                fields["error"] = "…" + fields["error"][len(fields["error"]) // 2 + 1 :]
            else:
                fields["message"] = fields["message"][: len(fields["message"]) // 2] + "…"
        return line


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _log.critical("the program ended", exc_info=(kind, error, trace))
