"""Synthetic events of the lab, and the saved state of one reactor at a place of the history."""

from __future__ import annotations

import msgspec

from bus.envelope import Event
from bus.events.policies import Mode
from bus.events.vocabulary import Fact, remember
from reactors.engine.contract import Reactor
from reactors.engine.policies import policy_changed
from reactors.engine.replica import Replica, SavedReplica
from reactors.engine.settings import ReactorPolicy

#: The source of synthetic events.
SOURCE = "lab"


def event_at(fact: Fact, key: str, event: Event, at_us: int | None = None) -> Event:
    """``fact`` at the place of ``event``, at its time or another one."""
    time_us = event.time_us if at_us is None else at_us
    made = fact.event(cluster=event.cluster, key=key, id=event.id, source=SOURCE, time_us=time_us)
    made = msgspec.structs.replace(made, sequence=event.sequence)
    remember(made, fact)
    return made


def govern(replica: Replica, name: str, mode: Mode, policy: ReactorPolicy, at_us: int = 0) -> None:
    """Set a reactor's policy to the tried one, from now on."""
    fact = policy_changed(name, mode, policy, author=SOURCE)
    event = fact.event(cluster=replica.cluster, key=name, id=SOURCE, source=SOURCE, time_us=at_us)
    replica.apply(msgspec.structs.replace(event, sequence=replica.sequence))


def restored(reactor: Reactor, cluster: str, known: bytes) -> Replica:
    """A replica of this reactor alone, restored from :func:`saved`; b"" = without any state."""
    replica = Replica([reactor], cluster)
    if known:
        replica.restore(msgspec.msgpack.decode(known, type=SavedReplica))
    return replica


def saved(known: Replica | None, reactor: Reactor) -> bytes:
    """The state of one reactor out of all reactors' state, restorable several times; b"" = none."""
    if known is None:
        return b""
    found, name = known.saved(), reactor.name
    current = {one: policy for one, policy in found.policies.current.items() if one == name}
    found = msgspec.structs.replace(
        found, own={name: known.own[name]}, policies=msgspec.structs.replace(found.policies, current=current),
        last={expected: 0 for expected in (reactor.expects, reactor.concludes_as) if expected},
    )  # fmt: skip
    return msgspec.msgpack.encode(found)
