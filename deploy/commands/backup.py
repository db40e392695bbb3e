"""Keeps the archive in another folder or bucket, and restores a ledger from it, as of its end or of any event before.

A backup is the archive's rows, byte for byte, in files of so many events, and a manifest with the SHA-256 of each file and the
chain's value at its end. The next backup into the same place adds the newer events. Rows are not kept: they follow from
the archive, and are folded again. A manifest is written last and in one step, after all its files are on disk. So an
interrupted backup (by a power cut, too) leaves the one before it intact. An interrupted restore goes on.

A backup's file of heads never shrinks: a head lost by the ledger is the most important one. A restore accepts the heads that
agree with the computed chain, and of one key.

Source: ``docs/operating.md``; docs/reliability.md.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator

import msgspec
import sqlalchemy as sa

from bus import private_files
from bus.envelope import GENESIS, Event, chain
from bus.errors import DamagedSegmentError, LedgerError
from deploy.commands.backup_heads import SEQUENCE, Warned, accepted_heads, all_heads, keep_heads
from deploy.commands.backup_places import BackupPlace
from deploy.errors import SettingsError
from deploy.runtime.ledgers import held_ledger, reading
from deploy.settings.shape import Settings
from projections.catalogue import MODEL
from projections.engine.checkpoint import Checkpoint
from projections.engine.collecting import seldom_collecting
from projections.engine.folder import Folder
from projections.engine.heads import Signer, read_heads
from projections.engine.replay import archived, live_checkpoint
from projections.engine.segments.form import LARGEST, event_of, pack, size_of, unpack
from projections.engine.segments.reading import chain_at, selecting
from projections.engine.store import Store

MANIFEST = "backup.json"
HEADS = "heads.jsonl"
KEY = "signing.key"
#: Events of one file at most, their bytes (one event may have more), and events of one transaction of a restore.
FILE_EVENTS = 50_000
FILE_BYTES = 64 * 2**20
BATCH = 5_000
#: A manifest names no file of more events than this.
MOST_EVENTS = 1_000_000
#: More bytes than a manifest has.
LARGEST_MANIFEST = 64 * 2**20
#: It is a part of a file's name, so it may contain nothing else.
_SHA256 = re.compile(r"[0-9a-f]{64}")

Progress = Callable[[int, int], None]


class BackupPart(msgspec.Struct, frozen=True):
    """A file of events, from the event ``first`` to ``last``. ``chain``: its value at the last, hexadecimal."""

    name: str
    first: int
    last: int
    sha256: str
    chain: str


class Manifest(msgspec.Struct, frozen=True):
    """The content of a backup, and its source stream."""

    format: int = 1
    stream: str = ""
    stream_created_us: int = 0
    incarnation: int = 1
    parts: tuple[BackupPart, ...] = ()

    @property
    def sequence(self) -> int:
        """The last event."""
        return self.parts[-1].last if self.parts else 0

    @property
    def chain(self) -> bytes:
        """The chain's value at it."""
        return bytes.fromhex(self.parts[-1].chain) if self.parts else GENESIS


class Backup(msgspec.Struct):
    """The events added by a backup, and all its events."""

    added: int
    events: int
    files: int
    bytes: int


class Restored(msgspec.Struct):
    """The number of folded events, and the last event of the ledger. ``signing_key``: the public part of the restored key."""

    folded: int
    sequence: int
    heads: int
    signing_key: str = ""


def backup(settings: Settings, place: BackupPlace, *, with_key: bool, progress: Progress, warned: Warned) -> Backup:  # fmt: skip
    """Add the missing events of the archive to ``place``, also while the ledger is written.

    ``warned`` is called with a message about unreadable heads. Raises AbsentLedgerError; SettingsError if the place holds
    another history or cannot be written, or there is no key; and LedgerError if the archive or the backup's heads are damaged.
    """
    if with_key:
        _require_secret(place)
    key, folder = _read_key(settings) if with_key else None, place.folder
    with place.held(), reading(settings) as connection:
        found = _manifest(place) if place.fetch(MANIFEST) else Manifest()
        newest = live_checkpoint(connection)
        begun = found.sequence
        _check_history(connection, found, newest.sequence, place)
        place.fetch(HEADS)
        content = all_heads(settings, connection, folder / HEADS, warned)
        found = msgspec.structs.replace(
            found, stream=newest.stream, stream_created_us=newest.stream_created_us,
            incarnation=newest.incarnation,
        )  # fmt: skip
        for part in _cut(archived(connection, begun + 1, newest.sequence, BATCH)):
            found = msgspec.structs.replace(found, parts=(*found.parts, _write(place, found, part)))
            progress(part[-1].sequence, newest.sequence)
        if (found.sequence, found.chain) != (newest.sequence, newest.chain):
            raise LedgerError("the archive is not what its chain says: see `bursar verify`")
        if content:
            private_files.replace(folder / HEADS, content)
            place.keep(HEADS)
        if key is not None:
            private_files.replace(folder / KEY, key)
            place.keep(KEY)
            place.drop(KEY)
        # The names of the manifest's files must be on disk before the manifest.
        private_files.sync(folder)
        private_files.replace(folder / MANIFEST, msgspec.json.format(msgspec.json.encode(found)))
        private_files.sync(folder)
        place.keep(MANIFEST)
    sizes = place.sizes()
    size = sum(sizes[one.name] for one in found.parts)
    return Backup(found.sequence - begun, found.sequence, len(found.parts), size)


