"""Signed heads of the history: the proof against a copy kept elsewhere.

A head is (sequence, chain value there), signed with ed25519. A writer of the database can compute a new chain for a
changed archive, but not a signature, and not the heads already elsewhere. So heads go to the table ``heads`` and to
a file of one JSON line each. The file belongs on another disk or with another party.

The private key is in a file of its own, readable by its owner alone.

Source: docs/architecture.md; docs/reliability.md; RFC 8032.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec
import sqlalchemy as sa
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

from bus import private_files
from bus.errors import LedgerError
from projections.engine.checkpoint import Checkpoint
from projections.engine.store import Store
from projections.engine.tables import heads
from projections.engine.writers import writer

#: A head is written when this many events came since the last one, or this much time by the events' own clock.
EVERY_EVENTS = 1_000
EVERY_US = 60_000_000

#: More than a line of the file has.
LONGEST_LINE = 4_096

_CONTEXT = b"bursar head 1\n"
_SEAL_CONTEXT = b"bursar snapshot 1\n"
_BEGIN = b'{"sequence":'
_log = logging.getLogger(__name__)


class Head(msgspec.Struct, frozen=True):
    """The chain's value at one event, signed. Bytes, hexadecimal in the file."""

    sequence: int
    chain: bytes
    signature: bytes
    public_key: bytes


class _Line(msgspec.Struct, frozen=True):
    sequence: int
    chain: str
    signature: str
    public_key: str


#: Made here, as several threads read heads (:mod:`bus.decoders`).
_line = msgspec.json.Decoder(_Line)


class Signer:
    """Signs heads with the key in ``path``. A missing key is made, readable by its owner only.

    Raises LedgerError for an invalid key file, or one readable by others. The group of a root-owned file may read
    it.
    """

    def __init__(self, path: Path) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(_read_or_make(path))
        self.public_key = self._key.public_key().public_bytes_raw()

    def sign(self, sequence: int, chain: bytes) -> Head:
        """The signed head at ``sequence``."""
        return Head(
            sequence, chain, self._key.sign(_signed_content(sequence, chain)), self.public_key
        )

    def seal(self, digest: bytes) -> bytes:
        """The signature of a snapshot by its digest."""
        return self._key.sign(_SEAL_CONTEXT + digest)

    def signature(self, content: bytes) -> bytes:
        """The signature of a content with a context of its own as prefix, so it is valid for no other signed content."""
        return self._key.sign(content)


class HeadKeeper:
    """Signs the ledger's head at intervals, and writes it to the table and, if given, to a file.

    :meth:`committed` is made to be the runner's ``committed``: it costs nothing for most batches.
    """

    def __init__(self, store: Store, signer: Signer, file: Path | None = None) -> None:
        self._store = store
        self._signer = signer
        self._file = file
        self._sequence = self._observed_us = 0

    @property
    def public_key(self) -> bytes:
        """The signer of these heads."""
        return self._signer.public_key

    def pinned(self) -> bytes:
        """The key of the ledger's first head; empty where there is none yet."""
        first = sa.select(heads.c.public_key).order_by(heads.c.sequence).limit(1)
        return next((bytes(row[0]) for row in self._store.select(first)), b"")

    def committed(self, checkpoint: Checkpoint) -> None:
        """Sign if enough came since the last head."""
        if (
            checkpoint.sequence - self._sequence >= EVERY_EVENTS
            or checkpoint.observed_us - self._observed_us >= EVERY_US
        ):
            self.keep(checkpoint)

    def keep(self, checkpoint: Checkpoint) -> Head | None:
        """Sign now; None where there is no event yet. The file is on disk when this returns."""
        if checkpoint.sequence == 0:
            return None
        head = self._signer.sign(checkpoint.sequence, checkpoint.chain)
        with self._store.engine.begin() as connection:
            # The first head of an event stays: the first of all names the valid key.
            known = sa.select(heads.c.sequence).where(heads.c.sequence == head.sequence)
            if connection.execute(known).first() is None:
                writer(connection.dialect.name).insert(
                    connection,
                    heads,
                    [(head.sequence, head.chain, head.signature, head.public_key)],
                )
        if self._file is not None:
            append(self._file, head)
        self._sequence, self._observed_us = checkpoint.sequence, checkpoint.observed_us
        return head


