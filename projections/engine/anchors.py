"""ADAPTER: signed heads kept where nobody who can write the ledger takes them back: in a bucket, or in ConfigMaps of a cluster.

A head is an object of its own and replaces none. Who may write there may put rubbish there; it is named, and hides no head.

- A bucket of an S3-compatible store: where the store locks objects, what was written over or deleted is still a version, and
  is read, too. An object is named by its event and its content, so another head of the same event stands beside it.
- ConfigMaps: immutable, and made by who may make and delete none. One of each day (UTC), so that a year's are few.

Source: docs/history.md (the chain); Amazon S3 object lock; Kubernetes, "Immutable ConfigMaps".
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

import sqlalchemy as sa

from bus.clock import Clock, SystemClock, format_stamp
from bus.errors import BursarError, LedgerError
from bus.object_store import Bucket, bucket_of
from projections.engine.heads import LONGEST_LINE, Head, line_of, read_line
from projections.engine.store import Store
from projections.engine.tables import heads

if TYPE_CHECKING:
    from bus.kube.client.config_maps import ConfigMaps

_NAME = re.compile(r"head-\d{12,}-[0-9a-f]{16}\.json")
#: Objects that are read at a time.
AT_ONCE = 8


class Place(Protocol):
    """Where heads are kept."""

    def keep(self, head: Head) -> None:
        """Keep a head. Raises BursarError with why that cannot be."""

    def kept(self) -> list[tuple[str, bytes]]:
        """Whatever is named as a head there: where it is, and its line. Raises BursarError."""


class Objects:
    """Objects below ``s3://BUCKET/PREFIX``."""

    def __init__(self, address: str) -> None:
        self._address = address

    def keep(self, head: Head) -> None:
        """See :class:`Place`."""
        line = line_of(head)
        name = f"head-{head.sequence:012d}-{sha256(line).hexdigest()[:16]}.json"
        bucket_of(self._address).put(name, line)

    def kept(self) -> list[tuple[str, bytes]]:
        """See :class:`Place`. Also what was written over or deleted since, and is there as a version."""
        bucket = bucket_of(self._address)
        places = [place for place in bucket.versions() if _NAME.fullmatch(place[0])]
        with ThreadPoolExecutor(AT_ONCE) as readers:
            return [*readers.map(lambda place: _read(bucket, *place), places)]


def _read(bucket: Bucket, name: str, version: str | None) -> tuple[str, bytes]:
    return bucket.named(name), bucket.get(name, LONGEST_LINE, version) or b""


class DailyHeads:
    """ConfigMaps, one of each day."""

    def __init__(self, found: ConfigMaps, clock: Clock | None = None) -> None:
        self._found, self._clock = found, clock or SystemClock()

    def keep(self, head: Head) -> None:
        """See :class:`Place`. Raises LedgerError where the day's place holds what is no head of this ledger."""
        name = f"head-{format_stamp(self._clock.now_us())[:10]}"
        there = self._found.make(name, line_of(head).decode())
        if there is None:
            return
        try:
            is_ours = read_line(there.encode()).public_key == head.public_key
        except ValueError:
            is_ours = False
        if not is_ours:
            raise LedgerError(
                "what is there is no head of this ledger: name another place in ledger.anchor, or delete it",
                config_map=self._found.named(name),
            )

    def kept(self) -> list[tuple[str, bytes]]:
        """See :class:`Place`."""
        found = self._found.all()
        return [(f"ConfigMap {name}", text.encode()) for name, text in sorted(found.items())]


class Anchor:
    """Keeps the newest head of a ledger elsewhere."""

    def __init__(self, store: Store, place: Place) -> None:
        self._store, self._place = store, place
        #: The event of the head that was put there last; 0 = none was yet.
        self.kept = 0

    def keep(self) -> Head | None:
        """Put the newest head there; None where it is there. Raises BursarError."""
        newest = sa.select(heads).order_by(heads.c.sequence.desc()).limit(1)
        rows = self._store.select(newest)
        if not rows or rows[0][0] == self.kept:
            return None
        head = Head(int(rows[0][0]), *map(bytes, rows[0][1:4]))
        self._place.keep(head)
        self.kept = head.sequence
        return head


def kept_at(place: Place) -> tuple[list[Head], list[str]]:
    """Every head that is kept there, and what is named as one and is none. Raises LedgerError with why they cannot be read."""
    try:
        found = place.kept()
    except BursarError as error:
        raise LedgerError(f"the heads kept elsewhere cannot be read: {error}") from None
    kept, wrong = [], []
    for where, line in found:
        try:
            kept.append(read_line(line))
        except ValueError:
            wrong.append(f"{where} is named as a head and is none")
    return kept, wrong
