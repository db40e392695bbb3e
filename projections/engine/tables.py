"""The tables of the machinery itself: the archive and its segments, the checkpoint, parked events.

Source: docs/architecture.md.
"""

from __future__ import annotations

import sqlalchemy as sa

from projections.engine.contract import METADATA, Integer

#: Every event, exact bytes, in order, with the hash chain. Append only.
events = sa.Table(
    "events",
    METADATA,
    sa.Column("sequence", Integer, primary_key=True, autoincrement=False),
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("type", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("time_us", Integer, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("defect", sa.Text, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("chain", sa.LargeBinary, nullable=False),
    sqlite_strict=True,
)

#: The position of the ledger: one row, moved in the transaction of the rows.
checkpoints = sa.Table(
    "checkpoints",
    METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("stream", sa.Text, nullable=False),
    sa.Column("stream_created_us", Integer, nullable=False),
    sa.Column("incarnation", sa.Integer, nullable=False),
    sa.Column("sequence", Integer, nullable=False),
    # SHA-256 of the event at ``sequence``, and the chain's value there.
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("chain", sa.LargeBinary, nullable=False),
    # The newest observation's time so far: the default end of open runs.
    sa.Column("observed_us", Integer, nullable=False),
    sqlite_strict=True,
)

#: Events without decoding or fold, until they are driven again. The event itself is in the archive.
parked = sa.Table(
    "parked",
    METADATA,
    sa.Column("sequence", Integer, primary_key=True, autoincrement=False),
    sa.Column("type", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sqlite_strict=True,
)

#: States of readers of the history after the event ``sequence``: the start of a process, or of a question about the
#: past.
snapshots = sa.Table(
    "snapshots",
    METADATA,
    # The owner of the state, and its cluster.
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("sequence", Integer, primary_key=True, autoincrement=False),
    # The rules and the shape of its writer: others are not read.
    sa.Column("version", sa.Text, nullable=False),
    # The event's time, its history, and the chain's value there.
    sa.Column("time_us", Integer, nullable=False),
    sa.Column("stream", sa.Text, nullable=False),
    sa.Column("stream_created_us", Integer, nullable=False),
    sa.Column("incarnation", sa.Integer, nullable=False),
    sa.Column("chain", sa.LargeBinary, nullable=False),
    # SHA-256 over all other columns, and behind it the signature by the key of the heads.
    sa.Column("digest", sa.LargeBinary, nullable=False),
    # MessagePack of named fields, zstandard.
    sa.Column("state", sa.LargeBinary, nullable=False),
    sqlite_strict=True,
)

#: Files with the beginning of the history, in order and without gaps.
segments = sa.Table(
    "segments",
    METADATA,
    # The last event in it, and the first.
    sa.Column("sequence", Integer, primary_key=True, autoincrement=False),
    sa.Column("first", Integer, nullable=False),
    # The folder, relative to an SQLite ledger where it lies beside it.
    sa.Column("place", sa.Text, nullable=False),
    # SHA-256 of the file, and its head as it is written there.
    sa.Column("sha256", sa.LargeBinary, nullable=False),
    sa.Column("head", sa.LargeBinary, nullable=False),
    # 1: the archive does not hold these events any more, except parked ones.
    sa.Column("trimmed", sa.Integer, nullable=False),
    sqlite_strict=True,
)

#: Heads of the chain, signed: compared with a copy kept elsewhere.
heads = sa.Table(
    "heads",
    METADATA,
    sa.Column("sequence", Integer, primary_key=True, autoincrement=False),
    sa.Column("chain", sa.LargeBinary, nullable=False),
    sa.Column("signature", sa.LargeBinary, nullable=False),
    sa.Column("public_key", sa.LargeBinary, nullable=False),
    sqlite_strict=True,
)
