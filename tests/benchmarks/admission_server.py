"""A webhook process for :mod:`tests.benchmarks.admission`: its own journals, TLS, `/admit` and `/empty`.

    python -m tests.benchmarks.admission_server URL FOLDER CLUSTER MAX_BATCH

Certificates go below FOLDER; credentials of an embedded bus are read there. Says its address and authority on one
line, then answers until its input ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import uvloop

from bus.clock import SystemClock
from bus.embedded import running
from bus.jetstream import JetStream
from bus.kube.kinds import GOVERNED
from bus.streams import history
from reactors.admission.deciding import batching
from reactors.admitting import following
from reactors.webhook.application import Application
from reactors.webhook.failure import closed_for
from tests.reactors.webhook.serving import serving


async def serve(url: str, folder: Path, cluster: str) -> None:
    """Answer until stdin ends."""
    address = running(folder)
    door = await JetStream.connect(
        url, history(), credentials=address.credentials if address else None, create=False
    )
    clock, charged = SystemClock(), {(kind.group, kind.resource) for kind in GOVERNED}
    async with following(
        door, clock, cluster=cluster, source=f"webhook/{cluster}", keeps=False
    ) as admission:
        # What a busy machine delays shall be measured, not refused.
        application = Application(
            admission.handler, closed_for(charged), deadline_seconds=60, with_empty=True
        )
        own = folder / f"webhook-{cluster}"
        own.mkdir()
        async with serving(own, application) as webhook:
            print(json.dumps({"url": webhook.url, "ca": str(webhook.ca_file)}), flush=True)
            await asyncio.to_thread(sys.stdin.read)


def main() -> None:
    """One server, told by the command line."""
    url, folder, cluster, batch = sys.argv[1:]
    batching.MAX_BATCH = int(batch)
    uvloop.run(serve(url, Path(folder), cluster))


if __name__ == "__main__":
    main()
