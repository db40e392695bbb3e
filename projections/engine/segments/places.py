"""ADAPTER: places of segments. A file appears under its name when it is whole, and on disk.

A place is written in the ledger as it is found from there: a folder beside an SQLite ledger by its name, so both
can be moved together, any other by its whole path, and a bucket by its address. The store and its credentials come
from the reader's environment, never from the ledger.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Protocol

import sqlalchemy as sa

from bus import private_files
from bus.errors import DamagedSegmentError, LedgerError, ObjectStoreError, SegmentPlaceError
from bus.object_store import SCHEME, Bucket, bucket_of
from projections.engine.segments.form import LARGEST
from projections.engine.store import IN_MEMORY

#: Files of a killed process: files before their renaming.
_DRAFTS = "segment-*.zst.*.new"
#: Validity of a bucket's listing: `bursar status` asks after every segment.
LISTED_SECONDS = 5.0

_databases = sa.table("pragma_database_list", sa.column("name"), sa.column("file"))
#: The file of an SQLite ledger, also behind another one with a past moment.
LEDGER_FILE = (
    sa.select(_databases.c.file)
    .where(_databases.c.name.in_(("live", "main")))
    .order_by(_databases.c.name)
    .limit(1)
)


class SegmentPlace(Protocol):
    """A place of segments."""

    def put(self, name: str, content: bytes) -> None:
        """Write a whole file, in place of one of this name. Raises SegmentPlaceError."""

    def get(self, name: str) -> bytes | None:
        """A whole file; None where there is none. Raises SegmentPlaceError, and DamagedSegmentError for one too large."""

    def has(self, name: str) -> bool:
        """Whether there is such a file. Raises SegmentPlaceError."""

    def exists(self) -> bool:
        """Whether the place itself is there, as seen from this machine. Raises SegmentPlaceError."""

    def where(self, name: str) -> str:
        """The file's address for people."""


class FolderPlace:
    """A folder of this machine, for its owner alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, name: str, content: bytes) -> None:
        """Write a whole file, on disk with its name when this returns."""
        try:
            private_files.own_folder(self._folder)
            for left in self._folder.glob(_DRAFTS):
                left.unlink(missing_ok=True)
            private_files.replace(self._folder / name, content)
            private_files.sync(self._folder)
        except OSError as error:
            raise SegmentPlaceError(path=self.where(name), reason=error.strerror or str(error)) from error  # fmt: skip

    def get(self, name: str) -> bytes | None:
        """A whole file; None where there is none."""
        try:
            with (self._folder / name).open("rb") as file:
                if os.fstat(file.fileno()).st_size > LARGEST:
                    raise DamagedSegmentError("it is larger than any segment")
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SegmentPlaceError(path=self.where(name), reason=error.strerror or str(error)) from error  # fmt: skip

    def has(self, name: str) -> bool:
        """Whether there is such a file."""
        try:
            return (self._folder / name).is_file()
        except OSError as error:
            raise SegmentPlaceError(path=self.where(name), reason=error.strerror or str(error)) from error  # fmt: skip

    def exists(self) -> bool:
        """Whether there is such a folder."""
        try:
            return self._folder.is_dir()
        except OSError as error:
            raise SegmentPlaceError(path=str(self._folder), reason=error.strerror or str(error)) from error  # fmt: skip

    def where(self, name: str) -> str:
        """The path."""
        return str(self._folder / name)


class BucketPlace:
    """Below a prefix of a bucket of an S3-compatible store."""

    #: By address: the time of a bucket's listing, its existence, and its content.
    _seen: ClassVar[dict[str, tuple[float, bool, frozenset[str]]]] = {}

    def __init__(self, address: str) -> None:
        self._address = address.rstrip("/")

    def put(self, name: str, content: bytes) -> None:
        """Write a whole object."""
        with self._translated(name):
            self._bucket.put(name, content)
        self._seen.pop(self._address, None)

    def get(self, name: str) -> bytes | None:
        """A whole object; None where there is none."""
        with self._translated(name):
            found = self._bucket.get(name, LARGEST)
        if found is not None and len(found) > LARGEST:
            raise DamagedSegmentError("it is larger than any segment")
        return found

    def has(self, name: str) -> bool:
        """Whether there is such an object, or was a few seconds ago."""
        return name in self._listed()[1]

    def exists(self) -> bool:
        """Whether there is such a bucket, or was a few seconds ago."""
        return self._listed()[0]

    def where(self, name: str) -> str:
        """The address."""
        return f"{self._address}/{name}"

    @property
    def _bucket(self) -> Bucket:
        return bucket_of(self._address)

    def _listed(self) -> tuple[bool, frozenset[str]]:
        at, is_there, names = self._seen.get(self._address, (-LISTED_SECONDS, False, frozenset()))
        now = time.monotonic()
        if now - at >= LISTED_SECONDS:
            with self._translated(""):
                is_there = self._bucket.exists()
                names = frozenset(self._bucket.sizes() if is_there else ())
            self._seen[self._address] = now, is_there, names
        return is_there, names

    @contextmanager
    def _translated(self, name: str) -> Iterator[None]:
        try:
            yield
        except ObjectStoreError as error:
            raise SegmentPlaceError(path=self.where(name), reason=str(error)) from error


def place_of(text: str, ledger_file: str | None) -> SegmentPlace:
    """The place written like this in a ledger, itself in ``ledger_file`` if it is SQLite's."""
    if text.startswith(SCHEME):
        return BucketPlace(text)
    folder = Path(text)
    if not folder.is_absolute():
        if ledger_file in IN_MEMORY:
            raise LedgerError("a ledger that is no file has no folder beside it", place=text)
        folder = Path(str(ledger_file)).parent / folder
    return FolderPlace(folder)


def written(folder: Path | str, made: sa.Engine) -> str:
    """How a folder, or the address of a bucket, is written in the ledger of ``made``."""
    if isinstance(folder, str):
        return folder
    file = made.url.database if made.dialect.name == "sqlite" else None
    if file not in IN_MEMORY:
        home = Path(str(file)).absolute().parent
        if folder.is_relative_to(home):
            return str(folder.relative_to(home))
    return str(folder)
