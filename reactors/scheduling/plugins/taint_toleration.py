"""TaintToleration: taints keep pods away that do not tolerate them, or make a node worse.

Every pod tolerates for a while that its node is not ready or unreachable, as the API server writes it.

Source: Kubernetes, "Taints and Tolerations".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec
import numpy as np

from bus.events.constraints import Taint, Toleration
from projections.cluster import Pod
from reactors.scheduling.columns import Ints, Rows
from reactors.scheduling.contract import ONE_CHANGE, Cycle, Refused, scaled
from reactors.scheduling.hints import Hint

REASON = "node(s) had untolerated taint(s)"
UNKNOWN = "node(s) had more taints or labels than are known"

_NOT_READY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_DEFAULTS = tuple(Toleration(key, "Exists", "", "NoExecute") for key in _NOT_READY)
_KEEPS_AWAY = ("NoSchedule", "NoExecute")
_SOFT = "PreferNoSchedule"


class TaintToleration(msgspec.Struct, frozen=True):
    """Looks at each distinct set of taints once."""

    name: ClassVar[str] = "TaintToleration"
    is_local: ClassVar[bool] = True
    helped_by: ClassVar[frozenset[Hint]] = frozenset({Hint.NODE})

    def filter(self, cycle: Cycle, rows: Rows) -> Sequence[Refused]:
        """Nodes with a taint that the pod does not tolerate, and nodes of which not all taints are known."""
        columns, refused = cycle.columns, []
        bad = [
            any(not tolerates(cycle.pod, one) for one in taints if one.effect in _KEEPS_AWAY)
            for taints in columns.taints
        ]
        nodes = np.array(bad, np.bool_)[columns.taint_set[rows]]
        if nodes.any():
            refused.append(Refused(REASON, nodes, nodes))
        cut = columns.is_cut[rows]
        if cut.any():
            refused.append(Refused(UNKNOWN, cut, cut))
        return refused

    def distance(self, cycle: Cycle) -> int:
        """The same for every node."""
        return ONE_CHANGE

    def remedy(self, cycle: Cycle, row: int) -> str:
        """Tolerate what is not tolerated."""
        columns = cycle.columns
        taints = [
            f"{one.key}{'=' if one.value else ''}{one.value}:{one.effect}"
            for one in columns.taints[columns.taint_set[row]]
            if one.effect in _KEEPS_AWAY and not tolerates(cycle.pod, one)
        ]
        return f"tolerate {' and '.join(taints)}" if taints else "give the node fewer labels"

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """How many taints that ask pods to stay away are not tolerated."""
        counts = [
            sum(one.effect == _SOFT and not tolerates(cycle.pod, one) for one in taints)
            for taints in cycle.columns.taints
        ]
        return np.array(counts, np.int64)[cycle.columns.taint_set[rows]]

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:
        """The fewer the better."""
        return scaled(scores, is_reversed=True)


def tolerates(pod: Pod, taint: Taint) -> bool:
    """Whether one of a pod's tolerations means this taint."""
    own = pod.constraints.tolerations if pod.constraints else ()
    return any(_means(one, taint) for one in (*own, *_DEFAULTS))


def _means(one: Toleration, taint: Taint) -> bool:
    if one.effect and one.effect != taint.effect:
        return False
    if one.key and one.key != taint.key:
        return False
    match one.operator or "Equal":
        case "Exists":
            return True
        case "Equal":
            return one.value == taint.value
    # Comparisons of numbers are not on in any release yet.
    return False
