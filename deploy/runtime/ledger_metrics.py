"""Metrics of the ledger's writer: its position, parked events, sealed segments, and the holdings of teams."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Protocol

import msgspec
import sqlalchemy as sa

from bus.metrics import Metric, Sample
from projections.engine.store import Store
from projections.engine.tables import parked, segments
from projections.pod_runs.queries import HELD_BY_TEAM

#: Between two reads of parked and sealed events, and of teams' holdings, as these read each open pod.
LOOK_SECONDS = 15.0
USAGE_SECONDS = 60.0
#: Teams with series of their own; the others form one together.
TEAMS = 20
#: No label of Kubernetes can be this.
OTHERS = "(others)"

_PARKED = sa.select(sa.func.count()).select_from(parked)
_SEALING: list[sa.ColumnElement[Any]] = [sa.func.count(), sa.func.max(segments.c.sequence)]
_SEALED = sa.select(*_SEALING)


class Writes(Protocol):
    """Moves the ledger on."""

    @property
    def sequence(self) -> int:
        """The last event in the ledger."""

    @property
    def unsealed(self) -> str:
        """Why the history is not sealed; "" where it is."""


class Held(msgspec.Struct, frozen=True):
    """Current holdings of a team: milli-cores, MiB, milli-cards, pods."""

    team: str
    cpu_milli: int
    memory_mib: int
    gpu_milli: int
    pods: int


def largest(found: Iterable[Held], most: int = TEAMS) -> list[Held]:
    """At most so many teams, those with most GPUs, then CPU, then memory, and one sum of all others. Pure."""
    order = sorted(found, key=lambda t: (-t.gpu_milli, -t.cpu_milli, -t.memory_mib, t.team))
    rest = order[most:]
    if not rest:
        return order
    sums = (sum(getattr(one, name) for one in rest) for name in Held.__struct_fields__[1:])
    return [*order[:most], Held(OTHERS, *sums)]


class LedgerMetrics:
    """The figures of one ledger. Holdings are read periodically, since scrapes must not wait for a database.

    ``segment_events``: the events of one segment; 0 for an unsealed ledger.
    """

    def __init__(self, store: Store, writer: Writes, segment_events: int = 0) -> None:
        self._store = store
        self._writer = writer
        self._every = segment_events
        self._parked = self._segments = self._sealed = 0
        self._held: list[Held] = []

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        due = 0.0
        while True:
            # The writer reports an unreachable database.
            with suppress(sa.exc.SQLAlchemyError):
                is_due = (now := time.monotonic()) >= due
                await asyncio.to_thread(self.look, teams=is_due)
                due = now + USAGE_SECONDS if is_due else due
            await asyncio.sleep(LOOK_SECONDS)

    def look(self, *, teams: bool = True) -> None:
        """Look once. Raises SQLAlchemyError."""
        [(self._parked,)] = self._store.select(_PARKED)
        if self._every:
            [(self._segments, sealed)] = self._store.select(_SEALED)
            self._sealed = sealed or 0
        if teams:
            self._held = self._teams()

    def _teams(self) -> list[Held]:
        found = self._store.select(HELD_BY_TEAM)
        # PostgreSQL adds integers to decimals.
        return largest(Held(team, *map(int, amounts)) for team, *amounts in found)

    def __call__(self) -> Iterator[Metric]:
        """All of them."""
        yield Metric(
            "bursar_ledger_sequence", "gauge", "The last event in the ledger.",
            [Sample(self._writer.sequence)],
        )  # fmt: skip
        yield Metric(
            "bursar_ledger_parked_events", "gauge",
            "Events that could not be read or folded, and are in no figure. 0 is right.", [Sample(self._parked)],
        )  # fmt: skip
        yield from self._of_teams()
        if self._every:
            yield from self._of_segments()

    def _of_teams(self) -> Iterator[Metric]:
        figures: tuple[tuple[str, str, Callable[[Held], int | str]], ...] = (
            ("gpus", "GPUs that a team's pods hold.", lambda t: _thousandths(t.gpu_milli)),
            ("cpu_cores", "Cores that a team's pods hold.", lambda t: _thousandths(t.cpu_milli)),
            ("memory_bytes", "Memory that a team's pods hold.", lambda t: t.memory_mib << 20),
            ("pods", "Pods of a team that hold something.", lambda t: t.pods),
        )
        for name, meaning, of in figures:
            samples = [Sample(of(team), {"team": team.team}) for team in self._held]
            yield Metric(f"bursar_team_{name}", "gauge", meaning, samples)

    def _of_segments(self) -> Iterator[Metric]:
        waiting = max(self._writer.sequence - self._sealed, 0) // self._every
        yield Metric(
            "bursar_history_segments", "gauge", "Sealed segments of the history.",
            [Sample(self._segments)],
        )  # fmt: skip
        yield Metric(
            "bursar_history_sealed_sequence", "gauge", "The last event in a sealed segment.",
            [Sample(self._sealed)],
        )  # fmt: skip
        yield Metric(
            "bursar_history_segments_waiting", "gauge",
            "Segments that could be sealed and are not yet. 0 or 1 is right.", [Sample(waiting)],
        )  # fmt: skip
        yield Metric(
            "bursar_history_sealing_trouble", "gauge", "Whether the last segment could not be sealed or trimmed.",
            [Sample(int(bool(self._writer.unsealed)))],
        )  # fmt: skip


def _thousandths(amount: int) -> str:
    return f"{amount // 1000}.{amount % 1000:03}"
