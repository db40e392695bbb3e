"""ADAPTER: snapshots in the ledger: written whole or not at all, thinned out, and read only if valid.

A snapshot holds the state of a reader of the history after one event. It is valid if it is unchanged (digest),
written by the same rules in the same shape (version), and of this history: stream, incarnation, and the chain's
value at its sequence are those of the ledger. A wrong one is passed over for an older one; without any, the history
is read from its beginning. So a snapshot is never needed, and may be deleted at any time.

A writer of the ledger can make a snapshot with a valid digest. So it is sealed with the signing key of the
history's heads, and a deciding process trusts only snapshots sealed by its own key.

Source: docs/architecture.md (snapshots); docs/reliability.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator

import msgspec
import sqlalchemy as sa

from bus.clock import SECOND_US
from bus.crashpoints import crashpoint
from projections.engine.segments.reading import Select, at, chain_at
from projections.engine.store import Store
from projections.engine.tables import checkpoints, snapshots

#: Version of the common form of all snapshots, and of changes invisible in the parts' shapes: it grows when a fold
#: gives another state for the same history.
FORM = 3

#: Most bytes of a state: twenty times the need of 100,000 pods. A state above the second number has at most so many
#: times its packed bytes; those of real histories have ten.
LARGEST = 2**31
FREE, RATIO = 64 * 2**20, 1_000

#: Number of newest kept snapshots, and after them of days with their newest one.
NEWEST = 3
DAYS = 30
_DAY_US = 86_400 * SECOND_US


class Reader(msgspec.Struct, frozen=True):
    """The owner of a snapshot: a reader of the history of ``cluster``. its rules and its shape. by which rules and
    in which shape.
    """

    name: str
    cluster: str
    rules: str

    @property
    def version(self) -> str:
        """The text compared with a snapshot's."""
        return f"{FORM}-{hashlib.sha256(self.rules.encode()).hexdigest()[:32]}"


class Snapshot(msgspec.Struct, frozen=True):
    """One row, without the state."""

    name: str
    cluster: str
    sequence: int
    version: str
    time_us: int
    stream: str
    stream_created_us: int
    incarnation: int
    chain: bytes

    def digest(self, state: bytes) -> bytes:
        """The checksum to find a damaged row or state."""
        return hashlib.sha256(msgspec.msgpack.encode(self) + state).digest()


def write(
    store: Store,
    reader: Reader,
    sequence: int,
    state: bytes,
    seal: Callable[[bytes], bytes] | None = None,
) -> bool:
    """Store the state of ``reader`` after the event ``sequence``, as MessagePack. False: the archive has no such
    event yet.

    ``seal`` signs a digest, see :meth:`projections.engine.heads.Signer.seal`; None: nobody's decisions will rest on it.
    """
    found, moved = at(store.select, sequence), store.select(sa.select(checkpoints))
    if found is None or not moved:
        return False
    (event, chain), (_, _, stream, created_us, incarnation, *_) = found, moved[0]
    row = Snapshot(
        reader.name, reader.cluster, sequence, reader.version, event.time_us, stream, created_us, incarnation, chain
    )  # fmt: skip
    import zstandard

    packed = zstandard.compress(state)
    digest = row.digest(packed)
    sealed = digest + (seal(digest) if seal is not None else b"")
    columns = snapshots.c
    mine = sa.and_(columns.name == reader.name, columns.cluster == reader.cluster)
    crashpoint("snapshot.before_write")
    with store.engine.begin() as connection:
        connection.execute(snapshots.delete().where(mine, columns.sequence == sequence))
        values = {**msgspec.structs.asdict(row), "digest": sealed, "state": packed}
        connection.execute(snapshots.insert().values(values))
        known = connection.execute(sa.select(columns.sequence, columns.time_us).where(mine))
        needless = _needless([(row[0], row[1]) for row in known])
        connection.execute(snapshots.delete().where(mine, columns.sequence.in_(needless)))
        crashpoint("snapshot.before_commit")
    crashpoint("snapshot.after_commit")
    return True


