"""What was observed of one pod, folded so that neither order nor repetition matters.

Every field of a :class:`Pod` is a minimum, a maximum or a set over the observations: starts and deletes keep the
smallest stamp, descriptive fields the newest observation's, amounts and labels a history.

Source: docs/accounting.md.
"""

from __future__ import annotations

import msgspec

from bus.charges import charged_bytes
from bus.envelope import Event
from bus.events.pods import PodState, PodVanished
from projections.attribution import names
from projections.devices.requested import facts_of
from projections.pod_runs import stamps
from projections.pod_runs.shape import Pod, Terminal, Value
from projections.pod_runs.stamps import FIRST_US, Stamps
from projections.timelines import added, precedes, replaces

#: Phases after which a pod holds nothing.
TERMINAL = frozenset({"Succeeded", "Failed"})

#: The node of a pod that runs and names none.
NO_NODE = ""

#: A deadline further than this (microseconds; twenty years) is none: its end could be no stamp.
FARTHEST_US = 20 * stamps.YEAR_US

_encoder = msgspec.json.Encoder(order="sorted")


def fold(row: Pod | None, fact: PodState, event: Event) -> Pod:
    """The pod with one more observation. What was seen before gives the same row.

    A stamp that cannot be read, or cannot be true, counts as absent, flag ``clamped``. A watcher whose clock is proven
    wrong by the stamps leaves the flag ``clock``.
    A resource beyond what the ledger can hold (a pod may ask for 10 exa cores, and wait for ever) is charged as nothing,
    flag ``amounts_refused``, and the pod's other resources as ever: parking it would let one tenant stop the ledger of
    all, refusing the pod would let an absurd resource make the others free. A pod that runs without a node is
    charged by its requests all the same, flag ``no_node``.
    """
    version, time_us = fact.resource_version, event.time_us
    known = stamps.read(fact, time_us)
    if row is None:
        row = Pod(fact.uid, event.cluster, fact.namespace, fact.name, known.at_us)
    value, flags = _value(fact, known.flags.union(row.flags))
    history = added(row.history, version, time_us, value)
    started_us, bound_us = _started(row, value[6], known)
    deleted_us, vanished_us = row.deleted_us, row.vanished_us
    if known.deletion_us is not None and fact.grace_seconds == 0:
        deleted_us = stamps.earlier(deleted_us, known.deletion_us)
    elif isinstance(fact, PodVanished):
        vanished_us = stamps.earlier(vanished_us, known.at_us)
        flags |= _proven_wrong(known, time_us)
    terminals = row.terminals
    if fact.phase in TERMINAL:
        terminals = _first(terminals, _terminal(fact, known, time_us))
    latest, phase, labels, deadline_s = row.latest, row.phase, row.labels, row.deadline_s
    is_newer = replaces(version, time_us, latest)
    if is_newer:
        latest, phase = (version, time_us), fact.phase
        labels, deadline_s = _encoder.encode(fact.labels).decode(), _deadline(fact)
    owned, owner = row.owned, row.owner
    # An object and its owner are mostly seen together.
    is_owner = is_newer if owned == row.latest else replaces(version, time_us, owned)
    if fact.owner is not None and is_owner:
        owned, owner = (version, time_us), fact.owner
    claims, claimed, cards = row.claims, row.claimed, row.cards
    if fact.claims or fact.claimed:
        claims = tuple(sorted({*claims, *fact.claims}))
        claimed = tuple(sorted({*claimed, *fact.claimed}))
    if (value[2] or value[3] or fact.card_texts or fact.claimed) and (observed := _cards(fact)):
        cards = added(cards, version, time_us, observed)
    disrupted = row.disrupted
    if fact.disruption and (disrupted is None or replaces(version, time_us, disrupted[:2])):
        disrupted = (version, time_us, fact.disruption)
    folded = Pod(
        row.uid, row.cluster, row.namespace, row.name, stamps.earlier_seen(row.seen_us, known.at_us),
        tuple(sorted(flags)), history, stamps.earlier(row.created_us, known.created_us),
        started_us, bound_us, deleted_us, vanished_us, terminals, latest, phase, owned, owner, labels,
        deadline_s, claims, claimed, cards, disrupted, event.sequence,
    )  # fmt: skip
    # Most observations are of a new version.
    if latest != row.latest or history != row.history:
        return folded
    is_known = msgspec.structs.replace(folded, sequence=row.sequence) == row
    return row if is_known else folded