def restore(
    settings: Settings, place: BackupPlace, at: int | None, *, with_key: bool, progress: Progress, warned: Warned
) -> Restored:  # fmt: skip
    """Make the ledger of the settings from a backup, up to the event
    ``at``, by default the last. Continues after an interruption.

    ``with_key``: restore the backup's signing key. ``warned`` is called with a message about heads, or a key, left out. Raises
    SettingsError if a file of the backup is missing or damaged, if the ledger holds anything else, or if another key is
    here, and LedgerError if the backup's heads or its key are damaged.
    """
    found, folder = read_manifest(place), place.folder
    until = found.sequence if at is None else at
    if not 1 <= until <= found.sequence:
        raise SettingsError(f"--at: the backup has the events 1 to {found.sequence:,}")
    secret, key = _offered_key(settings, place) if with_key else (b"", b"")
    if not with_key and KEY in place.sizes():
        warned("the backup holds a signing key, which is left out: --with-key takes it")
    read = read_heads(folder / HEADS) if place.fetch(HEADS) else ()
    candidates = sorted((one for one in read if 1 <= one.sequence <= until), key=SEQUENCE)
    with held_ledger(settings, "restore") as (store, _):
        begun = store.checkpoint(MODEL.version)
        if begun.sequence == 0:
            begun = Checkpoint(MODEL.version, found.stream, found.stream_created_us, found.incarnation)  # fmt: skip
        witnessed = [one.sequence for one in candidates]
        with seldom_collecting():
            ended, chains = _fold(store, begun, found, place, until, witnessed, progress)
        accepted = accepted_heads(candidates, chains, key, warned)
        keep_heads(settings, store, accepted)
    if key:
        private_files.replace(settings.signing_key, secret)
    return Restored(ended.sequence - begun.sequence, ended.sequence, len(accepted), key.hex())


def read_manifest(place: BackupPlace) -> Manifest:
    """The content of a backup. Raises SettingsError."""
    place.fetch(MANIFEST)
    return _manifest(place)


def _manifest(place: BackupPlace) -> Manifest:
    path = place.named(MANIFEST)
    try:
        with (place.folder / MANIFEST).open("rb") as file:
            found = msgspec.json.decode(file.read(LARGEST_MANIFEST), type=Manifest)
        expected = [1, *(one.last + 1 for one in found.parts)]
        is_right = found.format == 1 and all(
            one.first == first and first <= one.last < first + MOST_EVENTS and one.name in (_name(first), _name(first, one.sha256))
            and len(bytes.fromhex(one.chain)) == len(GENESIS) and _SHA256.fullmatch(one.sha256)
            for one, first in zip(found.parts, expected, strict=False)
        )  # fmt: skip
    except OSError as error:
        raise SettingsError(f"{path}: no backup can be read: {error.strerror or error}") from None
    except (msgspec.DecodeError, ValueError) as error:
        raise SettingsError(f"{path}: damaged: {error}") from None
    if not is_right:
        raise SettingsError(f"{path}: damaged, or of another version of Bursar")
    return found


def _check_history(
    connection: sa.Connection, found: Manifest, newest: int, place: BackupPlace
) -> None:
    if not found.sequence:
        return
    there = chain_at(selecting(connection), found.sequence)
    if found.sequence > newest or there != found.chain:
        raise SettingsError(
            f"{place.named()} holds a backup of another history, {found.sequence:,} events of it: name another place"
        )


def _read_key(settings: Settings) -> bytes:
    try:
        return settings.signing_key.read_bytes()
    except OSError as error:
        why = f"no key can be read ({error.strerror or error}); `bursar up` makes one"
        raise SettingsError(f"--with-key: {settings.signing_key}: {why}") from None


