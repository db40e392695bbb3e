"""Ledgers of one history, sealed and trimmed behind their writer, and what they say at the end, in a process of its own.

    python -m tests.acceptance.digest_process HISTORY [URL FOLDER BATCH]…

FOLDER has the key that signs, and gets the segments. Prints for each the digest of the ledger and of its replay, the chain's
value at the end, and the digest of each segment's file.
"""

import json
import sys
from hashlib import sha256
from pathlib import Path

import msgspec

from bus.sources.events import read_lines
from migrations.schema import upgrade
from projections.catalogue import MODEL
from projections.engine.dump import digest
from projections.engine.folder import Folder
from projections.engine.heads import Signer
from projections.engine.replay import rebuild
from projections.engine.segments.reading import sealed, trimmed_until
from projections.engine.segments.sealing import Sealer
from projections.engine.store import Store, engine

EVERY = 150


def said(events, url, folder, batch):
    store = Store(engine(url))
    upgrade(store.engine)
    sealer = Sealer(store, Signer(folder / "key"), folder / "segments", EVERY)
    folds = Folder(MODEL, store)
    folds.open()
    checkpoint = store.checkpoint(MODEL.version)
    for start in range(0, len(events), batch):
        part = events[start : start + batch]
        checkpoint = store.commit(part, folds.fold(part), checkpoint)
        folds.settle()
        while sealer.seal() is not None:
            assert sealer.trim(0) is not None
    with rebuild(MODEL, store) as rebuilt:
        replayed = digest(MODEL, rebuilt.store)
    found = {
        "ledger": digest(MODEL, store),
        "replayed": replayed,
        "chain": checkpoint.chain.hex(),
        "trimmed": trimmed_until(store.select),
        "segments": [sha256(one.bytes()).hexdigest() for one in sealed(store.select)],
    }
    store.close()
    return found


def main(history, *cases):
    events = [msgspec.structs.replace(e, sequence=n) for n, e in enumerate(read_lines(history), 1)]
    found = [
        said(events, url, Path(folder), int(batch)) for url, folder, batch in batched(cases, 3)
    ]
    print(json.dumps(found))


def batched(found, count):
    return [found[start : start + count] for start in range(0, len(found), count)]


if __name__ == "__main__":
    main(*sys.argv[1:])
