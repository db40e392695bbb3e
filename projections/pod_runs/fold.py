"""What was observed of one pod, folded so that neither order nor repetition matters.

Every field of a :class:`Pod` is a minimum, a maximum or a set over the observations: starts and deletes keep the
smallest stamp, descriptive fields the newest observation's, amounts and labels a history.

Source: ``accounting.md`` sections 1 and 2.
"""

from __future__ import annotations

import msgspec

from bus.amounts import Amounts, charged_bytes
from bus.clock import parse_stamp
from bus.envelope import Event
from bus.errors import QuantityError, TimestampError
from bus.events.pods import PodObserved, PodState, PodVanished
from projections.attribution import names
from projections.engine.contract import Key
from projections.histories import added, precedes, replaces
from projections.pod_runs.shape import Pod, Terminal, Value

#: Phases after which a pod holds nothing.
TERMINAL = frozenset({"Succeeded", "Failed"})

#: The node of a pod that runs and names none.
NO_NODE = ""

#: A stamp further than this from the moment it was observed (microseconds; twenty years) is no stamp: one pod "since
#: the year 1" would be cut into 17 million hours.
FARTHEST_US = 20 * 365 * 86_400 * 1_000_000

_encoder = msgspec.json.Encoder(order="sorted")


def keys(fact: PodState, event: Event) -> tuple[Key]:
    """One pod: (uid,)."""
    return ((fact.uid,),)


def fold(row: Pod | None, fact: PodState, event: Event) -> Pod:
    """The pod with one more observation. What was seen before gives the same row.

    A stamp that cannot be read or be true counts as absent, flag ``clamped``; a missing creation is the observation's time.
    Requests beyond what the books can hold (a pod may ask for 10 exa cores, and wait for ever) are charged as nothing,
    flag ``amounts_refused``: parking them would let one tenant stop the books of all. A pod that runs without a node is
    charged by its requests all the same, flag ``no_node``.
    """
    version, time_us = fact.resource_version, event.time_us
    flags = row.flags if row else ()
    created_us, flags = _stamp(fact.created, time_us, flags)
    if created_us is None:
        created_us = time_us
    if row is None:
        row = Pod(fact.uid, event.cluster, fact.namespace, fact.name, created_us)
    value, flags = _value(fact, flags)
    history = added(row.history, version, time_us, value)
    started_us, flags = _started(row.started_us, fact, time_us, created_us, flags)
    deletion_us, flags = _stamp(fact.deletion, time_us, flags)
    deleted_us, vanished_us = row.deleted_us, row.vanished_us
    if deletion_us is not None and fact.grace_seconds == 0:
        deleted_us = _least(deleted_us, deletion_us)
    elif isinstance(fact, PodVanished):
        vanished_us = _least(vanished_us, time_us)
    terminals = row.terminals
    if fact.phase in TERMINAL:
        terminals = _first(terminals, _terminal(fact, time_us))
    latest, phase, labels, deadline_s = row.latest, row.phase, row.labels, row.deadline_s
    if replaces(version, time_us, latest):
        latest, phase = (version, time_us), fact.phase
        labels, deadline_s = _encoder.encode(fact.labels).decode(), _deadline(fact)
    owned, owner = row.owned, row.owner
    if fact.owner is not None and replaces(version, time_us, owned):
        owned, owner = (version, time_us), fact.owner
    folded = Pod(
        row.uid, row.cluster, row.namespace, row.name, min(row.created_us, created_us), flags, history,
        started_us, deleted_us, vanished_us, terminals, latest, phase, owned, owner, labels,
        deadline_s, row.sequence,
    )  # fmt: skip
    return row if folded == row else msgspec.structs.replace(folded, sequence=event.sequence)


