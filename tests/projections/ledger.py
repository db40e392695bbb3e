"""A small ledger for tests: events in, all tables out, with any batches, restarts and little memory."""

from contextlib import closing
from functools import partial

import msgspec

from projections.catalogue import METADATA, MODEL
from projections.engine.folder import Folder
from projections.engine.store import Store, engine
from projections.pod_runs.derivation import PodRuns, derivation

_open: list[Store] = []
_EMPTY = "".join(f"DELETE FROM {table.name};\n" for table in METADATA.tables.values())


def memory_store():
    """An empty ledger in memory; one database serves all tests of a process."""
    if not _open:
        store = Store(engine("sqlite://"))
        METADATA.create_all(store.engine)
        _open.append(store)
    with closing(_open[0].engine.raw_connection()) as connection:
        connection.driver_connection.executescript(_EMPTY)
    return _open[0]


def remembering(**memory):
    """The model, whose pod runs hold so much in memory."""
    pods = msgspec.structs.replace(derivation, begin=partial(PodRuns, **memory))
    derivations = tuple(pods if one is derivation else one for one in MODEL.derivations)
    return msgspec.structs.replace(MODEL, derivations=derivations)


def folded(events, *, batch=1000, restart_every=0, **memory):
    """The store after ``events``; a new Folder after every ``restart_every`` batches (0: never)."""
    store = memory_store()
    checkpoint = store.checkpoint(MODEL.version)
    folder = None
    for number, start in enumerate(range(0, len(events), batch)):
        if folder is None or (restart_every and number % restart_every == 0):
            folder = Folder(remembering(**memory), store)
            folder.open()
        part = events[start : start + batch]
        checkpoint = store.commit(part, folder.fold(part), checkpoint)
        folder.settle()
    return store


def rows(store, table, *, without=()):
    """The rows of a table as sorted dictionaries."""
    names = [column.name for column in table.columns]
    # Tests ask for every table some thousand times, so no expression is built of it.
    with closing(store.engine.raw_connection()) as connection:
        stored = connection.driver_connection.execute(
            f"SELECT {', '.join(names)} FROM {table.name}"
        )
        found = [dict(zip(names, row, strict=True)) for row in stored]
    for row in found:
        for name in without:
            row.pop(name, None)
    return sorted(found, key=lambda row: tuple(map(str, row.values())))


def dump(store, *, without=()):
    """Every row of every derived table, by table name."""
    return {table.name: rows(store, table, without=without) for table in MODEL.tables}


def tables(events, *, without=(), **options):
    """What the ledger says after ``events``."""
    return dump(folded(events, **options), without=without)
