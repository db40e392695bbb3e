"""A data folder with a small ledger in it, and the command line in this process and in others."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from deploy.cli.program.program import run_command
from projections.catalogue import MODEL
from projections.engine.dump import digest
from projections.engine.segments.reading import with_links
from projections.engine.store import Store, engine
from tests import factories as said
from tests.projections.engine.archives import fill, ledger

EVENTS = [
    said.namespace_observed("ns", team="blue"),
    said.node_observed("n", model="A100"),
    said.pod_observed("bound", 1, 0, cpu="2", gpu=1, name="=cmd|' /C calc'!A0"),
    said.pod_vanished("bound", 2, 7_200, cpu="2", gpu=1, deletion=7_200, name="=cmd|' /C calc'!A0"),
    said.pod_observed("waits", 3, 1_800, created=1_800, node=None, phase="Pending"),
]


def make_ledger(folder: Path, events=EVENTS) -> Path:
    """The folder, with a ledger of ``events`` and no bus."""
    store = ledger(f"sqlite:///{folder / 'ledger.db'}")
    numbered = said.numbered(events)
    fill(store, numbered, batch=len(numbered))
    store.close()
    return folder


def a_hub(data, until_s, written_s=0, *, are_named=False):
    """A folder as a hub leaves it: by cluster, a ledger whose last pod was seen at a second; all say that they are "c", or who."""
    for name, second in until_s.items():
        folder = data / "clusters" / name
        folder.mkdir(parents=True)
        facts = [said.pod_observed("p", 1, 0, cpu="2"), said.pod_observed("last", 1, second)]
        if are_named:
            facts = [msgspec.structs.replace(one, cluster=name) for one in facts]
        make_ledger(folder, facts)
    state = data / "hub.json"
    link = {"domain": "x", "projected": 2, "quiet_seconds": 0.1, "lag": 0, "trouble": ""}
    state.write_text(json.dumps(dict.fromkeys(until_s, link)))
    os.utime(state, (time.time() - written_s,) * 2)


def rows_of(data: Path):
    """The digest of a ledger's rows, and all its events with the chain."""
    store = Store(engine(f"sqlite:///{data / 'ledger.db'}", read_only=True))
    try:
        return digest(MODEL, store), with_links(store.select, 1, 10**6)
    finally:
        store.close()


def version_of(data: Path) -> str:
    """The parts of a ledger that are filled, each with its version."""
    store = Store(engine(f"sqlite:///{data / 'ledger.db'}", read_only=True))
    try:
        return store.checkpoint("").version
    finally:
        store.close()


def bursar(*arguments) -> int:
    """One command in this process; its exit code."""
    return int(run_command([str(argument) for argument in arguments]))


def process(*arguments, **environment) -> subprocess.CompletedProcess:
    """One command in a process of its own, without the variables of the outside."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("BURSAR_", "KUBE"))}
    return subprocess.run(
        [Path(sys.executable).with_name("bursar"), *map(str, arguments)],
        env={**clean, **environment}, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
