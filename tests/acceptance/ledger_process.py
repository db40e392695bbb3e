"""A process that keeps a ledger at the end of the embedded bus, for tests to kill: python -m … FOLDER BATCH."""

import asyncio
import sys
from pathlib import Path

from bus.embedded import running
from bus.jetstream import JetStream
from bus.streams import history
from projections.catalogue import MODEL
from projections.engine.folder import Folder
from projections.engine.runner import Runner
from projections.engine.store import Store, engine


async def keep(folder: Path, batch: int) -> None:
    """Fold until killed."""
    # Between the server's death and its next start nobody can say where it listens.
    while (address := running(folder)) is None:
        await asyncio.sleep(0.05)
    transport = await JetStream.connect(
        address.url, history(), credentials=address.credentials, create=False, connect_seconds=30
    )
    store = Store(engine(f"sqlite:///{folder / 'ledger.db'}"))
    await Runner(store, Folder(MODEL, store), transport, batch=batch).run()


if __name__ == "__main__":
    asyncio.run(keep(Path(sys.argv[1]), int(sys.argv[2])))
