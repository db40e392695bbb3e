"""Streams as data: what a history must promise, before any server is asked.

Source: docs/architecture.md; every property was measured in docs/reliability.md
"""

from __future__ import annotations

import msgspec


class Stream(msgspec.Struct, frozen=True):
    """One JetStream stream, as Bursar needs it.

    Every limit that could drop an event is off (``discard: new``, no age, count or byte limit), deletes and purges are
    denied, and the duplicate window is longer than any retry of ours (10 min against 2 min by default).
    """

    name: str
    subjects: tuple[str, ...]
    replicas: int = 1
    duplicate_window_seconds: int = 600
    max_message_bytes: int = 64 * 1024 + 4096


def history(cluster: str = "*", *, replicas: int = 1) -> Stream:
    """The one stream of an installation: facts, decisions and outcomes in one total order."""
    return Stream("HISTORY", (f"bursar.{cluster}.>",), replicas)
