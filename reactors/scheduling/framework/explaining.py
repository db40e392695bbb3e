"""Explanations of a placement or its absence: counts of each plugin, the best nodes, the smallest changes. Pure.

The message has kube-scheduler's form, familiar to users.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from projections.cluster import Pod
from reactors.scheduling.columns.table import Bools, Columns, Ints
from reactors.scheduling.framework.contract import (
    Cycle,
    Filter,
    Preemption,
    Refused,
    Remedy,
    extends,
)
from reactors.scheduling.framework.refusals import refused_by
from reactors.scheduling.framework.runner import Choice, Framework
from reactors.scheduling.queueing.messages import unschedulable

#: Most nodes shown with their scores.
TOP = 10
#: Most changes shown, each enough by itself.
CHANGES = 3


class Candidate(msgspec.Struct, frozen=True):
    """A fitting node, its sum, and the weighted score of each plugin."""

    node: str
    score: int
    scores: dict[str, int]


class Explanation(msgspec.Struct, frozen=True):
    """The outcome of one cycle in words and counts. ``node`` "" = no node fits."""

    node: str
    nodes: int
    feasible: int
    #: By plugin and reason: nodes refused by this plugin first. A node may have several reasons.
    refused: dict[str, dict[str, int]]
    #: By plugin: these nodes, each once.
    refused_nodes: dict[str, int]
    #: The message in kube-scheduler's form; "" with a fitting node.
    message: str
    top: list[Candidate]
    #: Each enough by itself, the smallest first.
    changes: list[str]
    #: Without a fitting node: the victims for enough room.
    preemption: Preemption | None = None


def explained(framework: Framework, pod: Pod, sequence: int) -> Explanation:
    """The placement of ``pod`` on the current columns. Nothing is kept of it."""
    columns, count = framework.columns, len(framework.columns.nodes)
    waits = framework.pre_enqueue(pod)
    if waits:
        return Explanation("", count, 0, {}, {}, waits, [], [])
    cycle = Cycle(pod, framework.context)
    choice = framework.choose(cycle, sequence)
    if choice.reason:
        message = unschedulable({}, count, choice.reason)
        preemption = framework.post_filter(cycle, sequence)
        return Explanation("", count, 0, {}, {}, message, [], [], preemption)
    asked = framework.filtering.refusals(cycle)
    refused, nodes = _counted(framework.filtering.left_out(cycle), asked, count)
    node = columns.names[choice.row] if choice.row >= 0 else ""
    return Explanation(
        node, count, choice.rows.size, refused, nodes, "" if node else unschedulable(refused, count),
        best(columns, choice), [] if node else _changes(cycle, asked, count),
        None if node or not count else framework.post_filter(cycle, sequence),
    )  # fmt: skip


def _counted(
    left_out: tuple[str, Refused] | None,
    asked: Sequence[tuple[Filter, Sequence[Refused]]],
    count: int,
) -> tuple[dict[str, dict[str, int]], dict[str, int]]:
    left = np.ones(count, np.bool_)
    found: dict[str, dict[str, int]] = {}
    nodes: dict[str, int] = {}
    named = [(plugin.name, refused) for plugin, refused in asked]
    if left_out is not None:
        named.insert(0, (left_out[0], [left_out[1]]))
    for name, refused in named:
        together = refused_by(refused, count)
        if together is None or not (together & left).any():
            continue
        reasons = found.setdefault(name, {})
        for one in refused:
            if many := int((one.nodes & left).sum()):
                reasons[one.reason] = reasons.get(one.reason, 0) + many
        nodes[name] = nodes.get(name, 0) + int((together & left).sum())
        left &= ~together
    return found, nodes


def best(columns: Columns, choice: Choice) -> list[Candidate]:
    """The best nodes: the chosen one first, the others by their sums, then in the order of rows."""
    if choice.row < 0:
        return []
    totals, most = choice.totals, min(TOP, choice.rows.size)
    least = np.partition(totals, totals.size - most)[totals.size - most]
    # Of equals of the last one, the first few are enough.
    found = [
        *np.flatnonzero(totals > least).tolist(),
        *np.flatnonzero(totals == least)[:TOP].tolist(),
    ]
    chosen = int(np.searchsorted(choice.rows, choice.row))
    order = sorted({*found, chosen}, key=lambda at: (-int(totals[at]), at != chosen, at))
    scores = sorted(choice.scores.items())
    return [
        Candidate(
            columns.names[choice.rows[at]],
            int(totals[at]),
            {name: int(found[at]) for name, found in scores},
        )
        for at in order[:TOP]
    ]


def _changes(
    cycle: Cycle, asked: Sequence[tuple[Filter, Sequence[Refused]]], count: int
) -> list[str]:
    """The smallest change for one of the nodes with the fewest refusing plugins, for each such set of plugins."""
    masks = [(plugin, refused_by(refused, count)) for plugin, refused in asked]
    refusing: Ints = np.zeros(count, np.int64)
    distance: Ints = np.zeros(count, np.int64)
    hopeless: Bools = np.zeros(count, np.bool_)
    for plugin, mask in masks:
        if mask is None:
            continue
        refusing += mask
        if isinstance(plugin, Remedy):
            distance += np.where(mask, plugin.distance(cycle), 0)
        else:
            hopeless |= mask
    rows = np.flatnonzero((refusing > 0) & ~hopeless)
    order = rows[np.lexsort((rows, distance[rows], refusing[rows]))]
    found: dict[tuple[str, ...], str] = {}
    for row in order:
        if refusing[row] > refusing[order[0]] or len(found) == CHANGES:
            break
        plugins = [plugin for plugin, mask in masks if mask is not None and mask[row]]
        names = tuple(one.name for one in plugins)
        if names not in found:
            changes = [one.remedy(cycle, int(row)) for one in plugins if extends(one, Remedy)]
            found[names] = (
                f"{' and '.join(filter(None, changes))} (node {cycle.columns.names[row]})"
            )
    return list(found.values())
