"""A million recorded looks through a simulation, and one round of looks at a thousand notebooks.

    python -m tests.benchmarks.culling [--looks 1000000] [--notebooks 1000] [--rounds 5] [-o json]

*simulate* reads the facts' bytes as the archive has them, makes looks of them and plays them under a policy of one hour, as
``bursar cull simulate`` does. Goal: a million under 20 s. *sample* asks a server on this machine,
which answers at once, for kernels and terminals of every notebook through the real adapter; its server's CPU is in the figure.
Goal: 1,000 notebooks in a minute, hence the CPU of a round under 60 s; the figure shows how far that is.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from functools import partial

from bus.clock import SECOND_US, SystemClock
from bus.envelope import Event
from bus.events.notebooks import Evidence, NotebookSampled
from bus.notebooks.contract import Peer
from bus.notebooks.prober import Answer, ProbeSettings, fetch
from bus.notebooks.sampler import Sampler
from reactors.culling.policy import CullingPolicy, Limits, Subject, limits_of
from reactors.culling.simulate import Simulation, look_of, simulate
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


def recorded(looks: int) -> list[Event]:
    """Facts of a thousand notebooks, a minute apart; one in five is active at a look, in stretches."""
    rng = random.Random(1)
    active = [0] * NOTEBOOKS
    events = []
    for number in range(looks):
        at_us, notebook = number // NOTEBOOKS * PERIOD_US + 1, number % NOTEBOOKS
        if rng.random() < 0.2 and number // NOTEBOOKS // 90 % 2 == notebook % 2:
            active[notebook] = at_us
        kernels = Evidence(
            source="jupyter_kernels", active_us=active[notebook], counters={"kernels": 1, "busy": 0}
        )
        fact = NotebookSampled(
            uid=f"4a9b5ba4-{notebook:04}",
            evidence=(kernels, Evidence(source="jupyter_terminals", counters={"terminals": 0})),
        )
        events.append(fact.event(cluster="c", key="", id="", source="", time_us=at_us))
    return events


def played(events: list[Event], limits: Limits) -> Simulation:
    """The simulation over facts as the archive has them."""
    looks = (look_of(NotebookSampled.read(event), event.time_us, limits) for event in events)
    return simulate((look for look in looks if look is not None), limits)


async def sampled(notebooks: int) -> int:
    """One round over the real adapter; how many notebooks were read."""

    async def answers(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWER)
        await writer.drain()

    async def no_api(request):
        return Answer(404, b"")

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
    """All rounds of both."""
    limits = limits_of(CullingPolicy(), Subject("n"))
    events = recorded(args.looks)
    simulated, asked, told = [], [], None
    for _ in range(args.rounds):
        started = time.perf_counter()
        told = played(events, limits)
        simulated.append((time.perf_counter() - started) * 1_000_000 / args.looks)
        before = time.process_time()
        assert args.notebooks == asyncio.run(sampled(args.notebooks))
        asked.append((time.process_time() - before) * 1_000 / args.notebooks)
    assert told is not None and told.looks == args.looks
    goals = [
        measure.verdict("simulate, seconds per 1,000,000 looks", simulated, "<=", 20),
        measure.verdict("sample, CPU seconds per 1,000 notebooks", asked, "<=", 60),
    ]
    notes = [
        f"{len(told.culls)} culls, {told.saved_us // (3_600 * SECOND_US)} notebook-hours saved"
    ]
    return {"rounds": args.rounds, "per_event": {}, "goals": goals, "notes": notes}


if __name__ == "__main__":
    raise SystemExit(
        measure.main(run, "Simulation and sampling.", looks=1_000_000, notebooks=1_000)
    )