def _needless(known: list[tuple[int, int]]) -> list[int]:
    """Of these (sequence, time), the sequences to delete."""
    ordered = sorted(known, reverse=True)
    days = set[int]()
    needless = []
    for sequence, time_us in ordered[NEWEST:]:
        day = time_us // _DAY_US
        if day in days or len(days) == DAYS:
            needless.append(sequence)
        days.add(day)
    return needless


def last(select: Select, reader: Reader) -> int:
    """The sequence of the newest snapshot of this version and history; 0 without one."""
    return next((row.sequence for row in _rows(select, reader)), 0)


def states(
    select: Select, reader: Reader, until: int, keys: Collection[bytes] = ()
) -> Iterator[bytes]:
    """The content of ``reader``'s snapshots, as MessagePack: valid ones, the newest up to the event ``until``
    first.

    ``keys``: one of them must have sealed it. None are given where nothing is decided by it.
    """
    columns = snapshots.c
    held = sa.select(columns.digest, columns.state).where(*_of(reader))
    for row in _rows(select, reader, columns.sequence <= until):
        for digest, state in select(held.where(columns.sequence == row.sequence)):
            if wrong(row, bytes(digest), bytes(state), keys):
                continue
            import zstandard  # A question of a ledger without snapshots has no use for it.

            try:
                size = zstandard.get_frame_parameters(bytes(state)).content_size
                most = min(LARGEST, max(FREE, len(state) * RATIO))
                whole = zstandard.decompress(bytes(state)) if size <= most else None
            except zstandard.ZstdError:
                continue
            if whole is not None:
                yield whole


def wrong(row: Snapshot, sealed: bytes, state: bytes, keys: Collection[bytes]) -> str:
    """The fault of a snapshot ``sealed`` so; "" = valid."""
    digest = row.digest(state)
    if not sealed.startswith(digest):
        return "the snapshot is damaged"
    if keys:
        from projections.engine.heads import is_sealed  # Questions do without.

        if not is_sealed(digest, sealed[len(digest) :], keys):
            return "the snapshot is not sealed by the key that signs the heads"
    return ""


def untrue(select: Select, keys: Collection[bytes]) -> Iterator[tuple[int, str]]:
    """(sequence, reason) of the snapshots of this form damaged, or sealed by none of ``keys``."""
    parts, columns = Snapshot.__struct_fields__, snapshots.c
    place = sa.select(columns.name, columns.cluster, columns.sequence)
    mine = columns.version.like(f"{FORM}-%")
    for name, cluster, sequence in select(place.where(mine).order_by(columns.sequence)):
        # One at a time: each may be large.
        this = sa.and_(
            columns.name == name, columns.cluster == cluster, columns.sequence == sequence
        )
        for *values, sealed, state in select(
            sa.select(*(columns[p] for p in parts), columns.digest, columns.state).where(this)
        ):
            fields = dict(zip(parts, values, strict=True))
            row = Snapshot(**{**fields, "chain": bytes(fields["chain"])})
            if reason := wrong(row, bytes(sealed), bytes(state), keys):
                yield sequence, f"{reason}: {name} of {cluster}; delete it, it is not needed"


def _rows(select: Select, reader: Reader, *more: sa.ColumnElement[bool]) -> Iterator[Snapshot]:
    """Those of this version and history, the newest first."""
    columns, parts = snapshots.c, Snapshot.__struct_fields__
    row_of = sa.select(*(columns[name] for name in parts)).where(*_of(reader), *more)
    moved = select(sa.select(checkpoints))
    history = [(stream, created_us, number) for _, _, stream, created_us, number, *_ in moved]
    for values in select(row_of.order_by(columns.sequence.desc())):
        fields = dict(zip(parts, values, strict=True))
        row = Snapshot(**{**fields, "chain": bytes(fields["chain"])})
        if row.chain == chain_at(select, row.sequence) and history == [
            (row.stream, row.stream_created_us, row.incarnation)
        ]:
            yield row


def _of(reader: Reader) -> tuple[sa.ColumnElement[bool], ...]:
    columns = snapshots.c
    return (
        columns.name == reader.name,
        columns.cluster == reader.cluster,
        columns.version == reader.version,
    )
