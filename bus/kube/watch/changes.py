"""Translates the lines of a watch into events and a resume version. Pure but for its state.

Source: docs/reliability.md.
"""

from __future__ import annotations

from bus.envelope import Event
from bus.errors import BursarError, MalformedJsonError, ObservationError
from bus.kube.watch import lines, records
from bus.kube.watch.contract import ReflectorState, Source, resource_of
from bus.kube.watch.observing import Observing
from bus.kube.watch.records import Record
from bus.kube.watch.schedule import ListSchedule
from bus.kube.watch.seen_versions import SeenVersions, newer

#: Versions that may go back in a row before the watch itself is doubted (A12).
MOST_STALE = 3

_MOVED = ObservationError("a bound object moved to another node")


class Changes:
    """The changes of one watch. It counts in the reflector's ``state``, and requests lists where a change is doubtful."""

    def __init__(
        self,
        source: Source,
        observing: Observing,
        known: SeenVersions,
        state: ReflectorState,
        schedule: ListSchedule,
    ) -> None:
        self._source = source
        self._observing = observing
        self._known = known
        self._state = state
        self._schedule = schedule
        self._stale_in_a_row = 0

    def read(self, chunk: list[bytes], received_us: int) -> tuple[list[Event], BursarError | None]:
        """The events of lines received at ``received_us``, and the server's reason if it ended the watch after them."""
        events: list[Event] = []
        for line in filter(None, chunk):
            try:
                change, raw = lines.opened(line)
            except MalformedJsonError as error:
                event = self._parked(self._observing.record("", line, received_us), error)
            else:
                if change == "BOOKMARK":
                    self._move(lines.bookmark(raw))
                    continue
                if change == "ERROR":
                    return events, lines.failure(raw, resource_of(self._source.path))
                if change not in lines.CHANGES:
                    self._state.unknown += 1
                    self._schedule.seldom("unknown")
                    continue
                event = self._observed(self._observing.record(change, raw, received_us))
            if event is not None:
                events.append(event)
        return events, None

    def _observed(self, record: Record) -> Event | None:
        """The event of one record of the watch; None where the record is stale, known, or doubtful."""
        try:
            event = self._observing.translated(record)
        except (MalformedJsonError, ObservationError) as error:
            return self._parked(record, error)
        if not self._is_current(event):
            return None
        if self._known.moves(event):
            self._state.moved += 1
            return self._parked(record, _MOVED) if self._schedule.seldom("moved") else None
        is_late = record.change != "ADDED" and not self._known.holds(event)
        if not self._observing.is_news(event):
            return None
        self._state.late += is_late
        return event

    def _parked(self, record: Record, error: MalformedJsonError | ObservationError) -> Event | None:
        """The refusal of ``record``, with a list, since it could have been a delete. None if already published."""
        event = self._observing.refused(record, error)
        if not self._observing.is_news(event):
            return None
        if error is not _MOVED:
            self._schedule.hasten("refused")
        return event

    def _is_current(self, event: Event) -> bool:
        """Whether the watch went forward with ``event``."""
        uid, version = records.identity(event)
        if self._move(version) or self._known.has(uid, version):
            self._stale_in_a_row = 0
            return True
        self._state.stale += 1
        self._stale_in_a_row += 1
        if self._stale_in_a_row >= MOST_STALE:
            self._stale_in_a_row = 0
            self._schedule.hasten("stale")
        return False

    def _move(self, version: str) -> bool:
        if not newer(version, self._state.version):
            return False
        self._state.version = version
        return True
