"""The observations of one pod, folded independently of order and repetition.

Every field of a :class:`PodHistory` is a minimum, a maximum or a set over the observations: starts and deletes keep the
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
from projections.pod_runs.finishes import INIT, LATER, REGULAR, UNSTARTED, Finish, GoneRecord
from projections.pod_runs.pod_value import PodValue
from projections.pod_runs.shape import PodHistory
from projections.pod_runs.stamps import Stamps
from projections.timelines import added, precedes, replaces

#: Phases of ended pods.
TERMINAL = frozenset({"Succeeded", "Failed"})

#: Reasons of DisruptionTarget with a transition at the possible end of the pod: the kubelet ended it, or PodGC
#: found its node gone.
KUBELET, POD_GC = "TerminationByKubelet", "DeletionByPodGC"

_RAN = {"init": INIT, "regular": REGULAR}

#: The node of a started pod without a node name.
NO_NODE = ""

#: A deadline further than this (microseconds; twenty years) is none: its end could be no stamp.
FARTHEST_US = 20 * stamps.YEAR_US

_encoder = msgspec.json.Encoder(order="sorted")


def fold(row: PodHistory | None, fact: PodState, event: Event) -> PodHistory:
    """The pod with one more observation. A repeated observation gives the same row.

    An unreadable or impossible stamp counts as absent, flag ``clamped``. Stamps can prove a watcher's clock wrong:
    flag ``clock``. A resource above the ledger's largest amount (a pod may ask for 10 exa cores, and wait for ever)
    is charged as zero, flag ``amounts_refused``, and the pod's other resources as ever: parking it would let one
    tenant stop the ledger of all, refusing the pod would let an absurd resource make the others free. A started pod
    without a node is charged by its requests all the same, flag ``no_node``.
    """
    version, time_us = fact.resource_version, event.time_us
    known = stamps.read(fact, time_us)
    if row is None:
        row = PodHistory(fact.uid, event.cluster, fact.namespace, fact.name, known.at_us)
    value, flags = _value(fact, known.flags.union(row.flags))
    history = added(row.history, version, time_us, value)
    started_us, acknowledged_us, bound_us = _started(row, value.node, known)
    deleted_us, gone = row.deleted_us, row.gone
    if known.deletion_us is not None and fact.grace_seconds == 0:
        deleted_us = stamps.earlier(deleted_us, known.deletion_us)
    elif isinstance(fact, PodVanished):
        told = GoneRecord(known.at_us, _proof(fact, known, known.at_us))
        gone = told if gone is None else min(gone, told)
        if known.at_us != time_us:
            flags |= {stamps.WRONG_CLOCK}
    finishes = row.finishes
    if fact.phase in TERMINAL:
        finishes = _first(finishes, _finish(fact, known, time_us))
    asked = row.asked
    if fact.disrupted is not None or fact.disruption:
        asked = _earlier_asked(asked, (version, time_us, fact.disruption == KUBELET))
    ran = max(row.ran, REGULAR if fact.phase == "Running" else _RAN.get(fact.ran, UNSTARTED))
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
    if (value.gpu_milli or value.extended or fact.card_texts or fact.claimed) and (
        observed := _cards(fact)
    ):
        cards = added(cards, version, time_us, observed)
    disrupted = row.disrupted
    if fact.disruption and (disrupted is None or replaces(version, time_us, disrupted[:2])):
        disrupted = (version, time_us, fact.disruption)
    folded = PodHistory(
        row.uid, row.cluster, row.namespace, row.name, stamps.earlier_seen(row.seen_us, known.at_us),
        tuple(sorted(flags)), history, stamps.earlier(row.created_us, known.created_us),
        started_us, bound_us, deleted_us, gone, finishes, latest, phase, owned, owner, labels,
        deadline_s, claims, claimed, cards, disrupted, acknowledged_us, ran, asked, event.sequence,
    )  # fmt: skip
    # Most observations are of a new version.
    if latest != row.latest or history != row.history:
        return folded
    is_known = msgspec.structs.replace(folded, sequence=row.sequence) == row
    return row if is_known else folded


def is_same_run(before: PodHistory | None, after: PodHistory) -> bool:
    """Whether all inputs of the run are unchanged, except evidence of its existence."""
    return (
        before is not None
        and before.history[-1][2] == after.history[-1][2]
        and before.history == after.history[: len(before.history)]
        # A newer version observed earlier moves the start of older values.
        and before.history[-1][1] <= after.history[-1][1]
        and before.started_us == after.started_us
        and before.bound_us == after.bound_us
        and before.seen_us == after.seen_us
        and before.deleted_us == after.deleted_us
        and before.acknowledged_us == after.acknowledged_us
        and before.gone == after.gone
        and before.finishes == after.finishes
        and before.ran == after.ran
        and before.asked == after.asked
        and before.created_us == after.created_us
        and before.owner == after.owner
        and before.flags == after.flags
        and before.deadline_s == after.deadline_s
        and before.claims == after.claims
        and before.claimed == after.claimed
        and before.cards == after.cards
    )


def _value(fact: PodState, flags: frozenset[str]) -> tuple[PodValue, frozenset[str]]:
    amounts = charged_bytes(bytes(fact.resources))
    if amounts.refused:
        flags |= {"amounts_refused"}
    extended = _encoder.encode(dict(amounts.extended)).decode() if amounts.extended else ""
    value = PodValue(
        amounts.cpu_millicores,
        amounts.memory_mib,
        amounts.gpu_milligpus,
        extended,
        fact.team,
        fact.user,
        _node(fact),
        names(fact.labels),
    )
    return value, flags if value.node != NO_NODE else flags | {"no_node"}


def _cards(fact: PodState) -> str:
    return facts_of(fact, charged_bytes(bytes(fact.resources)))


def _node(fact: PodState) -> str | None:
    """Where the pod holds; None while it is not bound."""
    return NO_NODE if fact.node is None and fact.phase == "Running" else fact.node


def _deadline(fact: PodState) -> int | None:
    """Its requested deadline; nothing for an end beyond every stamp."""
    seconds = fact.deadline_s
    return seconds if seconds is None or 0 <= seconds * 1_000_000 <= FARTHEST_US else None


def _started(
    row: PodHistory, node: str | None, known: Stamps
) -> tuple[int | None, int | None, int | None]:
    """(the smallest start by stamps, the kubelet's smallest one, the first observed bind without any): see
    :class:`PodHistory`.
    """
    found = row.started_us, row.acknowledged_us, row.bound_us
    if node is None:
        return found
    started_us, acknowledged_us, bound_us = found
    if known.scheduled_us is not None:
        by_stamp = max(known.scheduled_us, known.created_us or known.scheduled_us)
        return stamps.earlier(started_us, by_stamp), acknowledged_us, bound_us
    if known.acknowledged_us is not None:
        # The kubelet spoke: a missing condition proves nothing.
        return started_us, stamps.earlier(acknowledged_us, known.acknowledged_us), bound_us
    if known.created_us is not None:
        return stamps.earlier(started_us, known.created_us), acknowledged_us, bound_us
    return started_us, acknowledged_us, stamps.earlier_seen(bound_us, known.at_us)


def _finish(fact: PodState, known: Stamps, time_us: int) -> Finish:
    """The end of a finished pod by its stamps."""
    is_killed = fact.disruption == KUBELET
    is_end = is_killed or fact.disruption == POD_GC
    observed_us = known.at_us
    begun_us = max(known.created_us or stamps.FIRST_US, known.scheduled_us or stamps.FIRST_US)
    if known.written_us is not None and known.written_us >= begun_us - stamps.TOLERANCE_US:
        observed_us = min(observed_us, known.written_us)
    return Finish(
        fact.resource_version,
        time_us,
        observed_us,
        fact.listed,
        _or_later(known.finished_us),
        _or_later(known.init_us),
        _or_later(known.acknowledged_us if fact.refusal else None),
        _or_later(known.disrupted_us if is_end else None),
        is_killed,
        _proof(fact, known, observed_us),
    )


def _proof(fact: PodState, known: Stamps, until_us: int) -> int:
    """The newest of its own stamps up to a moment; 0 for none."""
    own = (
        known.acknowledged_us, known.scheduled_us, known.disrupted_us, known.finished_us, known.init_us,
    )  # fmt: skip
    proofs = [us for us in own if us is not None and us <= until_us]
    return max([stamps.newest(fact.evidence, until_us) or 0, *proofs])


def _or_later(us: int | None) -> int:
    return LATER if us is None else us


def _earlier_asked(
    one: tuple[str, int, bool] | None, other: tuple[str, int, bool]
) -> tuple[str, int, bool]:
    """The first of two observations; of one version the one observed earlier."""
    if one is None or precedes(*other[:2], *one[:2]):
        return other
    return min(one, other) if one[0] == other[0] else one


def _first(finishes: tuple[Finish, ...], finish: Finish) -> tuple[Finish, ...]:
    if not finishes:
        return (finish,)
    candidates = sorted({*finishes, finish})
    first = candidates[0]
    for other in candidates[1:]:
        if precedes(other.version, other.time_us, first.version, first.time_us) or (
            other.version == first.version and other.time_us < first.time_us
        ):
            first = other
    return (first,)
