"""ADAPTER: files readable by their owner alone, made at a free path: no link is followed, no foreign file is used.

A user with write access to a folder can put a link in place of a new file, and redirect its content. So a new file
is made exclusively, and a replacement has an unguessable name until its renaming.

Source: ``man 2 open`` (``O_EXCL``, ``O_NOFOLLOW``); ``docs/operating.md``.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from pathlib import Path
from typing import BinaryIO

from bus.errors import ForeignFileError

_OWN = 0o600


def create(path: Path) -> BinaryIO:
    """A new, empty file. Raises FileExistsError where anything is there, a link to nowhere included."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, _OWN), "wb")


def draft(path: Path) -> Path:
    """An unguessable name beside ``path``: for a file that will be renamed to it."""
    return path.with_name(f"{path.name}.{secrets.token_hex(8)}.new")


def replace(path: Path, content: bytes) -> None:
    """Write a whole file in one step: no reader sees half of it, and a link of this name is replaced, not followed.

    Its content is on disk before it has its name, so a power cut leaves the old file or the new one. The name
    itself is on disk when the caller has flushed the folder.
    """
    new = draft(path)
    try:
        with create(new) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Flush a file's content, or the names in a folder, to disk."""
    found = os.open(path, os.O_RDONLY)
    try:
        os.fsync(found)
    finally:
        os.close(found)


def descriptor(path: Path, *, appends: bool = False) -> int:
    """A file to read and write, or to read and extend, made if it is not there.

    Raises ForeignFileError for a link, and for anything but a file.
    """
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        found = os.open(path, flags | (os.O_APPEND if appends else 0), _OWN)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise ForeignFileError("this is a link: remove it", path=str(path)) from None
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise ForeignFileError("this is no file: remove it", path=str(path))
    return found


def own_folder(folder: Path) -> None:
    """Make ``folder`` if it is not there, for its owner alone.

    Raises ForeignFileError if it belongs to another user, or if others may write it: they could exchange its files,
    keys and locks included.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = folder.stat()
    below = folder / "bursar"
    if found.st_uid != os.geteuid():
        raise ForeignFileError(
            f"{folder} belongs to user {found.st_uid}, and this process runs as user {os.geteuid()}: name a folder "
            f"that does not exist yet, such as {below}, or give this one over with chown"
        )
    if found.st_mode & 0o022:
        raise ForeignFileError(
            f"others may write {folder} (mode {found.st_mode & 0o7777:o}): `chmod go-w {folder}`, or name a folder that "
            f"does not exist yet, such as {below}"
        )
