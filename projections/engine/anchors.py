"""ADAPTER: signed heads kept out of reach of the ledger's writers: a bucket, ConfigMaps of a cluster, or a log.

A head is an object of its own and replaces none. A writer there may add invalid objects; they are named, and hide
no head.

- A bucket of an S3-compatible store: where the store locks objects, overwritten and deleted ones are still
  versions, and are read, too. An object is named by its event and its content, so another head of the same event
  stands beside it.
- ConfigMaps: immutable, and made by a user without the right to delete. One of each day (UTC), so that a year's are
  few.
- A transparency log has a head's signature and the SHA-256 of its signed content. So it keeps none, but proves
  their existence: the ledger must have each of them.

Source: docs/history.md (the chain); Amazon S3 object lock; Kubernetes, "Immutable ConfigMaps"; Sigstore, Rekor.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol, TypeAlias

import sqlalchemy as sa

from bus.clock import SECOND_US, Clock, SystemClock, format_stamp
from bus.errors import BursarError, LedgerError
from bus.object_store import Bucket, bucket_of
from projections.engine.heads import LONGEST_LINE, Head, line_of, read_line, signed_content
from projections.engine.store import Store
from projections.engine.tables import heads

if TYPE_CHECKING:
    from bus.kube.client.config_maps import ConfigMaps
    from bus.transparency_log import TransparencyLog

_NAME = re.compile(r"head-\d{12,}-[0-9a-f]{16}\.json")
#: Objects read at a time.
AT_ONCE = 8
DAY_US = 86_400 * SECOND_US


#: Heads, and why others are none.
Kept: TypeAlias = tuple[list[Head], list[str]]


class AnchorPlace(Protocol):
    """A place of heads."""

    def keep(self, head: Head) -> None:
        """Keep a head. Raises BursarError with the reason."""

    def kept(self, known: Sequence[Head], keys: Collection[bytes]) -> Kept:
        """The heads there, and the faults of invalid ones. Raises BursarError.

        ``known``: the ledger's own heads. ``keys``: their required signers, besides these.
        """


class Objects:
    """Objects below ``s3://BUCKET/PREFIX``."""

    def __init__(self, address: str) -> None:
        self._address = address

    def keep(self, head: Head) -> None:
        """See :class:`AnchorPlace`."""
        line = line_of(head)
        name = f"head-{head.sequence:012d}-{sha256(line).hexdigest()[:16]}.json"
        bucket_of(self._address).put(name, line)

    def kept(self, known: Sequence[Head], keys: Collection[bytes]) -> Kept:
        """See :class:`AnchorPlace`. Overwritten and deleted objects count too, as versions."""
        bucket = bucket_of(self._address)
        places = [place for place in bucket.versions() if _NAME.fullmatch(place[0])]
        with ThreadPoolExecutor(AT_ONCE) as readers:
            return _lines(readers.map(lambda place: _read(bucket, *place), places))


def _read(bucket: Bucket, name: str, version: str | None) -> tuple[str, bytes]:
    return bucket.named(name), bucket.get(name, LONGEST_LINE, version) or b""


class DailyHeads:
    """ConfigMaps, one of each day."""

    def __init__(self, found: ConfigMaps, clock: Clock | None = None) -> None:
        self._found, self._clock = found, clock or SystemClock()

    def keep(self, head: Head) -> None:
        """See :class:`AnchorPlace`. Raises LedgerError if the day's place holds another text than a head of this ledger."""
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

    def kept(self, known: Sequence[Head], keys: Collection[bytes]) -> Kept:
        """See :class:`AnchorPlace`."""
        found = self._found.all()
        return _lines((f"ConfigMap {name}", text.encode()) for name, text in sorted(found.items()))


class LoggedHeads:
    """Entries of a transparency log, one of each day and one of each start."""

    def __init__(self, log: TransparencyLog, clock: Clock | None = None) -> None:
        self._log, self._clock = log, clock or SystemClock()
        self._next_us = 0

    def keep(self, head: Head) -> None:
        """See :class:`AnchorPlace`."""
        now_us = self._clock.now_us()
        if now_us >= self._next_us:
            self._log.add(signed_content(head), head.signature, head.public_key)
            self._next_us = now_us + DAY_US

    def kept(self, known: Sequence[Head], keys: Collection[bytes]) -> Kept:
        """See :class:`AnchorPlace`. A head in the log but not in the ledger was removed from the ledger."""
        ours = {(one.public_key, one.signature): one for one in known}
        kept, wrong = [], []
        for key in sorted({one.public_key for one in known}.union(keys)):
            for entry in self._log.witnessed(key):
                head = ours.get((key, entry.signature))
                if head is not None and sha256(signed_content(head)).hexdigest() == entry.digest:
                    kept.append(head)
                else:
                    taken = format_stamp(entry.taken_s * SECOND_US)
                    wrong.append(f"entry {entry.index} of the log, of {taken}, is of a head that this ledger has not")  # fmt: skip
        return kept, wrong


class Anchor:
    """Keeps the newest head of a ledger elsewhere."""

    def __init__(self, store: Store, place: AnchorPlace) -> None:
        self._store, self._place = store, place
        #: The event of the last head put there; 0 = none was yet.
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


def kept_at(place: AnchorPlace, known: Sequence[Head], keys: Collection[bytes]) -> Kept:
    """See :meth:`AnchorPlace.kept`. Raises LedgerError with why they cannot be read."""
    try:
        return place.kept(known, keys)
    except BursarError as error:
        raise LedgerError(f"the heads kept elsewhere cannot be read: {error}") from None


def _lines(found: Iterable[tuple[str, bytes]]) -> Kept:
    """Lines named as heads, each with its place."""
    kept, wrong = [], []
    for where, line in found:
        try:
            kept.append(read_line(line))
        except ValueError:
            wrong.append(f"{where} is named as a head and is none")
    return kept, wrong
