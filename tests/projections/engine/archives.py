"""Histories and ledgers to work on: pod life cycles in bulk, stores with the schema of the migrations."""

import tempfile
from functools import cache
from pathlib import Path

import msgspec

from migrations.schema import upgrade
from projections.catalogue import MODEL
from projections.engine.folder import Folder
from projections.engine.store import Store, engine
from tests import factories as given


def lives(pods, *, nodes=50, teams=8):
    """About six events a pod: created, bound, running, running again, finished, gone; three a second begin.

    Deterministic. Every seventh pod never ends. Sequences are 1, 2, 3 …
    """
    events = [given.node_observed(f"n{n}", model=f"G{n % 3}", version=n + 1) for n in range(nodes)]
    events += [
        given.namespace_observed(f"ns{t}", team=f"t{t}", version=t + 1) for t in range(teams)
    ]
    states = []
    for number in range(pods):
        states += _life(number, nodes, teams)
    states.sort(key=lambda event: event.time_us)
    return sequenced(events + states)


def _life(number, nodes, teams):
    uid, begin, version = f"{number * 2654435761 % 2**32:08x}-{number:08x}", number / 3, number * 10
    fields = {"namespace": f"ns{number % teams}", "name": f"pod-{number}"}
    fields["owner"] = given.owner(f"rs-{number % 400}")
    bound = {**fields, "node": f"n{number % nodes}", "scheduled": begin + 1}
    fields["resources"] = bound["resources"] = given.resources(
        1 + number % 4, f"{1 + number % 3}Gi", number % 2
    )
    yield given.pod_observed(
        uid, version + 1, begin, **fields, node=None, created=begin, phase="Pending"
    )
    yield given.pod_observed(uid, version + 2, begin + 1, **bound, created=begin, phase="Pending")
    yield given.pod_observed(uid, version + 3, begin + 3, **bound, created=begin, phase="Running")
    yield given.pod_observed(uid, version + 4, begin + 60, **bound, created=begin, phase="Running")
    if number % 7 == 6:
        return
    end = begin + 600 + number % 5000
    done = {**bound, "created": begin, "phase": "Succeeded", "finished": (end,)}
    yield given.pod_observed(uid, version + 5, end + 1, **done)
    yield given.pod_vanished(uid, version + 6, end + 30, **done, deletion=end + 30)


def sequenced(events, first=1):
    """The events with the sequences that a stream would give them."""
    return [msgspec.structs.replace(e, sequence=n) for n, e in enumerate(events, first)]


def ledger(url):
    """An empty ledger with the schema of the migrations."""
    made = engine(url)
    if made.dialect.name == "sqlite":
        with Path(made.url.database).open("xb") as file:
            file.write(_empty())
    else:
        upgrade(made)
    return Store(made)


@cache
def _empty():
    """An SQLite ledger's file as the migrations leave it: copied, since they take a tenth of a second."""
    with tempfile.TemporaryDirectory() as folder:
        made = engine(f"sqlite:///{folder}/ledger.db")
        upgrade(made)
        made.dispose()
        return Path(folder, "ledger.db").read_bytes()


def fill(store, events, *, batch=1000, model=MODEL):
    """Fold and store ``events`` as a runner would; the checkpoint after them."""
    folder = Folder(model, store)
    folder.open()
    checkpoint = store.checkpoint(MODEL.version)
    for start in range(0, len(events), batch):
        part = events[start : start + batch]
        checkpoint = store.commit(part, folder.fold(part), checkpoint)
        folder.settle()
    return checkpoint
