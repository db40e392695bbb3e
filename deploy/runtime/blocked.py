"""Due but blocked actions in a cluster, read from the ledger's archive. For questions only: decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from bus.clock import SystemClock
from projections.quota_trees.queries import Select
from reactors.catalogue import REACTORS
from reactors.engine.reasons import explained
from reactors.engine.replica import Blocked, Replica
from reactors.engine.snapshots import at

if TYPE_CHECKING:
    from reactors.queue.releasing import Releasing


def blocked(select: Select, cluster: str, now_us: int) -> list[Blocked]:
    """The blocked actions of every reactor of ``cluster`` at ``now_us``."""
    return at(select, REACTORS, cluster).blocked(now_us)


def held_back(
    replica: Replica | None,
    releasing: Releasing | None,
    troubles: Mapping[str, Callable[[], Iterable[str]]] = {},
) -> list[dict[str, Any]]:
    """The blocked actions of a running process, by cause: their number, the first of them, and a sentence on the reason.

    ``replica``, ``releasing`` None: they do not run. ``troubles``: by
    activity, the causes that keep its effects from being done.
    """
    found = [
        {
            "verb": activity, "reason": "refused", "count": 1, "until_us": 0, "first": activity,
            "sentence": sentence,
        }
        for activity, trouble in troubles.items()
        for sentence in trouble()
    ]  # fmt: skip
    return _blocked(replica) + _stuck(releasing) + found


def run_by(replica: Replica) -> dict[str, dict[str, int]]:
    """By reactor: the number of objects in its scope under each runner."""
    found = {name: dict(one.run_by(replica)) for name, one in replica.reactors.items()}
    return {name: counts for name, counts in found.items() if counts}


def _blocked(replica: Replica | None) -> list[dict[str, Any]]:
    """The number of actions blocked now, by cause, and the end of each block."""
    if replica is None:
        return []
    found: dict[tuple[str, str], list[Blocked]] = {}
    for one in replica.blocked(SystemClock().now_us()):
        found.setdefault((one.decision.wire_type, one.reason), []).append(one)
    return [
        {
            "verb": verb.removeprefix("decision."),
            "reason": reason,
            "count": len(those),
            "until_us": max(one.until_us for one in those),
            "first": f"{those[0].decision.target.namespace}/{those[0].decision.target.name}",
            "sentence": explained(those[0]),
        }
        for (verb, reason), those in sorted(found.items())
    ]


def _stuck(releasing: Releasing | None) -> list[dict[str, Any]]:
    """Workloads that left their queue and could not be started, by reason."""
    found: dict[str, list[tuple[str, int]]] = {}
    for name, message, until_us in releasing.stuck() if releasing is not None else ():
        found.setdefault(message, []).append((name, until_us))
    return [
        {
            "verb": "release",
            "reason": "refused",
            "count": len(those),
            "until_us": max(until_us for _, until_us in those),
            "first": those[0][0],
            "sentence": f"its start is decided and not done: {message}; it is tried again",
        }
        for message, those in sorted(found.items())
    ]
