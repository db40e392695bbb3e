"""A replica whose fold is broken off and goes on from what a snapshot would hold."""

import msgspec

from bus.clock import SystemClock
from bus.memory import MemoryTransport
from migrations.schema import upgrade
from projections.catalogue import MODEL
from projections.engine.changes import Changes
from projections.engine.store import Store, engine
from reactors.admission.reconciler import Reconciler
from reactors.engine.replica import Replica, SavedReplica, decision_event
from reactors.readers import Readers, SavedReaders


def restored(replica):
    """What a process knows that starts with a snapshot of ``replica``."""
    state = msgspec.msgpack.encode(replica.saved())
    found = Replica([*replica.reactors.values()], replica.cluster)
    found.restore(msgspec.msgpack.decode(state, type=SavedReplica))
    return found


def known(replica):
    """All that it knows, as plain values; dictionaries in their order."""
    found = {name: plain(state.saved()) for name, state in replica.states.items()}
    return {**plain(msgspec.structs.replace(replica.saved(), own={})), "own": found}


def plain(value):
    if isinstance(value, msgspec.Struct):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return [(key, plain(one)) for key, one in value.items()]
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return bytes(value) if isinstance(value, msgspec.Raw) else value


def folded(replica, events, decided, *, decides_on=lambda event: True, cuts=()):
    """``replica`` after ``events``, broken off after each number of them in ``cuts``; decisions go to ``decided``."""
    cuts = set(cuts)
    for event in events:
        replica.take(event)
        if replica.is_trigger(event) and decides_on(event):
            decided += [decision_event(one, replica.cluster) for one in replica.decide(event)]
        if event.sequence in cuts:
            before, replica = replica, restored(replica)
            assert known(before) == known(replica), f"after the event {event.sequence}"
    return replica


def readers_of(history, cuts=(), cluster="default"):
    """What admission and the queues know after ``history``, broken off after each number of events in ``cuts``."""
    readers = _readers(cluster)
    for event in history:
        readers.journals.take([event])
        if event.sequence in cuts:
            before, readers = readers, _readers(cluster)
            state = msgspec.msgpack.encode(before.saved())
            readers.restore(msgspec.msgpack.decode(state, type=SavedReaders))
            assert known_to(before) == known_to(readers), f"after the event {event.sequence}"
    return readers


def _readers(cluster):
    made = Readers(MemoryTransport(), SystemClock(), cluster=cluster, source="test")
    Reconciler(made.journals, made.view, SystemClock(), made.raises)
    return made


def known_to(readers):
    """All that they know, as plain values. Pods below owners lie in buckets, whose order says nothing."""
    found = plain(readers.saved())
    found["view"]["coverage"]["lives"]["pods"].sort(key=lambda pod: pod["uid"])
    return found


def archived_in(path, history):
    """A new ledger with nothing but the archive of ``history``."""
    store = Store(engine(f"sqlite:///{path}"))
    archive(store, history)
    store.close()
    return path


def archive(store, history):
    """Make the tables of an empty ledger, and archive ``history`` in it."""
    upgrade(store.engine)
    before = store.checkpoint(MODEL.version)
    before = msgspec.structs.replace(before, stream="HISTORY", stream_created_us=1)
    store.commit(history, Changes(), before)
