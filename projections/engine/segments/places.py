"""ADAPTER: where segments lie. A file appears under its name when it is whole, and on disk.

A place is written in the ledger as it is found from there: a folder beside an SQLite ledger by its name, so that both can be moved
together, any other by its whole path.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

import sqlalchemy as sa

from bus import private_files
from bus.errors import DamagedSegmentError, LedgerError, SegmentPlaceError
from projections.engine.segments.form import LARGEST
from projections.engine.store import IN_MEMORY

#: What a killed process leaves: files that were not renamed yet.
_DRAFTS = "segment-*.zst.*.new"

_databases = sa.table("pragma_database_list", sa.column("name"), sa.column("file"))
#: The file of an SQLite ledger, also where another one that shows a past moment lies before it.
LEDGER_FILE = (
    sa.select(_databases.c.file)
    .where(_databases.c.name.in_(("live", "main")))
    .order_by(_databases.c.name)
    .limit(1)
)


class Place(Protocol):
    """Where segments lie."""

    def put(self, name: str, content: bytes) -> None:
        """Write a whole file, in place of one of this name. Raises SegmentPlaceError."""

    def get(self, name: str) -> bytes | None:
        """A whole file; None where there is none. Raises SegmentPlaceError, and DamagedSegmentError for one too large."""

    def has(self, name: str) -> bool:
        """Whether there is such a file. Raises SegmentPlaceError."""

    def exists(self) -> bool:
        """Whether the place itself is there, as seen from this machine. Raises SegmentPlaceError."""

    def where(self, name: str) -> str:
        """What a person finds the file by."""


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


def place_of(text: str, ledger_file: str | None) -> Place:
    """The place that is written so in a ledger, which lies in ``ledger_file`` where it is SQLite's."""
    folder = Path(text)
    if not folder.is_absolute():
        if ledger_file in IN_MEMORY:
            raise LedgerError("a ledger that is no file has no folder beside it", place=text)
        folder = Path(str(ledger_file)).parent / folder
    return FolderPlace(folder)


def written(folder: Path, made: sa.Engine) -> str:
    """How a folder is written in the ledger of ``made``."""
    file = made.url.database if made.dialect.name == "sqlite" else None
    if file not in IN_MEMORY:
        home = Path(str(file)).absolute().parent
        if folder.is_relative_to(home):
            return str(folder.relative_to(home))
    return str(folder)