def _offered_key(settings: Settings, place: BackupPlace) -> tuple[bytes, bytes]:
    """The backup's key as its file has it, and the public part. Raises SettingsError, and LedgerError where it is damaged."""
    _require_secret(place)
    if not place.fetch(KEY):
        raise SettingsError(f"--with-key: {place.named()} holds no signing key")
    secret, key = (place.folder / KEY).read_bytes(), Signer(place.folder / KEY).public_key
    # A kill must not leave a key behind on a machine without a right to it.
    place.drop(KEY)
    here = settings.signing_key
    if here.exists() and (mine := Signer(here).public_key) != key:
        raise SettingsError(
            f"--with-key: {here} is the key {mine.hex()}, the backup's is {key.hex()}: move one away, or restore without --with-key"
        )
    return secret, key


def _require_secret(place: BackupPlace) -> None:
    if not place.is_secret:
        raise SettingsError(
            f"{place.named()}: --with-key: the store is asked without TLS, and whoever is on the way could read the key"
        )


def _cut(batches: Iterable[list[Event]]) -> Iterator[list[Event]]:
    """The events in lists, each for one file."""
    part: list[Event] = []
    size = 0
    for event in (event for batch in batches for event in batch):
        more = size_of(event)
        if part and (len(part) >= FILE_EVENTS or size + more > FILE_BYTES):
            yield part
            part, size = [], 0
        part.append(event)
        size += more
    if part:
        yield part


def _name(first: int, sha256: str = "") -> str:
    return f"events-{first:012d}{sha256 and '-'}{sha256[:16]}.zst"


def _write(place: BackupPlace, found: Manifest, part: list[Event]) -> BackupPart:
    if (part[0].sequence, part[-1].sequence) != (found.sequence + 1, found.sequence + len(part)):
        raise LedgerError("the archive has a gap: see `bursar verify`")
    packed = pack(part)
    sha256 = hashlib.sha256(packed).hexdigest()
    name = _name(part[0].sequence, sha256 if place.is_shared else "")
    private_files.replace(place.folder / name, packed)
    place.keep(name)
    place.drop(name)
    last = chain(found.chain, part)[-1]
    return BackupPart(name, part[0].sequence, part[-1].sequence, sha256, last.hex())


def _fold(
    store: Store, checkpoint: Checkpoint, found: Manifest, place: BackupPlace, until: int, witnessed: list[int],
    progress: Progress,
) -> tuple[Checkpoint, dict[int, bytes]]:  # fmt: skip
    """Fold the events after ``checkpoint``, up to ``until``; the ledger's own events must be their beginning.

    Returns also the computed chain's values at the events ``witnessed``, in order.
    """
    folds = Folder(MODEL, store)
    folds.open()
    link = GENESIS
    chains: dict[int, bytes] = {}
    for one in found.parts:
        if one.first > until:
            break
        part = _read(place, one)
        links = chain(link, part)
        if links[-1].hex() != one.chain:
            raise SettingsError(f"{place.named(one.name)}: not what the backup's chain says")
        link = links[-1]
        begin, end = bisect_left(witnessed, one.first), bisect_right(witnessed, one.last)
        chains |= {sequence: links[sequence - one.first] for sequence in witnessed[begin:end]}
        if one.first <= checkpoint.sequence <= one.last and links[checkpoint.sequence - one.first] != checkpoint.chain:  # fmt: skip
            raise SettingsError(
                "the ledger holds another history: restore into a data folder that does not exist yet (--data)"
            )
        part = [event for event in part if checkpoint.sequence < event.sequence <= until]
        for start in range(0, len(part), BATCH):
            batch = part[start : start + BATCH]
            checkpoint = store.commit(batch, folds.fold(batch), checkpoint)
            folds.settle()
            progress(checkpoint.sequence, until)
    if checkpoint.sequence != until:
        raise SettingsError(
            f"the ledger holds {checkpoint.sequence:,} events, which is more than was asked for: "
            "restore into a data folder that does not exist yet (--data)"
        )
    return checkpoint, chains


def _read(place: BackupPlace, part: BackupPart) -> list[Event]:
    path = place.named(part.name)
    try:
        place.fetch(part.name)
        with (place.folder / part.name).open("rb") as file:
            packed = file.read(LARGEST + 1)
        place.drop(part.name)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror or error}") from None
    if hashlib.sha256(packed).hexdigest() != part.sha256:
        raise SettingsError(f"{path}: damaged: it is not the file that was written")
    try:
        found = [event_of(row) for row in unpack(packed, part.last - part.first + 1)]
    except DamagedSegmentError as error:
        raise SettingsError(f"{path}: damaged: {error}") from None
    if [event.sequence for event in found] != list(range(part.first, part.last + 1)):
        raise SettingsError(f"{path}: not the events {part.first:,} to {part.last:,}")
    return found
