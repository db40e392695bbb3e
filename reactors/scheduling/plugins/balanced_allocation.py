"""NodeResourcesBalancedAllocation: a node scores higher if the pod evens out its resources.

The score is the change of balance: 75 = none, up to 100 for a node evener with the pod than without it.

Source: Kubernetes, "Scheduler Configuration", NodeResourcesBalancedAllocationArgs.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from reactors.scheduling.columns.table import STORAGE, Ints, Rows
from reactors.scheduling.framework.contract import HIGHEST, SKIP, Cycle, Status
from reactors.scheduling.plugins.resources_fit import ScoredResource

Floats = npt.NDArray[np.float64]


class NodeResourcesBalancedAllocation(msgspec.Struct, frozen=True):
    """Scores by requests alone. Floats are added in the order of ``resources``, so equal columns give equal scores."""

    name: ClassVar[str] = "NodeResourcesBalancedAllocation"
    is_local: ClassVar[bool] = True

    resources: tuple[ScoredResource, ...] = (ScoredResource("cpu"), ScoredResource("memory"))

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status | None:
        """A pod without requests changes no balance."""
        columns = (cycle.columns.resources.names.get(one.name) for one in self.resources)
        return None if any(at is not None and cycle.request[at] for at in columns) else SKIP

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """50 to 100."""
        columns, fractions = cycle.columns, []
        for one in self.resources:
            at = columns.resources.names.get(one.name)
            if at is None or (at > STORAGE and not cycle.request[at]):
                continue
            capacity = columns.resources.allocatable[rows, at]
            used = capacity - columns.resources.free[rows, at]
            fractions.append((capacity, used, used + cycle.request[at]))
        size = columns.pods[rows].size
        before = _balance([(one[0], one[1]) for one in fractions], size)
        after = _balance([(one[0], one[2]) for one in fractions], size)
        half = HIGHEST // 2
        # Never negative, so rounding down is rounding towards zero.
        return half + (half + after - before) // 2


def _balance(amounts: list[tuple[Ints, Ints]], size: int) -> Ints:
    """100 less the standard deviation of the used fractions, in percent; a resource missing on a node counts nothing."""
    if len(amounts) == 2 and all(capacity.all() for capacity, _ in amounts):
        # The computation below for two resources, without the extra work for nodes without one of them: with few nodes the
        # overhead dominates.
        one, other = (np.minimum(used / capacity, 1.0) for capacity, used in amounts)
        return np.asarray((1 - np.abs((one - other) / 2)) * float(HIGHEST)).astype(np.int64)
    count = np.zeros(size, np.int64)
    total = np.zeros(size, np.float64)
    fractions: list[Floats] = []
    for capacity, used in amounts:
        exists = capacity > 0
        fraction = np.where(exists, np.minimum(used / np.maximum(capacity, 1), 1.0), 0.0)
        fractions.append(np.where(exists, fraction, np.nan))
        total = total + fraction
        count += exists
    mean = total / np.maximum(count, 1)
    squares = np.zeros(size, np.float64)
    for fraction in fractions:
        squares = squares + np.where(np.isnan(fraction), 0.0, (fraction - mean) ** 2)
    deviation = np.where(count > 1, np.sqrt(squares / np.maximum(count, 1)), 0.0)
    if len(fractions) == 2:
        # kube-scheduler rounds the case of two resources this way.
        both = count == 2
        deviation = np.where(both, np.abs((fractions[0] - fractions[1]) / 2), deviation)
    return np.asarray((1 - deviation) * float(HIGHEST)).astype(np.int64)
