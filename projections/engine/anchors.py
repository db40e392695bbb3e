"""ADAPTER: signed heads in a bucket of an S3-compatible store, each an object of its own.

Where the store locks objects, nobody who can write ledger and bucket can take a head back: what was written over or deleted there
is still a version, and is read, too. An object is named by its event and its content, so another head of the same event stands
beside it. Who writes the bucket may put rubbish there; it is named, and hides no head.

Source: docs/history.md (the chain); Amazon S3 object lock.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256

import sqlalchemy as sa

from bus.errors import LedgerError, ObjectStoreError
from bus.object_store import Bucket, bucket_of
from projections.engine.heads import LONGEST_LINE, Head, line_of, read_line
from projections.engine.store import Store
from projections.engine.tables import heads

_NAME = re.compile(r"head-\d{12,}-[0-9a-f]{16}\.json")
#: Objects that are read at a time.
AT_ONCE = 8


class Anchor:
    """Keeps the newest head of a ledger in a bucket."""

    def __init__(self, store: Store, address: str) -> None:
        self._store, self._address = store, address
        #: The event of the head that was put there last; 0 = none was yet.
        self.kept = 0

    def keep(self) -> Head | None:
        """Put the newest head there; None where it is there. Raises ObjectStoreError."""
        newest = sa.select(heads).order_by(heads.c.sequence.desc()).limit(1)
        rows = self._store.select(newest)
        if not rows or rows[0][0] == self.kept:
            return None
        head = Head(int(rows[0][0]), *map(bytes, rows[0][1:4]))
        line = line_of(head)
        name = f"head-{head.sequence:012d}-{sha256(line).hexdigest()[:16]}.json"
        bucket_of(self._address).put(name, line)
        self.kept = head.sequence
        return head


def kept_at(address: str) -> tuple[list[Head], list[str]]:
    """Every head that is kept in a bucket, also one that was written over or deleted since and is there as a version; and what
    is named as one and is none. Raises LedgerError with what the store refuses.
    """
    try:
        bucket = bucket_of(address)
        places = [place for place in bucket.versions() if _NAME.fullmatch(place[0])]
        with ThreadPoolExecutor(AT_ONCE) as readers:
            found = [*readers.map(lambda place: _read(bucket, *place), places)]
    except ObjectStoreError as error:
        raise LedgerError(f"the heads kept elsewhere cannot be read: {error}") from None
    wrong = [
        f"{bucket.named(name)} is named as a head and is none"
        for (name, _), head in zip(places, found, strict=True)
        if head is None
    ]
    return [head for head in found if head is not None], wrong


def _read(bucket: Bucket, name: str, version: str | None) -> Head | None:
    line = bucket.get(name, LONGEST_LINE, version)
    try:
        return read_line(line or b"")
    except ValueError:
        return None
