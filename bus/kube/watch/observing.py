"""Translates the records of one source, detects news, and names refused objects of the newest list.

A refused object exists and has no row in the ledger. So each complete list names them, until a list has none.

Source: docs/accounting.md; docs/reliability.md.
"""

from __future__ import annotations

from bus.envelope import Event
from bus.errors import MalformedJsonError, ObservationError
from bus.events.observations import ObservationRefused
from bus.kube.watch import lines, records
from bus.kube.watch.contract import ReflectorState, Source
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Record
from bus.kube.watch.seen_versions import SeenVersions

#: Named refused objects of one list; the others are counted.
MOST_NAMED = 100


class Observing:
    """The records of one source of the cluster ``name``. It counts in the reflector's ``state``."""

    def __init__(
        self,
        source: Source,
        labels: LabelPolicy,
        state: ReflectorState,
        known: SeenVersions,
        name: str,
    ) -> None:
        self._source = source
        self._labels = labels
        self._state = state
        self._known = known
        self.name = name
        self.published_by = f"kube/{source.name}"
        self._unread: dict[str, str] = {}
        self._unread_count = 0

    def record(self, change: str, raw: bytes, received_us: int) -> Record:
        """One record as it was received."""
        return Record(change, raw, received_us, self.name, self.published_by)

    def translated(self, record: Record) -> Event:
        """The event of ``record``. Raises the errors of a translation."""
        return self._source.translate(record, self._labels)

    def item(self, record: Record) -> tuple[Event, str]:
        """The event of a list item and its uid. The uid may be "" for a refused item.

        A refused item is named, and its readable parts are published where its kind has a fact of these.
        """
        try:
            event = self.translated(record)
        except (MalformedJsonError, ObservationError) as error:
            refused = self._partly(record) or self.refused(record, error)
            uid = self._source.uid_of(record.object)
            self._unread_count += 1
            if len(self._unread) < MOST_NAMED:
                name = records.called(record.object) or uid or refused.key
                self._unread[name] = f"{type(error).__name__}: {error}"[: lines.LONGEST_REASON]
            return refused, uid
        return event, records.identity(event)[0]

    def _partly(self, record: Record) -> Event | None:
        if self._source.translate_partly is None:
            return None
        try:
            return self._source.translate_partly(record, self._labels)
        except (MalformedJsonError, ObservationError):
            return None

    def refused(self, record: Record, error: MalformedJsonError | ObservationError) -> Event:
        """The refusal of an unusable ``record``."""
        return lines.refused(record, self._source.name, error)

    def begin_list(self) -> None:
        """A list begins: refusals from now on count for it."""
        self._unread, self._unread_count = {}, 0

    def end_list(self) -> None:
        """The list was read to its end: it is the newest."""
        self._state.unread, self._state.unread_count = self._unread, self._unread_count

    def is_news(self, event: Event) -> bool:
        """Whether ``event`` says anything new; if so it counts as published from now on."""
        if not self._known.admit(event):
            self._state.skipped += 1
            return False
        if event.type == ObservationRefused.wire_type:
            self._state.refused += 1
        return True