def is_same_run(before: Pod | None, after: Pod) -> bool:
    """Whether nothing changed from which the run follows, except evidence that it is still there."""
    return (
        before is not None
        and before.history[-1][2] == after.history[-1][2]
        and before.history == after.history[: len(before.history)]
        # A newer version that was seen earlier moves the moment from which older values hold.
        and before.history[-1][1] <= after.history[-1][1]
        and before.started_us == after.started_us
        and before.deleted_us == after.deleted_us
        and before.vanished_us == after.vanished_us
        and before.terminals == after.terminals
        and before.created_us == after.created_us
        and before.owner == after.owner
        and before.flags == after.flags
        and before.deadline_s == after.deadline_s
    )


def _value(fact: PodState, flags: tuple[str, ...]) -> tuple[Value, tuple[str, ...]]:
    try:
        amounts = charged_bytes(bytes(fact.resources))
    except QuantityError:
        amounts, flags = Amounts(), _flagged(flags, "amounts_refused")
    extended = _encoder.encode(dict(amounts.extended)).decode() if amounts.extended else ""
    value = (
        amounts.cpu_millicores,
        amounts.memory_mib,
        amounts.gpu_milligpus,
        extended,
        fact.team,
        fact.user,
        _node(fact),
        names(fact.labels),
    )
    return value, flags if value[6] != NO_NODE else _flagged(flags, "no_node")


def _node(fact: PodState) -> str | None:
    """Where the pod holds; None while it is not bound."""
    return NO_NODE if fact.node is None and fact.phase == "Running" else fact.node


def _deadline(fact: PodState) -> int | None:
    """What it asked for; nothing where the end of its deadline could be no stamp."""
    seconds = fact.deadline_s
    return seconds if seconds is None or 0 <= seconds * 1_000_000 <= FARTHEST_US else None


def _flagged(flags: tuple[str, ...], flag: str) -> tuple[str, ...]:
    return flags if flag in flags else tuple(sorted((*flags, flag)))


def _stamp(
    text: str | None, time_us: int, flags: tuple[str, ...]
) -> tuple[int | None, tuple[str, ...]]:
    if text is None:
        return None, flags
    try:
        stamp_us = parse_stamp(text)
    except TimestampError:
        return None, _flagged(flags, "clamped")
    if abs(stamp_us - time_us) > FARTHEST_US:
        return None, _flagged(flags, "clamped")
    return stamp_us, flags


def _started(
    known: int | None, fact: PodState, time_us: int, created_us: int, flags: tuple[str, ...]
) -> tuple[int | None, tuple[str, ...]]:
    if _node(fact) is None:
        return known, flags
    scheduled_us, flags = _stamp(fact.scheduled, time_us, flags)
    started_us = created_us if scheduled_us is None else max(scheduled_us, created_us)
    return _least(known, started_us), flags


def _terminal(fact: PodState, time_us: int) -> Terminal:
    """When a finished pod stopped holding, by the best stamp there is, never after it was seen."""
    flags: tuple[str, ...] = ()
    known: list[int] = []
    for text in fact.finished:
        stamp_us, flags = _stamp(text, time_us, flags)
        if stamp_us is not None:
            known.append(stamp_us)
    if not known:
        disrupted_us, flags = _stamp(fact.disrupted, time_us, flags)
        known = [] if disrupted_us is None else [disrupted_us]
    end_us = max(known, default=time_us)
    if not known:
        flags = _flagged(flags, "end_observed")
    elif end_us > time_us:
        end_us, flags = time_us, _flagged(flags, "clamped")
    return (fact.resource_version, time_us, end_us, flags)


def _first(terminals: tuple[Terminal, ...], terminal: Terminal) -> tuple[Terminal, ...]:
    if not terminals:
        return (terminal,)
    candidates = sorted({*terminals, terminal})
    by_version = candidates[0]
    for other in candidates[1:]:
        if precedes(other[0], other[1], by_version[0], by_version[1]) or (
            other[0] == by_version[0] and other[1] < by_version[1]
        ):
            by_version = other
    return (by_version,)


def _least(known: int | None, new: int) -> int:
    return new if known is None or new < known else known


FACTS = (PodObserved, PodVanished)
