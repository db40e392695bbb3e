"""What the records of one source say, and whether it is news; and which objects of the newest list say nothing.

An object whose record is refused is there and in no row of the ledger. So each complete list names those that it holds,
until a list holds none.

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

#: Refused objects of one list that are named; the others are counted.
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
        """The event of ``record``. Raises what a translation raises."""
        return self._source.translate(record, self._labels)

    def item(self, record: Record) -> tuple[Event, str]:
        """The event of an item of a list and its uid, which may be "" where the item is refused.

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
        """That ``record`` says nothing that can be used."""
        return lines.refused(record, self._source.name, error)

    def begin_list(self) -> None:
        """A list begins: what is refused from now on is refused in it."""
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
