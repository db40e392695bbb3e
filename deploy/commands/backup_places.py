"""ADAPTER: the place of a backup: a folder, or a prefix in a bucket of an S3-compatible store.

Files of a bucket are handled in a private folder of this machine, one at a time: a file of events is downloaded, read and
removed. Every file of events is compared with its SHA-256 in the manifest, so the store is never trusted. The name of such a
file follows from its content. So of two backups at once each is complete, and the manifest written last is the backup.

Source: docs/operating.md.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from bus import private_files
from bus.errors import ObjectStoreError
from bus.object_store import SCHEME, Bucket, bucket_of
from deploy.errors import SettingsError
from projections.engine.segments.form import LARGEST

#: Leftovers of a killed backup: files that were not renamed yet (``private_files.draft``).
_DRAFT = re.compile(r"(events-\d{12}\.zst|backup\.json|heads\.jsonl|signing\.key)\.[0-9a-f]{16}\.new")  # fmt: skip


class BackupPlace(Protocol):
    """Where a backup lies."""

    #: Where its files are while they are worked on.
    folder: Path
    #: Whether another machine may write it: then files of events are named by their content, too.
    is_shared: bool

    @property
    def is_secret(self) -> bool:
        """Whether the written data is protected on its way."""

    def held(self) -> AbstractContextManager[None]:
        """A context with exclusive write access on this machine. Raises SettingsError."""

    def fetch(self, name: str) -> bool:
        """Bring a file to the folder; False where there is none. Raises SettingsError."""

    def keep(self, name: str) -> None:
        """Move a file written in the folder to the place of the backup. Raises SettingsError."""

    def drop(self, name: str) -> None:
        """A file is not needed in the folder any more; it stays where the backup lies."""

    def sizes(self) -> dict[str, int]:
        """Bytes of each file of the backup, by name. Raises SettingsError."""

    def named(self, name: str = "") -> str:
        """The name of a file, or of the place itself."""


@contextmanager
def place_of(where: str) -> Iterator[BackupPlace]:
    """The place in a user's argument. Raises SettingsError."""
    if not where.startswith(SCHEME):
        yield FolderPlace(Path(where))
        return
    with _translated():
        bucket = bucket_of(where)
    with tempfile.TemporaryDirectory(prefix="bursar-backup-") as folder:
        yield BucketPlace(bucket, Path(folder))


class FolderPlace:
    """A folder of this machine."""

    is_shared = False
    is_secret = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder for one backup, and remove leftovers of a
        killed one. Raises SettingsError if another one writes it."""
        private_files.own_folder(self.folder)
        descriptor = private_files.descriptor(self.folder / "lock")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for left in [one for one in self.folder.iterdir() if _DRAFT.fullmatch(one.name)]:
                left.unlink()
            yield
        except BlockingIOError:
            raise SettingsError(f"{self.folder}: another backup writes it at this moment") from None
        finally:
            os.close(descriptor)

    def fetch(self, name: str) -> bool:
        """Whether a file is there."""
        return (self.folder / name).is_file()

    def keep(self, name: str) -> None:
        """Do nothing: it is in its place."""

    def drop(self, name: str) -> None:
        """Do nothing: it stays."""

    def sizes(self) -> dict[str, int]:
        """Bytes of each file, by name."""
        return {one.name: one.stat().st_size for one in self.folder.iterdir() if one.is_file()}

    def named(self, name: str = "") -> str:
        """Its path."""
        return str(self.folder / name if name else self.folder)


class BucketPlace:
    """Objects below a prefix of a bucket."""

    is_shared = True

    def __init__(self, bucket: Bucket, folder: Path) -> None:
        self._bucket = bucket
        self.is_secret, self.folder = bucket.is_secret, folder

    @contextmanager
    def held(self) -> Iterator[None]:
        """Do nothing: the folder is private, and another writer of the bucket does no harm."""
        yield

    def fetch(self, name: str) -> bool:
        """Bring an object to the folder; False where there is none. Raises SettingsError."""
        with _translated():
            return self._bucket.fetch(name, self.folder / name, LARGEST)

    def keep(self, name: str) -> None:
        """Put a file into the bucket. Raises SettingsError."""
        with _translated():
            self._bucket.put_file(name, self.folder / name)

    def drop(self, name: str) -> None:
        """Remove the file from this machine."""
        (self.folder / name).unlink(missing_ok=True)

    def sizes(self) -> dict[str, int]:
        """Bytes of each object below the prefix, by name. Raises SettingsError."""
        with _translated():
            return self._bucket.sizes()

    def named(self, name: str = "") -> str:
        """Its address."""
        return self._bucket.named(name)


@contextmanager
def _translated() -> Iterator[None]:
    """Translate a store's errors to messages for the user of a command."""
    try:
        yield
    except ObjectStoreError as error:
        raise SettingsError(str(error)) from None
