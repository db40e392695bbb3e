"""The signed heads of a backup: all are collected, and those that agree with the chain are restored.

Source: ``docs/operating.md``; docs/reliability.md.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from pathlib import Path

import msgspec
import sqlalchemy as sa

from bus import private_files
from bus.errors import LedgerError
from deploy.settings.shape import Settings
from projections.engine.heads import Head, read_heads, verify_head
from projections.engine.store import Store
from projections.engine.tables import heads

SEQUENCE = attrgetter("sequence")
Warned = Callable[[str], None]


def all_heads(settings: Settings, connection: sa.Connection, path: Path, warned: Warned) -> bytes:  # fmt: skip
    """The lines of heads in the backup's file ``path``, in the file of heads and in the ledger, by sequence."""
    found = dict.fromkeys(read_heads(path) if path.is_file() else ())
    try:
        if settings.heads_file.is_file():
            # One by one: lines before an invalid one count.
            for head in read_heads(settings.heads_file):
                found[head] = None
    except (LedgerError, OSError) as error:
        warned(f"not all heads of {settings.heads_file} are in the backup: {error}")
    for sequence, *texts in connection.execute(sa.select(heads)):
        found[Head(sequence, *map(bytes, texts))] = None
    return b"".join(map(_line, sorted(found, key=SEQUENCE)))


def accepted_heads(candidates: list[Head], chains: dict[int, bytes], key: bytes, warned: Warned) -> list[Head]:  # fmt: skip
    """The signed heads of this history, by ``key``, or by the key of the first one if that is empty."""
    accepted: dict[int, Head] = {}
    others: dict[str, list[int]] = {}
    for head in candidates:
        if head.chain != chains[head.sequence]:
            others.setdefault("their chain is not that of the events", []).append(head.sequence)
        elif not verify_head(head):
            others.setdefault("their signature is not valid", []).append(head.sequence)
        elif head.public_key != (key := key or head.public_key):
            others.setdefault(f"they are not signed by the key {key.hex()}", []).append(
                head.sequence
            )
        else:
            accepted[head.sequence] = head
    for why, left in others.items():
        warned(f"signed heads left out: {len(left):,}, the first at event {left[0]:,}: {why}")
    return list(accepted.values())


def keep_heads(settings: Settings, store: Store, accepted: list[Head]) -> None:
    """Write heads to their places, in one step each; existing ones stay."""
    known = {row[0] for row in store.select(sa.select(heads.c.sequence))}
    rows = [msgspec.structs.asdict(head) for head in accepted if head.sequence not in known]
    if rows:
        with store.engine.begin() as connection:
            connection.execute(heads.insert(), rows)
    path = settings.heads_file
    # An incomplete last line after a crash is cut off.
    there = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
    there = [line for line in there if line.endswith(b"\n")]
    whole = set(there)
    lines = [line for line in map(_line, accepted) if line not in whole]
    if lines:
        private_files.replace(path, b"".join([*there, *lines]))
        private_files.sync(path.parent)


def _line(head: Head) -> bytes:
    """A line of a file of heads."""
    one = {"sequence": head.sequence, "chain": head.chain.hex(), "signature": head.signature.hex()}
    return msgspec.json.encode({**one, "public_key": head.public_key.hex()}) + b"\n"
