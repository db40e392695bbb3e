"""Labels, GPU models and taints of nodes as columns of numbers, one row for each node."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bus.events.constraints import Taint
from projections.cluster.rows import Node
from reactors.scheduling.columns.nodes import Ints, SmallInts, moved


class NodeLabels:
    """The texts under each label of nodes, and their sets of taints."""

    def __init__(self) -> None:
        #: Texts of labels as numbers from 1; 0 = the label is absent.
        self.texts: dict[str, int] = {}
        #: Every distinct set of taints; the first is none.
        self.taints: list[tuple[Taint, ...]] = [()]
        #: The node's taints as an index of ``taints``.
        self.taint_set: SmallInts = np.zeros(0, np.int32)
        #: The node's GPU model as in ``texts``.
        self.model: SmallInts = np.zeros(0, np.int32)
        self._taint_sets: dict[tuple[Taint, ...], int] = {(): 0}
        self._columns: dict[str, SmallInts] = {}

    def __len__(self) -> int:
        """The number of kept labels, texts and sets of taints, stale ones included."""
        return len(self._columns) + len(self.texts) + len(self.taints)

    def move(self, order: npt.NDArray[np.intp], is_new: npt.NDArray[np.intp]) -> None:
        """The rows are in a new order; new rows are empty."""
        self.taint_set = moved(self.taint_set, order, is_new, 0)
        self.model = moved(self.model, order, is_new, 0)
        self._columns = {key: moved(one, order, is_new, 0) for key, one in self._columns.items()}

    def forget(self) -> None:
        """Drop stale labels, texts and sets of taints: the numbers of the others change."""
        self._columns = {key: one for key, one in self._columns.items() if one.any()}
        texts = {number: text for text, number in self.texts.items()}
        live = np.unique(np.concatenate((self.model, *self._columns.values())))
        numbers, live = np.zeros(len(texts) + 1, np.int32), live[live > 0]
        numbers[live] = np.arange(1, live.size + 1)
        self.texts = {texts[old]: new for new, old in enumerate(live.tolist(), 1)}
        self._columns = {key: numbers[one] for key, one in self._columns.items()}
        self.model = numbers[self.model]
        sets = np.union1d(self.taint_set, (0,))
        self.taint_set = np.searchsorted(sets, self.taint_set).astype(np.int32)
        self.taints = [self.taints[one] for one in sets.tolist()]
        self._taint_sets = {one: at for at, one in enumerate(self.taints)}

    def describe(self, row: int, node: Node) -> None:
        """Write the labels, the model and the taints of a node."""
        for column in self._columns.values():
            column[row] = 0
        for key, text in (node.labels | node.further_labels).items():
            if key not in self._columns:
                self._columns[key] = np.zeros(self.model.size, np.int32)
            self._columns[key][row] = self._number(text)
        self.model[row] = self._number(node.model) if node.model else 0
        if node.taints not in self._taint_sets:
            self._taint_sets[node.taints] = len(self.taints)
            self.taints.append(node.taints)
        self.taint_set[row] = self._taint_sets[node.taints]

    def _number(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts) + 1)

    def of(self, key: str) -> SmallInts:
        """The texts of a label on each node, as their numbers; 0 = no such label."""
        found = self._columns.get(key)
        return np.zeros(self.model.size, np.int32) if found is None else found

    def per_domain(self, key: str, rows: Ints, amounts: Ints) -> Ints:
        """The sum of ``amounts``, given for ``rows``, over each node's domain: the nodes sharing its text of a label.

        0 for a node without the label.
        """
        column = self.of(key)
        sums = np.zeros(len(self.texts) + 1, np.int64)
        np.add.at(sums, column[rows], amounts)
        sums[0] = 0
        return sums[column]