def is_same_run(before: Pod | None, after: Pod) -> bool:
    """Whether nothing changed from which the run follows, except evidence that it is still there."""
    return (
        before is not None
        and before.history[-1][2] == after.history[-1][2]
        and before.history == after.history[: len(before.history)]
        # A newer version that was seen earlier moves the moment from which older values hold.
        and before.history[-1][1] <= after.history[-1][1]
        and before.started_us == after.started_us
        and before.bound_us == after.bound_us
        and before.seen_us == after.seen_us
        and before.deleted_us == after.deleted_us
        and before.vanished_us == after.vanished_us
        and before.terminals == after.terminals
        and before.created_us == after.created_us
        and before.owner == after.owner
        and before.flags == after.flags
        and before.deadline_s == after.deadline_s
        and before.claims == after.claims
        and before.claimed == after.claimed
        and before.cards == after.cards
    )


def _value(fact: PodState, flags: frozenset[str]) -> tuple[Value, frozenset[str]]:
    amounts = charged_bytes(bytes(fact.resources))
    if amounts.refused:
        flags |= {"amounts_refused"}
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
    return value, flags if value[6] != NO_NODE else flags | {"no_node"}


def _cards(fact: PodState) -> str:
    return facts_of(fact, charged_bytes(bytes(fact.resources)))


def _node(fact: PodState) -> str | None:
    """Where the pod holds; None while it is not bound."""
    return NO_NODE if fact.node is None and fact.phase == "Running" else fact.node


def _deadline(fact: PodState) -> int | None:
    """What it asked for; nothing where the end of its deadline could be no stamp."""
    seconds = fact.deadline_s
    return seconds if seconds is None or 0 <= seconds * 1_000_000 <= FARTHEST_US else None


def _started(row: Pod, node: str | None, known: Stamps) -> tuple[int | None, int | None]:
    """(the smallest start by stamps, when it was first seen bound without any): see :class:`Pod`."""
    if node is None:
        return row.started_us, row.bound_us
    by_stamp = known.created_us
    if known.scheduled_us is not None:
        by_stamp = max(known.scheduled_us, known.created_us or known.scheduled_us)
    if by_stamp is not None:
        return stamps.earlier(row.started_us, by_stamp), row.bound_us
    return row.started_us, stamps.earlier_seen(row.bound_us, known.at_us)


def _terminal(fact: PodState, known: Stamps, time_us: int) -> Terminal:
    """When a finished pod stopped holding, by the best stamp there is, never after it was seen.

    An observation before the pod's own start was not made then: the watcher's clock is wrong, and the finish stands.
    """
    end_us = known.disrupted_us if known.finished_us is None else known.finished_us
    if end_us is None:
        flags = {"end_observed", *_proven_wrong(known, time_us)}
        return (fact.resource_version, time_us, known.at_us, tuple(sorted(flags)))
    if end_us <= time_us:
        return (fact.resource_version, time_us, end_us, ())
    begun_us = max(known.created_us or FIRST_US, known.scheduled_us or FIRST_US)
    if time_us < begun_us:
        return (fact.resource_version, time_us, end_us, (stamps.WRONG_CLOCK,))
    return (fact.resource_version, time_us, time_us, ("clamped",))


def _proven_wrong(known: Stamps, time_us: int) -> frozenset[str]:
    return frozenset() if known.at_us == time_us else frozenset((stamps.WRONG_CLOCK,))


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
