"""Streams as data: the promises of a history, before any server is asked.

Source: docs/architecture.md; every property was measured in docs/reliability.md
"""

from __future__ import annotations

import msgspec


class Stream(msgspec.Struct, frozen=True):
    """One JetStream stream, as Bursar needs it.

    Every limit with a loss of events is off (``discard: new``, no age, count or byte limit), deletes and purges are
    denied, and the duplicate window is longer than any retry of ours (10 min against 2 min by default).
    """

    name: str
    subjects: tuple[str, ...]
    replicas: int = 1
    duplicate_window_seconds: int = 600
    max_message_bytes: int = 64 * 1024 + 4096
    #: The JetStream domain with the mirrored history; "" = of none.
    mirrored_domain: str = ""


def history(cluster: str = "*", *, replicas: int = 1) -> Stream:
    """The one stream of an installation: facts, decisions and outcomes in one total order."""
    return Stream("HISTORY", (f"bursar.{cluster}.>",), replicas)


def mirror(cluster: str, domain: str, *, replicas: int = 1) -> Stream:
    """A copy of a cluster's history on the NATS of a hub: the same events under the same sequences. It takes no message."""
    return Stream(f"HISTORY_{cluster}", (), replicas, mirrored_domain=domain)
