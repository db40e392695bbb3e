"""What a start of the command line costs: CPU of whole processes, user and system, from exec to exit.

    python -m tests.benchmarks.starts [--rounds 5] [-o json]

Every round starts each command once. The interpreter keeps its bytecode in a folder of the benchmark's own, as an installation
has it after its first start; the round that fills it is not counted. Questions are asked to a ledger of five events. Goals:
``version`` and ``--help`` 0.25 s, any question 0.6 s; ``status`` also while a bus runs, which it asks. Beside them is what a
bare interpreter costs here.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bus.embedded import EmbeddedServer
from bus.jetstream import JetStream
from bus.streams import history
from tests.benchmarks import measure
from tests.benchmarks.measure import Report
from tests.deploy.ledgers import make_ledger

PLAIN = {"version": 0.25, "--help": 0.25, "quota --help": 0.25}
QUESTIONS = (
    "report --by team", "report -o json", "acct", "events", "sql SELECT/**/1/**/AS/**/one", "get quotas", "quota tree",
    "budget list", "queue show", "notebooks", "evictions", "parked list", "status", "why ns/bound",
    "devices", "diff --from 1", "jobs list", "jobs agreement", "jobs hours", "agreement", "quota forecast", "budget forecast",
    "schedule queue", "schedule agreement",
)  # fmt: skip
#: Asked once more while the bus of the data folder runs.
BESIDE_BUS = "status"
QUESTION_SECONDS = 0.6


def cpu_of(arguments: list[str], environment: dict[str, str]) -> float:
    """Seconds of CPU of one process. Raises SystemExit where it fails."""
    process = subprocess.Popen(
        arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
    )
    assert process.stderr is not None
    said = process.stderr.read()
    process.stderr.close()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    # An object that is not there is an answer, too, and so is a ledger that is not healthy.
    if process.returncode not in (0, 1, 7):
        raise SystemExit(f"{' '.join(arguments)} ended with {process.returncode}: {said.decode()}")
    return used.ru_utime + used.ru_stime


async def beside_bus(folder: Path, arguments: list[str], environment: dict[str, str]) -> float:
    """:func:`cpu_of` while the bus of a data folder runs."""
    async with EmbeddedServer(folder) as server:
        bus = await JetStream.connect(server.url, history(), credentials=server.credentials)
        await bus.close()
        return cpu_of(arguments, environment)


def run(args: argparse.Namespace) -> Report:
    """All rounds."""
    goals = PLAIN | dict.fromkeys((*QUESTIONS, f"{BESIDE_BUS} beside a bus"), QUESTION_SECONDS)
    found: dict[str, list[float]] = {name: [] for name in goals}
    bare: list[float] = []
    with tempfile.TemporaryDirectory(prefix="bursar-bench-") as name:
        folder = Path(name)
        data = str(make_ledger(folder))
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("BURSAR_", "PYTHON"))}
        environment = {**kept, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
        program = str(Path(sys.executable).with_name("bursar"))
        for number in range(args.rounds + 1):
            bare.append(cpu_of([sys.executable, "-c", "pass"], environment))
            for command in goals:
                common = [] if command in PLAIN else ["--data", data]
                if command.startswith(f"{BESIDE_BUS} "):
                    asked = beside_bus(folder, [program, *common, BESIDE_BUS], environment)
                    used = asyncio.run(asked)
                else:
                    used = cpu_of([program, *common, *command.split(" ")], environment)
                if number:
                    found[command].append(used)
    verdicts = [
        measure.verdict(f"CPU of bursar {command}, s", figures, "<=", goals[command])
        for command, figures in found.items()
    ]
    notes = [f"a bare interpreter: {statistics.median(bare[1:]):.3f} s"]
    return {"rounds": args.rounds, "per_event": {}, "goals": verdicts, "notes": notes}


if __name__ == "__main__":
    raise SystemExit(measure.main(run, "What a start of the command line costs."))
