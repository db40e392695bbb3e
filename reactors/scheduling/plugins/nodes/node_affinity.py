"""NodeAffinity: node selector and node affinity, required and preferred.

Source: Kubernetes, "Assigning Pods to Nodes".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec
import numpy as np

from bus.events.constraints import NodeSelectorTerm, PreferredNodes
from projections.cluster import Pod
from reactors.scheduling.columns.selectors import NAME, nodes_of, required_nodes
from reactors.scheduling.columns.table import Ints, Rows
from reactors.scheduling.framework.contract import (
    ONE_CHANGE,
    SKIP,
    Code,
    Cycle,
    Refused,
    Status,
    scaled,
)
from reactors.scheduling.queueing.hints import Hint

REASON = "node(s) didn't match Pod's node affinity/selector"
CONFLICT = "pod affinity terms conflict"


class NodeAffinity(msgspec.Struct, frozen=True):
    """Nodes by their labels and names."""

    name: ClassVar[str] = "NodeAffinity"
    is_local: ClassVar[bool] = True
    helped_by: ClassVar[frozenset[Hint]] = frozenset({Hint.NODE})

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """If every term names its nodes, only these are evaluated."""
        found = cycle.pod.constraints
        affinity = found.affinity.node_affinity if found and found.affinity else None
        required = affinity.required if affinity is not None else None
        if found is None or (required is None and not found.node_selector):
            return SKIP
        terms = required.node_selector_terms if required is not None else None
        named = [_named(one) for one in terms or ()]
        if not named or None in named:
            return None
        names = set().union(*(one for one in named if one))
        if not names:
            return Status(Code.UNRESOLVABLE, CONFLICT)
        rows = [cycle.columns.row_of[name] for name in names if name in cycle.columns.row_of]
        nodes = np.zeros(len(cycle.columns.nodes), np.bool_)
        nodes[rows] = True
        return Status(Code.SUCCESS, nodes=nodes)

    def filter(self, cycle: Cycle, rows: Rows) -> Sequence[Refused]:
        """Nodes not selected by the pod."""
        selected = required_nodes(cycle.pod.constraints, cycle.columns)
        if selected is None:
            return ()
        others = ~selected[rows]
        return (Refused(REASON, others, others),) if others.any() else ()

    def distance(self, cycle: Cycle) -> int:
        """The same for every node."""
        return ONE_CHANGE

    def remedy(self, cycle: Cycle, row: int) -> str:
        """Select the node."""
        return f"let nodeSelector and nodeAffinity select {cycle.columns.names[row]}"

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status | None:
        """Only a pod with preferences scores nodes."""
        return None if _preferred(cycle.pod) else SKIP

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """The weights of the matching terms."""
        found = np.zeros(len(cycle.columns.nodes), np.int64)
        for one in _preferred(cycle.pod):
            found += one.weight * nodes_of(one.preference, cycle.columns)
        return found[rows]

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:
        """As parts of the best."""
        return scaled(scores)


def _named(term: NodeSelectorTerm) -> set[str] | None:
    """The nodes named in a term; None if it names none, so it may match any."""
    found: set[str] | None = None
    for one in term.match_fields or ():
        if one.key == NAME and one.operator == "In":
            found = set(one.values or ()) if found is None else found & set(one.values or ())
    return found


def _preferred(pod: Pod) -> tuple[PreferredNodes, ...]:
    affinity = pod.constraints.affinity if pod.constraints else None
    return (affinity.node_affinity.preferred or ()) if affinity and affinity.node_affinity else ()
