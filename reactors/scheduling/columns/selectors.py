"""Selectors: the nodes matched by a selector, and the pods matched by a pod's own selector. Pure.

Source: Kubernetes API reference, core/v1 NodeSelectorTerm.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from bus.events.constraints import (
    LabelSelector,
    NodeSelector,
    NodeSelectorTerm,
    PodConstraints,
    Requirement,
)
from reactors.scheduling.columns.table import Bools, Columns, SmallInts

#: The only node field allowed in a term.
NAME = "metadata.name"
#: The form of 64-bit integers.
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")


def required_nodes(constraints: PodConstraints | None, columns: Columns) -> Bools | None:
    """The nodes matching a pod's node selector and required node affinity; None for all."""
    found = None
    if constraints is None:
        return None
    for key, text in constraints.node_selector.items():
        mask = columns.labels.of(key) == columns.labels.texts.get(text, -1)
        found = mask if found is None else found & mask
    affinity = constraints.affinity.node_affinity if constraints.affinity else None
    if affinity is not None and affinity.required is not None:
        mask = any_term(affinity.required, columns)
        found = mask if found is None else found & mask
    return found


def any_term(selector: NodeSelector, columns: Columns) -> Bools:
    """The nodes matching one of the terms."""
    found = np.zeros(len(columns.nodes), np.bool_)
    for term in selector.node_selector_terms or ():
        found |= nodes_of(term, columns)
    return found


def nodes_of(term: NodeSelectorTerm, columns: Columns) -> Bools:
    """The nodes matching a whole term; none for an empty one."""
    parts = [_by_label(one, columns) for one in term.match_expressions or ()]
    parts += [_by_name(one, columns) for one in term.match_fields or ()]
    found = np.full(len(columns.nodes), bool(parts))
    for part in parts:
        found &= part
    return found


def _by_label(one: Requirement, columns: Columns) -> Bools:
    column, values = columns.labels.of(one.key), one.values or ()
    match one.operator:
        case "In":
            return _among(column, [columns.labels.texts.get(text, -1) for text in values])
        case "NotIn":
            return ~_among(column, [columns.labels.texts.get(text, -1) for text in values])
        case "Exists":
            return ~_among(column, [0])
        case "DoesNotExist":
            return _among(column, [0])
        case "Gt" | "Lt" if len(values) == 1 and _number(values[0]) is not None:
            bound = _number(values[0]) or 0
            known = {number: text for text, number in columns.labels.texts.items()}
            fitting = [
                number
                for number in np.unique(column[column != 0]).tolist()
                if (found := _number(known[number])) is not None
                and (found > bound if one.operator == "Gt" else found < bound)
            ]
            return _among(column, fitting)
    # The API server takes no other operator.
    return np.zeros(column.size, np.bool_)


def _among(column: SmallInts, numbers: list[int]) -> Bools:
    found: Bools = np.isin(column, numbers)
    return found


def _by_name(one: Requirement, columns: Columns) -> Bools:
    found = np.zeros(len(columns.nodes), np.bool_)
    if one.key != NAME or one.operator not in ("In", "NotIn"):
        return found
    for text in one.values or ():
        if text in columns.row_of:
            found[columns.row_of[text]] = True
    return found if one.operator == "In" else ~found


def _number(text: str) -> int | None:
    return int(text) if _NUMBER.fullmatch(text) else None


def narrowed(
    selector: LabelSelector | None,
    labels: Mapping[str, str],
    equal: tuple[str, ...] | None,
    unequal: tuple[str, ...] | None = None,
) -> LabelSelector | None:
    """A selector with ``matchLabelKeys`` and ``mismatchLabelKeys`` of a pod of these labels."""
    more = [Requirement(key, "In", (labels[key],)) for key in equal or () if key in labels]
    more += [Requirement(key, "NotIn", (labels[key],)) for key in unequal or () if key in labels]
    if not more or selector is None:
        return selector
    return LabelSelector(selector.match_labels, (*(selector.match_expressions or ()), *more))
