"""Resources of nodes as columns of amounts, one row for each node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import numpy.typing as npt

from projections.cluster import Pod
from projections.cluster.rows import Node
from reactors.scheduling.columns.nodes import BASIC, CPU, MEMORY, MOST, STORAGE, Ints, moved
from reactors.scheduling.columns.requests import REQUESTS, ColumnRequest, Requests


class ResourceColumns:
    """Amounts of nodes, allocatable and free. ``counted``: the pods on nodes, with their rows."""

    def __init__(self, counted: Callable[[], Iterable[tuple[int, Pod]]]) -> None:
        self._counted = counted
        #: The column of each resource.
        self.names: dict[str, int] = {name: at for at, name in enumerate(BASIC)}
        self.requests = Requests(self.names)
        width = len(self.names) + 8
        #: [nodes x resources]: cpu in milli, all others in whole units. Free may be below 0.
        self.allocatable: Ints = np.zeros((0, width), np.int64)
        self.free: Ints = np.zeros((0, width), np.int64)
        #: [nodes x 2]: cpu and memory of its pods; a container without a request counts 100m and 200 MiB.
        self.nonzero: Ints = np.zeros((0, 2), np.int64)

    def move(self, order: npt.NDArray[np.intp], is_new: npt.NDArray[np.intp]) -> None:
        """The rows are in a new order; new rows are empty."""
        self.allocatable = moved(self.allocatable, order, is_new, 0)
        self.free = moved(self.free, order, is_new, 0)
        self.nonzero = moved(self.nonzero, order, is_new, 0)

    def forget(self, nodes: Iterable[Node]) -> None:
        """Drop resources without a node: the columns of the others change."""
        offered = {name for one in nodes for name in one.allocatable}
        names = [name for at, name in enumerate(self.names) if at <= STORAGE or name in offered]
        order = [self.names[name] for name in names]
        self.names.clear()
        self.names.update((name, at) for at, name in enumerate(names))
        self.allocatable, self.free = self.allocatable[:, order], self.free[:, order]

    def describe(self, row: int, amounts: Mapping[str, int]) -> None:
        """Write the allocatable amounts of a node."""
        # Growth creates new matrices, so the columns come first.
        columns = {self._column(name): min(amount, MOST - 1) for name, amount in amounts.items()}
        used = self.allocatable[row] - self.free[row]
        self.allocatable[row] = 0
        for at, amount in columns.items():
            self.allocatable[row, at] = amount
        self.free[row] = self.allocatable[row] - used

    def _column(self, resource: str) -> int:
        """The column of a resource offered by a node; a new column starts with the requests of the pods on nodes."""
        at = self.names.get(resource)
        if at is None:
            at = self.names[resource] = len(self.names)
            if at == self.allocatable.shape[1]:
                more = np.zeros((len(self.allocatable), at), np.int64)
                self.allocatable = np.hstack((self.allocatable, more))
                self.free = np.hstack((self.free, more))
            self.requests.clear()
            for row, pod in self._counted():
                self.free[row, at] -= min(pod.demand.get(REQUESTS + resource, 0), MOST)
        return at

    def request(self, pod: Pod) -> Ints:
        """The request of a pod, one amount for each column."""
        request = np.zeros(self.free.shape[1], np.int64)
        for at, amount in self.requests.of(pod).amounts:
            request[at] = amount
        return request

    def count(self, row: int, pod: Pod, request: ColumnRequest, sign: int) -> None:
        """Count a pod's request on a node, or with ``sign`` -1 take it off."""
        for at, amount in request.amounts:
            self.free[row, at] -= sign * amount
            if at <= MEMORY:
                self.nonzero[row, at] += sign * amount
        if pod.unrequested:
            self.nonzero[row, CPU] += sign * pod.unrequested[CPU]
            self.nonzero[row, MEMORY] += sign * pod.unrequested[MEMORY]
