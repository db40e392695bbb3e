"""Types of columns over nodes, and conversions of nodes' reports. Columns have one row for each node, by uid. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from bus.amounts import NANO, observed_quantity
from bus.errors import QuantityError

Bools: TypeAlias = npt.NDArray[np.bool_]
Ints: TypeAlias = npt.NDArray[np.int64]
SmallInts: TypeAlias = npt.NDArray[np.int32]
#: A selection of rows: all of them (a slice), or some, ascending.
Rows: TypeAlias = slice | npt.NDArray[np.intp]

ALL = slice(None)
#: Largest amount of a column: sums of 8,192 such amounts, and 100 times one, stay inside int64.
MOST = 2**50
#: The first resources of every layout, in this order.
CPU, MEMORY, STORAGE = 0, 1, 2
BASIC = ("cpu", "memory", "ephemeral-storage")
#: A node's limit of pods if its allocatable has none.
UNBOUNDED_PODS = 2**31 - 1

T = TypeVar("T", bound=np.generic)


def moved(
    column: npt.NDArray[T], order: npt.NDArray[np.intp], is_new: npt.NDArray[np.intp], fill: int
) -> npt.NDArray[T]:
    """The rows of a column in a new order; new rows have ``fill``."""
    if not len(column):
        return np.full((len(order), *column.shape[1:]), fill, column.dtype)
    found = column[order]
    found[is_new] = fill
    return found


def amounts_of(quantities: Mapping[str, str]) -> dict[str, int]:
    """Amounts of a node's quantities, cpu in milli, rounded down; an unreadable one is 0."""
    found = {}
    for name, text in quantities.items():
        try:
            nano = observed_quantity(text)
        except QuantityError:
            nano = 0
        found[name] = max(0, nano // (NANO // 1000 if name == "cpu" else NANO))
    return found
