"""The end of a pod's holding: by its containers, by its delete, by an observation, or by the complete lists.

A stamp decides where one records the end. An observation without one proves an end only while the source was alive: after a
silence, or in a list, the pod is charged up to the last proof of it, and the rest is unknown time.

Source: docs/accounting.md, "One pod, by uid".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import msgspec

from projections.pod_runs.finishes import LATER, REGULAR, UNSTARTED, Finish, GoneRecord
from projections.pod_runs.shape import PodHistory
from projections.pod_runs.stamps import FIRST_US, TOLERANCE_US, WRONG_CLOCK
from projections.timelines import MICROSECONDS, precedes

if TYPE_CHECKING:
    from projections.lists.parts import Absence


class ListEvidence(Protocol):
    """The proofs of complete lists and of the heartbeats of the source of pods."""

    def absence(self, pod: PodHistory, /) -> Absence:
        """The evidence of complete lists about a pod without a known end."""

    def is_alive(self, cluster: str, us: int, /) -> bool:
        """Whether the source of pods reported shortly before a moment, or never reported before it."""

    def proof(self, pod: PodHistory, version: str, us: int, since_us: int, /) -> int:
        """The newest moment from ``since_us`` to ``us`` with a proof of a pod ended at ``version``, by lists or
        heartbeats.
        """


class End(msgspec.Struct, frozen=True, gc=False):
    """An end: the last charged second, the last unknown second, flags.

    ``observed_us``: its observation, if the end rests on one. ``end_s`` None: the pod is open.
    """

    end_s: int | None
    until_s: int = 0
    flags: frozenset[str] = frozenset()
    observed_us: int | None = None


_OPEN = End(None)
_NO_FLAGS: frozenset[str] = frozenset()


def end_of(pod: PodHistory, evidence: ListEvidence) -> End:
    """The earliest of finish, delete stamp and DELETED. The lists are asked only where none of them is known."""
    # In this order: of two ends in one second the finish gives its flags.
    ends = [_finished(pod, finish, evidence) for finish in pod.finishes]
    # It finished before it was deleted: two observations prove no more than the first.
    observed_us = ends[0].observed_us if ends else None
    if pod.deleted_us is not None:
        ends.append(_exact(pod.deleted_us, _NO_FLAGS))
    elif pod.gone is not None and observed_us is None:
        ends.append(_deleted(pod, pod.gone, evidence))
        observed_us = pod.gone.at_us
    if not ends:
        return _unseen(evidence.absence(pod))
    first = min(ends, key=_end)
    return End(first.end_s, min(end.until_s for end in ends), first.flags, observed_us)


def _end(end: End) -> int:
    return end.end_s or 0


def _exact(us: int, flags: frozenset[str], observed_us: int | None = None) -> End:
    return End(us // MICROSECONDS, us // MICROSECONDS, flags, observed_us)


def _unseen(found: Absence) -> End:
    if found.missed_us is None:
        return _OPEN
    missed_s = found.missed_us // MICROSECONDS
    return End(min(found.seen_us // MICROSECONDS, missed_s), missed_s, frozenset(("vanished",)))


def _finished(pod: PodHistory, finish: Finish, evidence: ListEvidence) -> End:
    flags = _NO_FLAGS
    earliest_us = _begun_us(pod, pod.acknowledged_us) - TOLERANCE_US
    for us in _stamped(pod, finish):
        if us >= earliest_us:
            return _clamped(pod, finish, us, flags)
        flags |= {WRONG_CLOCK}
    if finish.time_us < FIRST_US:
        flags |= {WRONG_CLOCK}
    us = finish.observed_us
    if not finish.listed and evidence.is_alive(pod.cluster, us):
        return _exact(us, flags | {"end_observed"}, us)
    last_us = finish.proof_us
    for version, time_us, _ in pod.history:
        if time_us <= us and precedes(version, time_us, finish.version, finish.time_us):
            last_us = max(last_us, time_us)
    return _proven(pod, finish.version, us, last_us, flags, evidence)


def _stamped(pod: PodHistory, finish: Finish) -> Iterator[int]:
    """Its end by stamps, the best one first."""
    if finish.finished_us != LATER:
        yield finish.finished_us
    if finish.init_us != LATER and pod.ran != REGULAR:
        yield finish.init_us
    if finish.refused_us != LATER and pod.ran == UNSTARTED:
        yield finish.refused_us
    if finish.disrupted_us != LATER and not _was_asked(pod, finish):
        yield finish.disrupted_us


def _was_asked(pod: PodHistory, finish: Finish) -> bool:
    """Whether DisruptionTarget came before the finish, as the request to go: a new reason keeps the transition of the old one."""
    if pod.asked is None:
        return False
    version, time_us, is_killed = pod.asked
    is_earlier = precedes(version, time_us, finish.version, finish.time_us)
    return is_earlier and not (is_killed and finish.is_killed)


def _clamped(pod: PodHistory, finish: Finish, us: int, flags: frozenset[str]) -> End:
    """A finish is never after its observation, unless that lies before the pod's start: the watcher's clock is wrong."""
    if us <= finish.time_us:
        return _exact(us, flags)
    if finish.time_us < _begun_us(pod, None):
        return _exact(us, flags | {WRONG_CLOCK})
    return _exact(finish.time_us, flags | {"clamped"})


def _begun_us(pod: PodHistory, acknowledged_us: int | None) -> int:
    """Its start by stamps; before all moments where there is none."""
    started_us = acknowledged_us if pod.started_us is None else pod.started_us
    return max(pod.created_us or -LATER, started_us or -LATER)


def _deleted(pod: PodHistory, gone: GoneRecord, evidence: ListEvidence) -> End:
    us = gone.at_us
    if evidence.is_alive(pod.cluster, us):
        return _exact(us, frozenset(("end_observed",)), us)
    last_us = max((at for _, at, _ in pod.history if at < us), default=0)
    return _proven(pod, "", us, max(last_us, gone.proof_us), _NO_FLAGS, evidence)


def _proven(
    pod: PodHistory,
    version: str,
    us: int,
    last_us: int,
    flags: frozenset[str],
    evidence: ListEvidence,
) -> End:
    """Charged up to the last proof, and never less than up to its start; unknown up to the observation."""
    begun_us = pod.begin_us if pod.start_us is None else pod.start_us
    last_us = min(max(last_us, begun_us), us)
    last_us = max(last_us, evidence.proof(pod, version, us, last_us))
    return End(last_us // MICROSECONDS, us // MICROSECONDS, flags | {"end_observed"}, us)
