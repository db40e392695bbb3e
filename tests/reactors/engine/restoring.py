"""A replica whose fold is broken off and goes on from what a snapshot would hold."""

import msgspec

from reactors.engine.replica import Replica, SavedReplica, decision_event


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
