"""Heartbeats of a live source: they confirm unchanged objects.

A quiet pod is charged up to the last proof of it. A live watch, after an accepted list, is one: it reported no
delete. Each source reports so at most once in its period, whatever the server sends. A bookmark alone comes about
once a minute, and is reported wherever the last report is older than a few seconds: within 75 s there is one as
long as the watch is alive.

Source: Kubernetes API concepts, "Watch bookmarks"; docs/accounting.md, "Time".
"""

from __future__ import annotations

from bus.clock import STEP_US, ServerClock
from bus.envelope import Event
from bus.events.observations import SourceHeard
from bus.kube.watch.contract import ReflectorSettings, Source

#: Kinds without published lists report this many times more rarely: they carry no charges.
SELDOM = 12
#: Shortest time between two reports of a watch without changes. With the minute between bookmarks it stays below 75 s.
QUIET_SECONDS = 10.0


class Heartbeats:
    """The heartbeats of one source of the cluster ``name``."""

    def __init__(
        self, source: Source, name: str, clock: ServerClock, settings: ReflectorSettings
    ) -> None:
        self._source = source
        self._name = name
        self._clock = clock
        self._every = settings.heartbeat_seconds * (1 if source.says_every_list else SELDOM)
        self._quiet = min(QUIET_SECONDS, self._every) if source.says_every_list else self._every
        self._reported_at = float("inf")

    def listed(self, now: float) -> None:
        """A list was accepted: it is the proof until the next one is due. ``now``: seconds of the loop."""
        self._reported_at = now

    def unconfirmed(self) -> None:
        """Stops publishing until a list is accepted again: events may be missing."""
        self._reported_at = float("inf")

    def due(self, now: float, received_us: int, version: str, *, is_quiet: bool) -> list[Event]:
        """The report due after lines received at ``received_us``; ``is_quiet``: the lines were bookmarks only."""
        if now < self._reported_at + (self._quiet if is_quiet else self._every):
            return []
        self._reported_at = now
        offset_us = self._clock.offset_us
        fact = SourceHeard(
            resource=self._source.name,
            resource_version=version,
            offset_us=offset_us if abs(offset_us) > STEP_US else 0,
        )
        return [
            fact.event(
                cluster=self._name,
                key=self._source.name,
                id=f"{fact.wire_type}/{self._source.name}/{received_us}",
                source=f"kube/{self._source.name}",
                time_us=received_us,
            )
        ]
