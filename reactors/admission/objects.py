"""What admission charges: workloads, and pods that no owner answers for. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import TypeVar, overload

from projections.cluster import ClusterState, Pod, Workload

Object = Workload | Pod
T = TypeVar("T")


class Objects(Mapping[str, Object]):
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
        """Faster than by catching an error: most uids that are asked for are no object."""
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
