"""The scores of one cycle as a table: a line for each node, a column for each plugin. Pure.

The form is the table of Koordinator's scheduler: the plugins from A to Z, the sum of weighted scores, the best node first.

Source: koordinator-sh/koordinator, pkg/scheduler/frameworkext/debug_scores.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

#: The columns before the plugins.
HEAD = ("#", "Pod", "Node", "Score")
#: The number of text columns, the rank among them.
TEXTS = 3

Line = list[str | int]


def score_table(
    pod: str, nodes: Sequence[str], scores: Mapping[str, Sequence[int]], most: int | None = None
) -> tuple[list[str], list[Line]]:
    """(header, lines) of the nodes with the highest sums; equal ones in their order. ``most`` None = all, below 1 = none.

    ``scores``: by plugin, the weighted score of each of ``nodes``.
    """
    plugins = sorted(scores)
    sums = [sum(scores[name][at] for name in plugins) for at in range(len(nodes))]
    order = sorted(range(len(nodes)), key=lambda at: -sums[at])
    order = order if most is None else order[: max(0, most)]
    lines: list[Line] = [
        [str(rank), pod, nodes[at], sums[at], *(int(scores[name][at]) for name in plugins)]
        for rank, at in enumerate(order)
    ]
    return [*HEAD, *plugins], lines
