"""Domains: nodes sharing the text of a label, such as a zone, a rack or one NVLink switch. Pure.

Source: Kubernetes, "Topology-Aware Workload Scheduling"; docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reactors.scheduling.columns.table import Bools, Columns, Ints
from reactors.scheduling.framework.contract import Alike


def numbers(columns: Columns, keys: Sequence[str]) -> Ints:
    """For each node the number of its domain by all of these labels, from 1; 0 if a label is missing."""
    found = np.ones(len(columns.nodes), np.int64)
    for key in filter(None, keys):
        label = columns.labels.of(key).astype(np.int64)
        # Small numbers again, so they do not grow with each label.
        _, both = np.unique(found * (len(columns.labels.texts) + 1) + label, return_inverse=True)
        found = np.where((found > 0) & (label > 0), both + 1, 0)
    return found


def fitting(domains: Ints, kinds: Sequence[Alike], spare: int, *, is_spread: bool) -> list[Bools]:
    """The domains with room for all pods, or for all but ``spare`` of them, as masks over nodes, the best first.

    Those with room for all come first. Then the one with the least room for such pods is the best, or with ``is_spread`` the one
    with the most; of equal ones the one with the first node. Kinds are evaluated one by one, so together they may not fit.
    """
    size = int(domains.max(initial=0)) + 1
    lacking, total = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for one in kinds:
        room = np.zeros(size, np.int64)
        np.add.at(room, domains, one.room)
        lacking += np.maximum(one.count - room, 0)
        total += room
    there, first = np.unique(domains, return_index=True)
    ranked = sorted(
        (lacking[number] > 0, -total[number] if is_spread else total[number], row, number)
        for number, row in zip(there.tolist(), first.tolist(), strict=True)
        if number and lacking[number] <= spare
    )
    return [domains == number for *_, number in ranked]
