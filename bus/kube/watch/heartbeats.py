"""When a source says that it is still being told, so that what nobody changes is known to be there.

A quiet pod is charged up to the last proof of it. A watch that is alive, after a list that was accepted, is one: it told of no
delete. Each source says so at most once in its period, whatever the server sends: bookmarks come about once a minute.

Source: Kubernetes API concepts, "Watch bookmarks"; docs/accounting.md, "Time".
"""

from __future__ import annotations

from bus.clock import STEP_US, ServerClock
from bus.envelope import Event
from bus.events.observations import SourceHeard
from bus.kube.watch.contract import ReflectorSettings, Source

#: Kinds whose lists are not all published say this so many times more seldom: no charge rests on them.
SELDOM = 12


class Heartbeats:
    """The heartbeats of one source of the cluster ``name``."""

    def __init__(
        self, source: Source, name: str, clock: ServerClock, settings: ReflectorSettings
    ) -> None:
        self._source = source
        self._name = name
        self._clock = clock
        self._every = settings.heartbeat_seconds * (1 if source.says_every_list else SELDOM)
        self._due_at = float("inf")

    def listed(self, now: float) -> None:
        """A list was accepted: it is the proof until the next one is due. ``now``: seconds of the loop."""
        self._due_at = now + self._every

    def unconfirmed(self) -> None:
        """What was told may not be all: nothing is published until a list is accepted again."""
        self._due_at = float("inf")

    def due(self, now: float, received_us: int, version: str) -> list[Event]:
        """What there is to say after something came at ``received_us``."""
        if now < self._due_at:
            return []
        self._due_at = now + self._every
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