def verify_head(head: Head, keys: Collection[bytes] = ()) -> bool:
    """Whether the head is signed by one of ``keys``, or by the key it names itself where none is given."""
    if keys and head.public_key not in keys:
        return False
    return is_signed(head.public_key, head.signature, signed_content(head))


def is_sealed(digest: bytes, seal: bytes, keys: Collection[bytes]) -> bool:
    """Whether one of ``keys`` signed the snapshot of this digest."""
    return any(is_signed(key, seal, _SEAL_CONTEXT + digest) for key in keys)


def is_signed(key: bytes, signature: bytes, content: bytes) -> bool:
    """Whether ``signature`` is the key holder's for ``content``; False for an invalid key."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, content)
    except (InvalidSignature, ValueError):
        return False
    return True


def append(path: Path, head: Head) -> None:
    """Add a head to a file, flushed to disk. An incomplete last line after a crash is cut back first.

    A head is one line and one write: killed anywhere, this leaves all heads before it, and at most a part of a line.
    """
    with os.fdopen(private_files.descriptor(path, appends=True), "ab+") as file:
        whole = _whole_lines(file)
        if whole < file.seek(0, os.SEEK_END):
            _log.warning("%s: a last line that a crash cut off is removed", path)
            file.truncate(whole)
        file.write(line_of(head))
        file.flush()
        os.fsync(file.fileno())


def _whole_lines(file: BinaryIO) -> int:
    """The bytes of ``file`` up to the end of its last whole line."""
    size = file.seek(0, os.SEEK_END)
    start = max(size - LONGEST_LINE, 0)
    file.seek(start)
    tail = file.read()
    if tail.endswith(b"\n") or not tail:
        return size
    end = tail.rfind(b"\n") + 1
    if not end and start:
        raise LedgerError("the file of heads does not end in a head", path=file.name)
    return start + end


def read_heads(path: Path) -> Iterator[Head]:
    """The heads of a file, as they are there. A line cut off by a crash is left out: the last one, and one
    continued by an earlier version.

    Raises LedgerError with the invalid line.
    """
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            head = read_line(line[max(line.rfind(_BEGIN), 0) :])
        except ValueError as error:
            raise LedgerError(
                "a line of the file of heads is no head: remove it, the others count without it",
                path=str(path), line=number,
            ) from error  # fmt: skip
        yield head


def line_of(head: Head) -> bytes:
    """A head as a line of JSON."""
    line = _Line(head.sequence, head.chain.hex(), head.signature.hex(), head.public_key.hex())
    return msgspec.json.encode(line) + b"\n"


def read_line(line: bytes) -> Head:
    """The head on a line. Raises ValueError."""
    read = _line.decode(line)
    texts = (read.chain, read.signature, read.public_key)
    return Head(read.sequence, *(bytes.fromhex(text) for text in texts))


def signed_content(head: Head) -> bytes:
    """The content signed for a head."""
    return _signed_content(head.sequence, head.chain)


def _signed_content(sequence: int, chain: bytes) -> bytes:
    return _CONTEXT + sequence.to_bytes(8, "big") + chain


def _read_or_make(path: Path) -> bytes:
    if not path.exists():
        _make(path)
    found = path.stat()
    # A mounted Secret belongs to root, and to the pod's own group (``fsGroup``).
    is_mounted = found.st_uid == 0 != os.geteuid()
    if found.st_mode & (0o037 if is_mounted else 0o077):
        raise LedgerError(
            "others may read the signing key: chmod 600, or `defaultMode: 0440` of a Secret's volume",
            path=str(path),
        )
    key = path.read_bytes()
    if len(key) != 32:
        raise LedgerError("the signing key is damaged", path=str(path))
    return key


def _make(path: Path) -> None:
    # Under another name first: a crash leaves no half a key, and of two processes one wins.
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(Ed25519PrivateKey.generate().private_bytes_raw())
        file.flush()
        os.fsync(file.fileno())
    with suppress(FileExistsError):
        os.link(new, path)
    new.unlink()
