"""A replica whose fold is broken off and goes on from what a snapshot would hold."""

import msgspec

from bus.clock import SystemClock
from bus.memory import MemoryTransport
from migrations.schema import upgrade
from projections.catalogue import MODEL
from projections.engine.changes import Changes
from projections.engine.store import Store, engine
from projections.engine.tables import checkpoints, events, snapshots
from projections.quota_trees import TreeOverlay
from reactors.admission.deciding.decide import Request, decide_review
from reactors.admission.reconciling.reconciler import Reconciler
from reactors.admission.state.evidence import evidence
from reactors.engine.replica import Replica, SavedReplica, decision_event
from reactors.queue.plan import planned_in
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
        replica.apply(event)
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
        readers.journals.apply([event])
        if event.sequence in cuts:
            before, readers, asked = readers, _readers(cluster), _readers(cluster)
            state = msgspec.msgpack.encode(before.saved())
            for one in (readers, asked):
                one.restore(msgspec.msgpack.decode(state, type=SavedReaders))
            assert known_to(before) == known_to(readers), f"after the event {event.sequence}"
            # What an elastic tree divided for a question is in it from then on.
            assert answers_of(before) == answers_of(asked), f"after the event {event.sequence}"
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


def answers_of(readers):
    """What they answer: who is charged what and why, what a next review would be told, who waits for what."""
    journals, view, lives = readers.journals, readers.view, readers.view.coverage.lives
    uids = {*view.state.workloads, *view.state.pods}
    asked = {}
    for name, tree in journals.trees.items():
        for quota in tree.nodes:
            for amount in (1, 100_000, 10**9):
                request = Request(
                    quota, "new", "Job", "ns", "new", {"limits.cpu": amount, "requests.cpu": amount}, {}, "r",
                )  # fmt: skip
                asked[name, quota, amount] = decide_review(TreeOverlay(tree), request, 0)
    return {
        "asked": asked,
        "seen": {uid: evidence(view, uid) for uid in uids},
        "held": {uid: sorted((n.name, g.charge) for n, g in journals.grants(uid)) for uid in uids},
        "below": {
            uid: (msgspec.structs.astuple(lives.node(uid)), lives.above(uid), lives.pod(uid))
            for uid in uids
        },
        "waits": planned_in(journals.trees, readers.lines),
        "due": readers.raises.due(2**62),
    }


#: What may befall the snapshots of a ledger.
WRONG = {
    "torn": snapshots.update().values(state=b"\x28\xb5\x2f\xfd"),
    "altered": snapshots.update().values(time_us=snapshots.c.time_us + 1),
    "of another version": snapshots.update().values(version="1-other"),
    "of another place": snapshots.update().values(sequence=snapshots.c.sequence + 7),
    "of another history": events.update().values(chain=b"x" * 32),
    "of another stream": checkpoints.update().values(stream_created_us=2),
    "of another incarnation": checkpoints.update().values(incarnation=2),
    "absent": snapshots.delete(),
}


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
