"""One writer for one ledger: a lock that ends with the process that holds it.

SQLite: a locked file beside the database, which names its holder. PostgreSQL: an advisory lock of a session, so that two
machines cannot write one ledger either.

Source: docs/wrong-input.md.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from bus import private_files
from deploy.errors import LedgerBusyError


@contextmanager
def writer_lock(url: str, engine: sa.Engine, purpose: str) -> Iterator[None]:
    """Hold the ledger for one writer. Raises LedgerBusyError at once where another has it."""
    if engine.dialect.name == "sqlite":
        with _file_lock(Path(f"{sa.make_url(url).database}.lock"), purpose):
            yield
    else:
        with _session_lock(engine, url):
            yield


@contextmanager
def _file_lock(path: Path, purpose: str) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = private_files.descriptor(path)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 128, 0).decode("ascii", "replace").strip()
            raise LedgerBusyError(holder=holder or "unknown") from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"bursar {purpose}, process {os.getpid()}".encode(), 0)
        yield
        os.ftruncate(descriptor, 0)
    finally:
        # The file stays: removing it would let two processes lock two files of one name.
        os.close(descriptor)


@contextmanager
def _session_lock(engine: sa.Engine, url: str) -> Iterator[None]:
    key = int.from_bytes(hashlib.sha256(b"bursar ledger writer").digest()[:8], "big", signed=True)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        if not connection.scalar(sa.select(sa.func.pg_try_advisory_lock(key))):
            database = sa.make_url(url).database
            raise LedgerBusyError(holder=f"a session of the database {database!r}")
        yield
        connection.scalar(sa.select(sa.func.pg_advisory_unlock(key)))
