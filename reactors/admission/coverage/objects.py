"""Objects that admission charges: workloads, and pods without a responsible owner; and their count below an owner. Pure.

Source: ``docs/admission.md`` ("Objects below an owner").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from functools import lru_cache
from typing import TypeVar, overload

from bus.kube.kinds import Ask
from projections.cluster import POD, Change, ClusterState, Pod, Workload
from projections.quota_trees.keys import counted, less
from reactors.admission.deciding.mapping import types_of

Object = Workload | Pod
T = TypeVar("T")


class ChargedObjects(Mapping[str, Object]):
    """By uid: every workload of the cluster's state, and those of its pods that are ``own`` workloads."""

    def __init__(self, state: ClusterState, own: Set[str]) -> None:
        self._state = state
        self._own = own

    def __getitem__(self, uid: str) -> Object:
        if uid in self._own:
            return self._state.pods[uid]
        return self._state.workloads[uid]

    @overload
    def get(self, uid: str, /) -> Object | None: ...
    @overload
    def get(self, uid: str, /, default: Object | T) -> Object | T: ...
    def get(self, uid: str, /, default: Object | T | None = None) -> Object | T | None:
        """Faster than catching an error: most requested uids are no object."""
        if uid in self._own:
            return self._state.pods.get(uid, default)
        return self._state.workloads.get(uid, default)

    def __contains__(self, uid: object) -> bool:
        return uid in self._own or uid in self._state.workloads

    def __iter__(self) -> Iterator[str]:
        yield from self._state.workloads
        yield from self._own

    def __len__(self) -> int:
        return len(self._own) + len(self._state.workloads)


def counts_of(kind: str, ask: Ask) -> dict[str, int]:
    """The counted amounts of an object below its owner. Only pods and
    charged objects name models: users may label the others."""
    return counted(ask.demand, types_of(ask.labels) if kind == POD else {})


def counts_of_pod(pod: Pod) -> Mapping[str, int]:
    """The counted amounts of a pod below its owner. Equal pods share them: a cluster has a hundred thousand."""
    return _known(tuple(pod.asks.items()), tuple(types_of(pod.labels).items()))


@lru_cache(maxsize=8_192)
def _known(
    demand: tuple[tuple[str, int], ...], types: tuple[tuple[str, str], ...]
) -> Mapping[str, int]:
    return counted(dict(demand), dict(types))


def fallen(change: Change) -> tuple[dict[str, int], int]:
    """The old request of a workload that now requests less, or was deleted, and the time since then; empty without a fall.

    The workload's controller makes pods by the old amounts until it notices the change. A webhook process without this
    news admits these pods as covered. An ended workload lacks nothing: its controller reports the end after the last
    pod. During a deletion with finalizers the controller makes no more pods either, so the final deletion is no fall.
    A fall by the status alone was reported by the controller itself: a Job with most completions succeeded.
    """
    before, after = change.before, change.after
    if not isinstance(after, Workload):
        assert isinstance(before, Workload) and change.gone is not None
        asked = {} if before.is_terminating else counts_of(before.kind, before.ask)
        return asked, change.gone.at_us
    is_deleted = after.is_terminating
    if isinstance(before, Workload):
        is_deleted &= not before.is_terminating
    else:
        before = after
    has_ended = after.ask.suspended and not after.ask.wanted
    # Most changes are of a status.
    if has_ended or (after.ask.demand == before.ask.demand and not is_deleted):
        return {}, after.seen_us
    if not is_deleted and _is_reported(before, after):
        return {}, after.seen_us
    asked = counts_of(before.kind, before.ask)
    falls = is_deleted or bool(less(asked, counts_of(after.kind, after.ask)))
    return asked if falls else {}, after.seen_us


def _is_reported(before: Workload, after: Workload) -> bool:
    """Whether the status alone changed the workload's request: neither its spec, a mark of its user, nor its quota."""
    is_same_spec = after.generation != 0 and after.generation == before.generation
    asks = (before.ask, after.ask)
    return (
        is_same_spec and asks[0].suspended == asks[1].suspended and asks[0].labels == asks[1].labels
    )
