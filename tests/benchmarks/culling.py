"""One round of looks at a thousand notebooks.

    python -m tests.benchmarks.culling [--notebooks 1000] [--rounds 5] [-o json]

*sample* asks a server on this machine,
which answers at once, for kernels and terminals of every notebook through the real adapter; its server's CPU is in the figure.
Goal: 1,000 notebooks in a minute, hence the CPU of a round under 60 s; the figure shows how far that is.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from functools import partial

from bus.clock import SECOND_US, SystemClock
from bus.events.notebooks import NotebookSampled
from bus.notebooks.contract import Peer
from bus.notebooks.prober import ProbeResponse, ProbeSettings, fetch
from bus.notebooks.sampler import Sampler
from tests.benchmarks import measure
from tests.benchmarks.measure import Report
from tests.bus.hostile import server

PERIOD_US = 60 * SECOND_US
NOTEBOOKS = 1_000
ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 151\r\n\r\n"
    b'[{"id":"4a9b5ba4-1111-4b58-8ee9-135d3530b1dd","name":"python3","connections":0,'
    b'"execution_state":"idle","last_activity":"2026-08-14T03:25:26.278627Z"}]'
)


async def sampled(notebooks: int) -> int:
    """One round over the real adapter; how many notebooks were read."""

    async def answers(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWER)
        await writer.drain()

    async def no_api(request):
        return ProbeResponse(404, b"")

    door = partial(fetch, settings=ProbeSettings(allow_loopback=True))
    sampler = Sampler(door, no_api, SystemClock(), cluster="c", source="benchmark")
    async with server(answers) as port:
        peers = [
            Peer(uid=f"u{n}", namespace="n", name=f"nb-{n}", address="127.0.0.1", port=port)
            for n in range(notebooks)
        ]
        events = await sampler.round(peers)
    return sum(NotebookSampled.read(e).evidence[0].outcome == "ok" for e in events)


def run(args: argparse.Namespace) -> Report:
    """All rounds."""
    asked = []
    for _ in range(args.rounds):
        before = time.process_time()
        assert args.notebooks == asyncio.run(sampled(args.notebooks))
        asked.append((time.process_time() - before) * 1_000 / args.notebooks)
    goals = [measure.verdict("sample, CPU seconds per 1,000 notebooks", asked, "<=", 60)]
    return {"rounds": args.rounds, "per_event": {}, "goals": goals, "notes": []}


if __name__ == "__main__":
    raise SystemExit(measure.main(run, "Sampling.", notebooks=1_000))
