"""Runs the filters of a profile, to find the nodes for a pod. Pure.

A nominated pod holds its room against less or equally important pods: such a pod has to fit both with the nominated pod and
without it.

Source: Kubernetes, "Scheduling Framework" and "Pod Priority and Preemption"; docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from projections.cluster import Pod
from reactors.scheduling.columns.table import ALL, Bools, Columns, Ints, Placed
from reactors.scheduling.framework.contract import (
    Code,
    Cycle,
    Filter,
    Plugin,
    PreFilter,
    Refused,
    extends,
)
from reactors.scheduling.framework.refusals import refused_by

#: Plugins for nodes closed to new pods.
KEEPING_AWAY = ("NodeUnschedulable", "TaintToleration")


class Filtering:
    """The filters among ``plugins`` over one cluster's columns."""

    def __init__(self, plugins: Sequence[Plugin], columns: Columns) -> None:
        self.columns = columns
        self.filters = [one for one in plugins if extends(one, Filter)]
        self._pre_filters = [one for one in plugins if extends(one, PreFilter)]

    def refuses(self, cycle: Cycle, row: int) -> str:
        """The reason why a node does not take a pod any more; "" = it does. The first reason counts."""
        found = self.first_refusals(cycle, np.array([row], np.int64))
        reasons = [one.reason for one in found if one.nodes[0]]
        return (reasons[0] or "the pod's own terms leave it out") if reasons else ""

    def keeps_away(self, cycle: Cycle, row: int, by: Collection[str] = KEEPING_AWAY) -> bool:
        """Whether a node takes no new pod of this kind, whatever its room: by default, as it is cordoned or tainted."""
        columns = self.columns
        is_closed = columns.unschedulable[row] or columns.is_cut[row]
        if by is KEEPING_AWAY and not is_closed and not columns.nodes[row].taints:
            # Each pod is checked before its bind, and most nodes are like this one.
            return False
        rows = np.array([row], np.intp)
        closing = [one for one in self.filters if one.name in by]
        return any(found.nodes[0] for one in closing for found in one.filter(cycle, rows))

    def pre_filter(self, cycle: Cycle) -> tuple[set[str], Bools | None, str]:
        """(plugins with a skipped filter, the remaining nodes if not all, the reason why the pod cannot be placed)."""
        skipped: set[str] = set()
        allowed: Bools | None = None
        narrowing: list[str] = []
        refused = ""
        for plugin in self._pre_filters:
            status = plugin.pre_filter(cycle)
            if status is None:
                continue
            if status.code is Code.SKIP:
                skipped.add(plugin.name)
            elif status.code is not Code.SUCCESS:
                # The last one counts, as in kube-scheduler.
                refused = status.reason
                if status.code is not Code.UNSCHEDULABLE:
                    return skipped, allowed, status.reason
            if status.nodes is not None:
                narrowing.append(plugin.name)
                allowed = status.nodes if allowed is None else allowed & status.nodes
                if not allowed.any() and len(narrowing) > 1:
                    why = f"node(s) didn't satisfy plugin(s) {_listed(narrowing)} simultaneously"
                    return skipped, allowed, why
        return skipped, allowed, refused

    def left_out(self, cycle: Cycle) -> tuple[str, Refused] | None:
        """(plugins, the nodes excluded by them before any filter); None if no node is."""
        narrowing, allowed = [], np.ones(len(cycle.columns.nodes), np.bool_)
        for plugin in self._pre_filters:
            status = plugin.pre_filter(cycle)
            if status is not None and status.nodes is not None:
                narrowing.append(plugin.name)
                allowed = allowed & status.nodes
        if allowed.all():
            return None
        reason = f"node(s) didn't satisfy plugin(s) {_listed(narrowing)}"
        return ", ".join(sorted(narrowing)), Refused(reason, ~allowed, ~allowed)

    def refusals(self, cycle: Cycle) -> list[tuple[Filter, Sequence[Refused]]]:
        """The answer of each filter by itself about every node, in the order of the profile: for explanations."""
        skipped, _, _ = self.pre_filter(cycle)
        return [
            (plugin, plugin.filter(cycle, ALL))
            for plugin in self.filters
            if plugin.name not in skipped
        ]

    def is_local(self, cycle: Cycle) -> bool:
        """Whether the filters' answer for a node depends on that node alone."""
        skipped, _, _ = self.pre_filter(cycle)
        return all(one.is_local or one.name in skipped for one in self.filters)

    def first_refusals(self, cycle: Cycle, rows: Ints) -> list[Refused]:
        """For each of ``rows`` the first refusal by a filter, as masks over them; nothing for fitting nodes."""
        skipped, allowed, reason = self.pre_filter(cycle)
        left = np.ones(rows.size, np.bool_)
        if reason:
            return [Refused(reason, left, left)]
        found: list[Refused] = []
        if allowed is not None:
            left = allowed[rows]
            found.append(Refused("", ~left, ~left))
        for plugin in self.filters:
            if plugin.name in skipped or not left.any():
                continue
            refused = plugin.filter(cycle, rows)
            together = refused_by(refused, rows.size)
            if together is None:
                continue
            # A node is hopeless as soon as one reason makes it so.
            never = np.zeros(rows.size, np.bool_)
            for one in refused:
                if one.unresolvable is not None:
                    never |= one.unresolvable
            found += [Refused(one.reason, one.nodes & left, never & left) for one in refused]
            left &= ~together
        for at, _, refused in self.held(cycle, rows):
            if left[at]:
                mask = np.arange(rows.size) == at
                found += [Refused(one.reason, mask) for one in refused if one.nodes[0]]
        return found

    def room(self, cycle: Cycle) -> Ints:
        """The number of pods like this one with room on each node, by requests; 0 on a refused node."""
        columns = cycle.columns
        found: Ints = np.maximum(columns.most_pods - columns.pods, 0)
        for at in np.flatnonzero(cycle.request):
            found = np.minimum(
                found, np.maximum(columns.resources.free[:, at], 0) // cycle.request[at]
            )
        for one in self.first_refusals(cycle, np.arange(len(columns.nodes))):
            found = np.where(one.nodes, 0, found)
        return found

    def held(self, cycle: Cycle, rows: Ints) -> Iterator[tuple[int, str, Sequence[Refused]]]:
        """Nodes able to take the pod, but not together with the nominated pods holding room there.

        Each as (its position in ``rows``, the refusing plugin, its refusals).
        """
        columns = self.columns
        if not columns.nominated or not rows.size:
            return
        for row, held in _against(cycle.pod, columns).items():
            at = int(np.searchsorted(rows, row))
            if at == rows.size or rows[at] != row:
                continue
            for one in held:
                columns.place(one.pod, one.node)
            found = self._first_refusal(Cycle(cycle.pod, cycle.context), row)
            for one in held:
                columns.take_back(one.pod.uid)
            if found is not None:
                yield at, *found

    def _first_refusal(self, cycle: Cycle, row: int) -> tuple[str, Sequence[Refused]] | None:
        """The first plugin refusing a node, with its answer; None = none does."""
        skipped, allowed, reason = self.pre_filter(cycle)
        one = np.ones(1, np.bool_)
        if reason or (allowed is not None and not allowed[row]):
            return self.filters[0].name, [Refused(reason, one)]
        for plugin in self.filters:
            if plugin.name not in skipped:
                refused = plugin.filter(cycle, np.array([row], np.int64))
                together = refused_by(refused, 1)
                if together is not None and together[0]:
                    return plugin.name, refused
        return None


def _against(pod: Pod, columns: Columns) -> dict[int, list[Placed]]:
    """By row: the nominated pods at least as important as a pod, so it may not take their room."""
    found: dict[int, list[Placed]] = {}
    for one in columns.nominated.values():
        is_other = one.pod.uid != pod.uid and columns.counted(one.pod.uid) is None
        if is_other and one.pod.priority >= pod.priority and one.node in columns.row_of:
            found.setdefault(columns.row_of[one.node], []).append(one)
    return found


def _listed(names: Sequence[str]) -> str:
    return f"[{' '.join(sorted(names))}]"
