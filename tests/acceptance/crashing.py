"""The scenario of the crash tests: a source publishes, a runner keeps the ledger; and a way to kill it anywhere.

A run is one process: it publishes what it has to say from the beginning (the bus knows what it has already), then folds
up to the end. :func:`killed` runs it in a child that kills itself at the n-th label it reaches.
"""

import asyncio
import hashlib
import os
import shutil
import signal
from unittest import mock

import msgspec
import sqlalchemy as sa

from bus import crashpoints
from projections.catalogue import METADATA, MODEL
from projections.engine.folder import Folder
from projections.engine.runner import Runner
from projections.engine.store import Store, engine
from projections.engine.tables import checkpoints, events, heads, parked
from tests import factories as f
from tests.acceptance.filebus import FileTransport, made_anew

#: Events of one publish.
CHUNK = 5


def history():
    """Some of everything: late facts, lists, a missed delete, a namesake, poison, relabels, resizes, duplicates."""
    said = [
        f.namespace_observed("ns", 1, 0, team="a"),
        f.node_observed("n", 2, 0, model="A100"),
        f.pod_observed("p", 3, 1, gpu=1, owner=f.owner("rs")),
        f.pod_observed("q", 4, 2, name="web", node=None, phase="Pending"),
        f.pods_listed(["p", "q"], 5, 3)[0],
        f.pod_observed("q", 6, 4, name="web", scheduled=4),
        f.workload_observed("rs", 7, 5, owner=f.owner("d", "Deployment")),
        f.pod_observed("p", 8, 4000, gpu=1, team="b", owner=f.owner("rs")),
        f.pod_vanished("q", 9, 4100, name="web", deletion=4100),
        f.pod_observed("r", 10, 4101, created=4101, name="web"),
        f.namespace_observed("ns", 11, 5000, team="c"),
        f.node_observed("n", 12, 5500, model="H100"),
        f.pods_listed(["p"], 13, 9000)[0],
        f.workload_observed("d", 14, 9001, kind="Deployment", owner=f.owner("top", "CronJob")),
        f.pod_observed("p", 15, 9100, gpu=1, cpu=4, team="b", owner=f.owner("rs")),
        f.pod_observed("p", 16, 90_000, cpu=4, phase="Succeeded", finished=(89_000,)),
        f.pod_observed("r", 11, 8000, created=4101, name="web"),
        f.namespace_observed("late", 18, 100, team="d"),
        f.pod_observed("s", 19, 9, created=9, namespace="late", cpu="100m"),
        f.pod_vanished("s", 20, 10),
        f.node_vanished("n", 21, 95_000),
        f.namespace_vanished("ns", 22, 95_001),
        f.pods_listed([], 23, 99_000)[0],
        f.pod_observed("p", 3, 1, gpu=1, owner=f.owner("rs")),
        f.workload_vanished("rs", 24, 99_001),
        f.pod_observed("t", 25, 99_002, created=99_000, gpu=2),
        f.pod_observed("t", 26, 99_003, created=99_000, gpu=2, user="u"),
        f.pod_vanished("t", 27, 99_900, created=99_000, deletion=99_900),
    ]
    poison = msgspec.structs.replace(said[3], body=b"{")
    said.insert(8, poison)
    return [msgspec.structs.replace(e, id=f"{e.id}#{n}") for n, e in enumerate(said)]


def schema(made):
    """The tables, by the migrations where there are some."""
    try:
        from migrations.schema import upgrade
    except ImportError:
        METADATA.create_all(made)
    else:
        upgrade(made)


def play(folder, batch, *, migrate=False, store_class=Store, said=None):
    """One run of the whole scenario in this process."""
    made = engine(f"sqlite:///{folder / 'ledger.db'}")
    if migrate:
        schema(made)
    store = store_class(made)

    async def main():
        transport = FileTransport(folder / "bus.ndjson")
        told = said if said is not None else history()
        for start in range(0, len(told), CHUNK):
            crashpoints.crashpoint("source.before_publish")
            await transport.publish(told[start : start + CHUNK])
            crashpoints.crashpoint("source.after_publish")
        # One transaction for each batch: the more of them, the more places there are to be killed at.
        runner = Runner(store, Folder(MODEL, store), transport, batch=batch, batches=1)
        await runner.run(live=False)

    try:
        asyncio.run(main())
    finally:
        store.close()


def digest(folder):
    """SHA-256 over every row of every table: derived rows, archive, chain, checkpoint, parked."""
    store = Store(engine(f"sqlite:///{folder / 'ledger.db'}"))
    whole = hashlib.sha256()
    for table in (*MODEL.tables, events, checkpoints, parked, heads):
        whole.update(table.name.encode())
        for row in sorted(store.select(sa.select(table)), key=repr):
            whole.update(repr(row).encode())
    store.close()
    return whole.hexdigest()


def recover_and_play(folder, batch):
    """Bring a damaged bus and the ledger together again, then go on as ever."""
    from projections.engine.recover import recover

    path = folder / "bus.ndjson"
    store = Store(engine(f"sqlite:///{folder / 'ledger.db'}"))

    async def renew(_last):
        return made_anew(path)

    try:
        asyncio.run(recover(MODEL, store, FileTransport(path), renew))
    finally:
        store.close()
    play(folder, batch, said=[])


def rebuild_and_swap(folder, _batch):
    """Replay the archive and put the rebuilt rows in place."""
    from projections.engine.replay import rebuild, swap

    store = Store(engine(f"sqlite:///{folder / 'ledger.db'}"))
    try:
        with rebuild(MODEL, store) as rebuilt:
            swap(store, rebuilt)
    finally:
        store.close()


def older(folder):
    """The ledger as a program with other rules for pods left it: their rows wrong."""
    store = Store(engine(f"sqlite:///{folder / 'ledger.db'}"))
    with store.engine.begin() as connection:
        version = MODEL.version.replace("pod_runs=", "pod_runs=0")
        connection.execute(checkpoints.update().values(version=version))
        connection.execute(sa.text("DELETE FROM held_segments"))
    store.close()


def fill_and_play(folder, batch):
    """Fill what an older program's ledger lacks, beside a runner."""
    from projections.engine import fill

    with mock.patch.object(fill, "STEP", 20):
        play(folder, batch, said=[])


def labels_hit(folder, batch, *, work=play, **options):
    """Every label that an uninterrupted run of ``work`` reaches, in order."""
    hits = []
    crashpoints.install(hits.append)
    try:
        work(folder, batch, **options)
    finally:
        crashpoints.install(None)
    return hits


def killed(folder, batch, at, *, work=play, **options):
    """Run ``work`` in a child that kills itself at the ``at``-th label (from 1); whether it came that far."""
    child = os.fork()
    if child == 0:
        try:
            left = [at]

            def hook(_label):
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

            crashpoints.install(hook)
            work(folder, batch, **options)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def fresh(template, folder):
    """``folder`` with an empty ledger in it and no bus."""
    folder.mkdir()
    if template is not None:
        shutil.copy(template, folder / "ledger.db")
    return folder
