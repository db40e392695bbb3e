"""A ledger in PostgreSQL that follows the history while :mod:`tests.benchmarks.admission` measures.

python -m tests.benchmarks.admission_ledger URL FOLDER DATABASE
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from bus.embedded import running
from bus.jetstream import JetStream
from bus.streams import history
from projections.catalogue import METADATA, MODEL
from projections.engine.folder import Folder
from projections.engine.runner import Runner
from projections.engine.store import Store, engine


async def keep(url: str, folder: Path, database: str) -> None:
    """Fold until killed."""
    address = running(folder)
    credentials = address.credentials if address else None
    door = await JetStream.connect(url, history(), credentials=credentials, create=False)
    store = Store(engine(database))
    METADATA.create_all(store.engine)
    await Runner(store, Folder(MODEL, store), door).run()


if __name__ == "__main__":
    asyncio.run(keep(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
