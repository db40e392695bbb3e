"""PodTopologySpread: pods of one kind are spread evenly over domains of nodes.

Unlike kube-scheduler it spreads no pod without spread constraints: the Service or ReplicaSet selecting a pod is unknown here.

Source: Kubernetes, "Pod Topology Spread Constraints".
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from typing import ClassVar

import msgspec
import numpy as np

from bus.events.constraints import LabelSelector, Spread, is_empty, selects
from projections.cluster import Pod
from reactors.scheduling.columns.crowds import labels_of
from reactors.scheduling.columns.selectors import narrowed, required_nodes
from reactors.scheduling.columns.table import Bools, Ints, Rows
from reactors.scheduling.framework.contract import HIGHEST, ONE_CHANGE, SKIP, Cycle, Refused, Status
from reactors.scheduling.plugins.nodes.taint_toleration import tolerates
from reactors.scheduling.queueing.hints import Hint

SKEWED = "node(s) didn't match pod topology spread constraints"
NO_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"

_HOSTNAME = "kubernetes.io/hostname"
#: Parts of one in the units of a domain's weight.
_PARTS = 10**9


class PodTopologySpread(msgspec.Struct, frozen=True):
    """Hard constraints refuse nodes, soft ones score them."""

    name: ClassVar[str] = "PodTopologySpread"
    is_local: ClassVar[bool] = False
    helped_by: ClassVar[frozenset[Hint]] = frozenset({Hint.NODE, Hint.GONE, Hint.PLACED})

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """Without hard constraints no node is refused."""
        return None if _of(cycle.pod, "DoNotSchedule") else SKIP

    def filter(self, cycle: Cycle, rows: Rows) -> Sequence[Refused]:
        """Nodes without a domain, and nodes in a domain with too many pods already."""
        spreads = _of(cycle.pod, "DoNotSchedule")
        if not spreads:
            return ()
        columns = cycle.columns
        size = len(columns.nodes)
        labelled = _all_domains(cycle, spreads)
        refused: list[Refused] = []
        passed = np.ones(size, np.bool_)
        for spread in spreads:
            column = columns.labels.of(spread.topology_key)
            missing = passed & (column == 0)
            passed &= ~missing
            counted = labelled & _included(cycle, spread)
            totals = np.zeros(len(columns.labels.texts) + 1, np.int64)
            np.add.at(totals, column[counted], _matching(cycle, spread)[counted])
            domains = np.unique(column[counted])
            # Without any domain nothing is skewed.
            least = int(totals[domains].min()) if domains.size else 2**31 - 1
            if domains.size < (spread.min_domains or 1):
                least = 0
            own = int(selects(_selector(cycle.pod, spread), labels_of(cycle.pod)))
            skewed = passed & (totals[column] + own - least > spread.max_skew)
            passed &= ~skewed
            for reason, mask, never in ((NO_LABEL, missing, missing), (SKEWED, skewed, None)):
                found = mask[rows]
                if found.any():
                    refused.append(Refused(reason, found, None if never is None else found))
        return refused

    def distance(self, cycle: Cycle) -> int:
        """The same for every node."""
        return ONE_CHANGE

    def remedy(self, cycle: Cycle, row: int) -> str:
        """Allow a larger skew."""
        return "raise maxSkew, or let whenUnsatisfiable be ScheduleAnyway"

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status | None:
        """Count pods of the fitting domains, for soft constraints."""
        spreads = _of(cycle.pod, "ScheduleAnyway")
        if not spreads:
            return SKIP
        columns = cycle.columns
        labelled = _all_domains(cycle, spreads)
        fitting = np.zeros(len(columns.nodes), np.bool_)
        fitting[rows] = True
        fitting &= labelled
        totals, skews = np.zeros(len(columns.nodes), np.int64), 0
        for spread in spreads:
            column, matching = columns.labels.of(spread.topology_key), _matching(cycle, spread)
            if spread.topology_key == _HOSTNAME:
                counts, domains = matching, int(fitting.sum())
            else:
                counted = labelled & _included(cycle, spread)
                sums = np.zeros(len(columns.labels.texts) + 1, np.int64)
                np.add.at(sums, column[counted], matching[counted])
                counts, domains = sums[column], np.unique(column[fitting]).size
            # Exact, so equal histories give equal scores on every machine.
            totals += counts * _weight(domains)
            # A user's value: its product could overflow.
            skews += spread.max_skew - 1
        cycle.data[self.name] = fitting[rows]
        cycle.data[f"{self.name}/totals"] = (2 * totals + _PARTS) // (2 * _PARTS) + skews
        return None

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """The number of matching pods in the domains of a node; 0 without a domain."""
        totals: Ints = cycle.data[f"{self.name}/totals"][rows]
        return np.where(cycle.data[self.name], totals, 0)

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:
        """The fewer the better; a node without domain gets 0."""
        known: Bools = cycle.data[self.name]
        if not known.any():
            return np.zeros(scores.size, np.int64)
        least, most = int(scores[known].min()), int(scores[known].max())
        if not most:
            return np.where(known, HIGHEST, 0).astype(np.int64)
        return np.where(known, HIGHEST * (most + least - scores) // most, 0)


def _of(pod: Pod, action: str) -> list[Spread]:
    spreads = pod.constraints.topology_spread_constraints if pod.constraints else ()
    return [one for one in spreads if one.when_unsatisfiable == action]


def _selector(pod: Pod, spread: Spread) -> LabelSelector | None:
    return narrowed(spread.label_selector, labels_of(pod), spread.match_label_keys)


def _all_domains(cycle: Cycle, spreads: Sequence[Spread]) -> Bools:
    """Nodes with a domain of every constraint: others count for none."""
    found = np.ones(len(cycle.columns.nodes), np.bool_)
    for spread in spreads:
        found &= cycle.columns.labels.of(spread.topology_key) != 0
    return found


def _included(cycle: Cycle, spread: Spread) -> Bools:
    """Nodes with counted pods by the policies of a constraint."""
    found = np.ones(len(cycle.columns.nodes), np.bool_)
    if (spread.node_affinity_policy or "Honor") == "Honor":
        selected = required_nodes(cycle.pod.constraints, cycle.columns)
        if selected is not None:
            found &= selected
    if spread.node_taints_policy == "Honor":
        clean = [
            all(
                tolerates(cycle.pod, one)
                for one in taints
                if one.effect in ("NoSchedule", "NoExecute")
            )
            for taints in cycle.columns.labels.taints
        ]
        found &= np.array(clean, np.bool_)[cycle.columns.labels.taint_set]
    return found


def _matching(cycle: Cycle, spread: Spread) -> Ints:
    """The number of matching pods of a constraint on each node, without ending ones."""
    found = np.zeros(len(cycle.columns.nodes), np.int64)
    selector = _selector(cycle.pod, spread)
    if is_empty(selector):
        return found
    for crowd in cycle.columns.crowds:
        if crowd.namespace != cycle.pod.namespace or crowd.is_terminating:
            continue
        if selects(selector, crowd.labels):
            for row, count in crowd.on.items():
                found[row] += count
    return found


@lru_cache(maxsize=1_024)
def _weight(domains: int) -> int:
    """The natural logarithm of a number of domains and two."""
    return round(Decimal(domains + 2).ln() * _PARTS)
