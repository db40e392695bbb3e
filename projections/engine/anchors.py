"""ADAPTER: signed heads in a bucket of an S3-compatible store, each an object of its own.

Where the store locks objects, or keeps their versions, nobody who can write ledger and bucket can take a head back. An object is
named by its event and its content, so another head of the same event stands beside it and does not replace it.

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
        self._kept = 0

    def keep(self) -> Head | None:
        """Put the newest head there; None where it is there. Raises ObjectStoreError."""
        newest = sa.select(heads).order_by(heads.c.sequence.desc()).limit(1)
        rows = self._store.select(newest)
        if not rows or rows[0][0] == self._kept:
            return None
        head = Head(int(rows[0][0]), *map(bytes, rows[0][1:4]))
        line = line_of(head)
        name = f"head-{head.sequence:012d}-{sha256(line).hexdigest()[:16]}.json"
        bucket_of(self._address).put(name, line)
        self._kept = head.sequence
        return head


def kept_at(address: str) -> list[Head]:
    """Every head that is kept in a bucket. Raises LedgerError naming the object that is none, or what the store refuses."""
    try:
        bucket = bucket_of(address)
        names = sorted(name for name in bucket.sizes() if _NAME.fullmatch(name))
        with ThreadPoolExecutor(AT_ONCE) as readers:
            return [*readers.map(lambda name: _read(bucket, name), names)]
    except ObjectStoreError as error:
        raise LedgerError(f"the heads kept elsewhere cannot be read: {error}") from None


def _read(bucket: Bucket, name: str) -> Head:
    line = bucket.get(name, LONGEST_LINE)
    try:
        return read_line(line or b"")
    except ValueError as error:
        raise LedgerError("an object is no head, though it is named as one", path=bucket.named(name)) from error  # fmt: skip
