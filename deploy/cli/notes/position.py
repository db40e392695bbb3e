"""The ledger's position: printed below every answer, since a figure is valid as of an event only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from bus.clock import floor_seconds
from deploy.cli import times
from deploy.cli.notes import lacking
from deploy.cli.rendering.escapes import inert
from projections.engine.tables import checkpoints, parked
from projections.evidence import moments_s, newest_s

#: A quiet source reports about once a minute that it is alive; after three minutes without a report it is not.
QUIET_S = 180


@dataclass(frozen=True)
class LedgerPosition:
    """The ledger's last event, the newest observation of any cluster, and the number of parked events.

    ``newest_s``: the newest time in any event, ticks and decisions included. ``moments``: the time of the last observation
    of each cluster.
    """

    sequence: int
    observed_s: int
    parked: int
    newest_s: int
    moments: dict[str, int]
    #: By cluster, its newest observation, probes of notebooks included.
    probed: dict[str, int] = field(default_factory=dict)
    #: Of a hub: the last event of each cluster's ledger.
    sequences: dict[str, int] = field(default_factory=dict)

    def moment_s(self, cluster: str | None = None) -> int:
        """The "now" of a question: the newest observation of a cluster, or of any. No command, tick or decision moves it."""
        newest_s = max(self.probed.values(), default=self.observed_s)
        return self.probed.get(cluster or "", newest_s)

    @property
    def events(self) -> str:
        """The last event: of one ledger, or of each."""
        found = [f"{sequence:,} of {inert(name)}" for name, sequence in self.sequences.items()]
        return ", ".join(found) or f"{self.sequence:,}"


def together(stands: Mapping[str, LedgerPosition]) -> LedgerPosition:
    """Where the ledgers of a hub stand, by cluster; of a single one as it is."""
    parts = list(stands.values())
    if len(parts) == 1:
        return parts[0]
    # Of two clusters with one name, the older observation.
    latest_first = sorted(parts, key=lambda one: -one.observed_s)
    return LedgerPosition(
        0,
        max(one.observed_s for one in parts),
        sum(one.parked for one in parts),
        max(one.newest_s for one in parts),
        {name: moment for one in latest_first for name, moment in one.moments.items()},
        {name: moment for one in latest_first for name, moment in one.probed.items()},
        {name: one.sequence for name, one in stands.items()},
    )


def standing(connection: sa.Connection) -> LedgerPosition:
    """Where the ledger stands in the transaction of ``connection``; zeros for an empty one."""
    row = connection.execute(sa.select(checkpoints)).first()
    count = connection.scalar(sa.select(sa.func.count()).select_from(parked)) or 0

    def select(query: sa.Select[Any]) -> list[tuple[Any, ...]]:
        return [tuple(found) for found in connection.execute(query)]

    known = moments_s(select)
    return LedgerPosition(
        row.sequence if row else 0,
        max(known.values(), default=0),
        count,
        floor_seconds(row.observed_us) if row else 0,
        known,
        newest_s(select),
    )


def unwatched(stands: LedgerPosition, as_of_s: int) -> list[str]:
    """Lines about clusters without recent observations, with the time since then: open intervals there are not charged on."""
    until_s = max(as_of_s, stands.newest_s)
    return [
        f"nothing of cluster {inert(name)} was observed after {times.stamp(moment_s)}:"
        f" the {until_s - moment_s:,} s from then until {times.stamp(until_s)} are unknown"
        for name, moment_s in sorted(stands.moments.items())
        if until_s - moment_s > QUIET_S
    ]


def seen_until(stands: LedgerPosition) -> dict[str, dict[str, Any]]:
    """By cluster, up to when it was observed, and how long the history goes on without a word of it (0: it is watched)."""
    found = {}
    for name, moment_s in sorted(stands.moments.items()):
        since_s = stands.newest_s - moment_s
        unknown_s = since_s if since_s > QUIET_S else 0
        found[name] = {"observed": times.stamp(moment_s), "unknown_s": unknown_s}
    return found


def footer(sequence: int, observed_s: int) -> list[str]:
    """The line about the last event of these figures."""
    return [f"as of event {sequence:,}, {times.stamp(observed_s)}{lacking.as_of()}"]
