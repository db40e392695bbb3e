"""TaintToleration: taints exclude pods without a toleration, or lower a node's score.

Every pod tolerates a not ready or unreachable node for a while, by the API server's default.

Source: Kubernetes, "Taints and Tolerations".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec
import numpy as np

from bus.events.constraints import Taint, Toleration
from projections.cluster import Pod
from reactors.scheduling.columns.table import Ints, Rows
from reactors.scheduling.framework.contract import ONE_CHANGE, Cycle, Refused, scaled
from reactors.scheduling.queueing.hints import Hint

REASON = "node(s) had untolerated taint(s)"
NOT_COMPARED = (
    "node(s) had taint(s) that the pod tolerates by operators which Bursar does not compare"
)
UNKNOWN = "node(s) had more taints or labels than are known"

_NOT_READY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_DEFAULTS = tuple(Toleration(key, "Exists", "", "NoExecute") for key in _NOT_READY)
_KEEPS_AWAY = ("NoSchedule", "NoExecute")
_SOFT = "PreferNoSchedule"
#: Operators supported in comparisons, "" as ``Equal``; the name of another one is cut to so many letters.
_KNOWN = ("", "Equal", "Exists")
LONGEST = 32


class TaintToleration(msgspec.Struct, frozen=True):
    """Taints of nodes. Each distinct set of taints is evaluated once."""

    name: ClassVar[str] = "TaintToleration"
    is_local: ClassVar[bool] = True
    helped_by: ClassVar[frozenset[Hint]] = frozenset({Hint.NODE})

    def filter(self, cycle: Cycle, rows: Rows) -> Sequence[Refused]:
        """Nodes with a taint not tolerated by the pod, and nodes with unknown taints."""
        columns, refused = cycle.columns, []
        by_reason: dict[str, list[int]] = {}
        for at, taints in enumerate(columns.labels.taints):
            for reason in {_reason(cycle.pod, one) for one in _untolerated(cycle.pod, taints)}:
                by_reason.setdefault(reason, []).append(at)
        for reason, sets in sorted(by_reason.items()):
            nodes = np.isin(columns.labels.taint_set[rows], sets)
            if nodes.any():
                refused.append(Refused(reason, nodes, nodes))
        cut = columns.is_cut[rows]
        if cut.any():
            refused.append(Refused(UNKNOWN, cut, cut))
        return refused

    def distance(self, cycle: Cycle) -> int:
        """The same for every node."""
        return ONE_CHANGE

    def remedy(self, cycle: Cycle, row: int) -> str:
        """Tolerate the taints."""
        columns = cycle.columns
        untolerated = _untolerated(cycle.pod, columns.labels.taints[columns.labels.taint_set[row]])
        taints = [
            f"{one.key}{'=' if one.value else ''}{one.value}:{one.effect}"
            f"{' by Exists or Equal' if _uncompared(cycle.pod, one) else ''}"
            for one in untolerated
        ]
        return f"tolerate {' and '.join(taints)}" if taints else "give the node fewer labels"

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """The number of PreferNoSchedule taints not tolerated."""
        counts = [
            sum(one.effect == _SOFT and not tolerates(cycle.pod, one) for one in taints)
            for taints in cycle.columns.labels.taints
        ]
        return np.array(counts, np.int64)[cycle.columns.labels.taint_set[rows]]

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:
        """The fewer the better."""
        return scaled(scores, is_reversed=True)


def tolerates(pod: Pod, taint: Taint) -> bool:
    """Whether one of a pod's tolerations matches this taint."""
    own = pod.constraints.tolerations if pod.constraints else ()
    return any(_means(one, taint) for one in (*own, *_DEFAULTS))


def _untolerated(pod: Pod, taints: Sequence[Taint]) -> list[Taint]:
    return [one for one in taints if one.effect in _KEEPS_AWAY and not tolerates(pod, one)]


def _reason(pod: Pod, taint: Taint) -> str:
    operators = _uncompared(pod, taint)
    return f"{NOT_COMPARED}: {', '.join(operators)}" if operators else REASON


def _uncompared(pod: Pod, taint: Taint) -> list[str]:
    """Unsupported operators of tolerations for this taint."""
    own = pod.constraints.tolerations if pod.constraints else ()
    return sorted({one.operator[:LONGEST] for one in own if one.operator not in _KNOWN and _names(one, taint)})  # fmt: skip


def _means(one: Toleration, taint: Taint) -> bool:
    if not _names(one, taint):
        return False
    # Comparisons of numbers are off by default in every release.
    return one.operator == "Exists" or (one.operator in _KNOWN and one.value == taint.value)


def _names(one: Toleration, taint: Taint) -> bool:
    return one.effect in ("", taint.effect) and one.key in ("", taint.key)
