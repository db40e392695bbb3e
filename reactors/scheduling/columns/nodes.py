"""What nodes say of themselves as columns of integers, one row for each node in the order of uids."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from bus.amounts import NANO, observed_quantity
from bus.errors import QuantityError
from bus.events.constraints import Taint
from projections.cluster.rows import Node
from reactors.scheduling.columns import cards
from reactors.scheduling.columns.images import ImageSizes
from reactors.scheduling.gangs.state import Gangs
from reactors.scheduling.queueing.quota_state import QuotaState
from reactors.scheduling.reservations.state import Reservations

Bools: TypeAlias = npt.NDArray[np.bool_]
Ints: TypeAlias = npt.NDArray[np.int64]
SmallInts: TypeAlias = npt.NDArray[np.int32]
#: Rows to look at: all of them (a slice), or some, ascending.
Rows: TypeAlias = slice | npt.NDArray[np.intp]

ALL = slice(None)
#: Largest amount of a column: sums of 8,192 such amounts, and 100 times one, stay inside int64.
MOST = 2**50
#: Resources that every layout begins with, in this order.
CPU, MEMORY, STORAGE = 0, 1, 2
BASIC = ("cpu", "memory", "ephemeral-storage")
#: Column of ``kinds`` for pods with shares, and the most cards of one pod that have a column of their own.
SHARE, MOST_COUNTED = 0, cards.WIDTH
#: Resources, labels, texts and sets of taints that may be kept though no node says them any more, of each as many as are
#: said and these.
SPARE = 256
#: Pods that a node takes where its allocatable names no number.
UNBOUNDED_PODS = 2**31 - 1

#: The columns that move with their nodes, and what a new row has.
_FILLS = {
    "changed_at": 0, "confirmed_at": 0, "allocatable": 0, "free": 0, "nonzero": 0, "pods": 0, "most_pods": 0, "unschedulable": 0,
    "cards": -1, "idle": 0, "kinds": 0, "model": 0, "is_cut": 0, "taint_set": 0,
}  # fmt: skip

T = TypeVar("T", bound=np.generic)


_uid = attrgetter("uid")


class NodeColumns:
    """Columns over nodes; the room that pods leave of them is kept by :class:`reactors.scheduling.columns.table.Columns`."""

    def __init__(self) -> None:
        #: What admission knows of quotas; None where no plugin asks for it.
        self.quotas: QuotaState | None = None
        #: The gangs of pods; None where nobody keeps them.
        self.gangs: Gangs | None = None
        #: The reservations; None where no plugin asks for them.
        self.reservations: Reservations | None = None
        #: Uids of pods that are not counted now, for a trial.
        self.lifted: set[str] = set()
        #: The nodes among which a trial places a gang; None = all.
        self.domain: Bools | None = None
        #: The time of the newest event of the history.
        self.at_us = 0
        #: Counts layouts: what was computed for another layout is void.
        self.layout = 0
        #: Counts what nodes said of themselves.
        self.described = 0
        #: What plugins made of nodes' own words, by plugin; each knows when its own is void.
        self.tables: dict[Hashable, Any] = {}
        #: Counts changes; ``changed_at`` has the one that touched a row last.
        self.version = 0
        #: The column of each resource.
        self.resources: dict[str, int] = {name: at for at, name in enumerate(BASIC)}
        #: Texts of labels as numbers from 1; 0 = the label is absent.
        self.texts: dict[str, int] = {}
        #: Every distinct set of taints; the first is none.
        self.taints: list[tuple[Taint, ...]] = [()]
        self._taint_sets: dict[tuple[Taint, ...], int] = {(): 0}
        count, width = 0, len(self.resources) + 8
        self.nodes: list[Node] = []
        self.names: list[str] = []
        self.row_of: dict[str, int] = {}
        self.changed_at: Ints = np.zeros(count, np.int64)
        #: The change with which a pod here was seen anew that counts as it did: on its node, where it was placed ahead of that.
        self.confirmed_at: Ints = np.zeros(count, np.int64)
        #: [nodes x resources]: cpu in milli, all others in whole units. Free may be below 0.
        self.allocatable: Ints = np.zeros((count, width), np.int64)
        self.free: Ints = np.zeros((count, width), np.int64)
        #: [nodes x 2]: cpu and memory of its pods, where a container that requests none counts 100m and 200 MiB.
        self.nonzero: Ints = np.zeros((count, 2), np.int64)
        self.pods: Ints = np.zeros(count, np.int64)
        self.most_pods: Ints = np.zeros(count, np.int64)
        self.unschedulable: Bools = np.zeros(count, np.bool_)
        #: [nodes x cards]: idle thousandths of each card; -1 = the node has no such card.
        self.cards: SmallInts = np.full((count, cards.WIDTH), -1, np.int32)
        #: Idle thousandths of all cards of the node.
        self.idle: Ints = np.zeros(count, np.int64)
        #: [nodes x kinds]: its pods with cards, by the number of their cards; pods with a share of a card by themselves.
        self.kinds: Ints = np.zeros((count, MOST_COUNTED + 1), np.int64)
        #: The node's GPU model as in ``texts``.
        self.model: SmallInts = np.zeros(count, np.int32)
        #: Not all taints and labels of the node are known.
        self.is_cut: Bools = np.zeros(count, np.bool_)
        #: The node's taints as an index of ``taints``.
        self.taint_set: SmallInts = np.zeros(count, np.int32)
        #: Sizes of images that pods asked for.
        self.images = ImageSizes()
        self._labels: dict[str, SmallInts] = {}
        self._forget_at = SPARE
        self._holding: list[dict[str, cards.Holding]] = []
        #: By row: how many cards the node offers, and bytes of each.
        self._offers: list[tuple[int, int]] = []

    def _move(self, gone: Sequence[int], came: Iterable[Node]) -> list[int]:
        """The nodes of these rows, the last one first, are gone, and others came, which say nothing yet. Returns by new row the
        old one, -1 = it is new.
        """
        self.layout += 1
        self.version += 1
        rows = list(range(len(self.nodes)))
        for row in gone:
            del rows[row], self.nodes[row], self._holding[row], self._offers[row]
        for node in came:
            row = bisect_left(self.nodes, node.uid, key=_uid)
            self.nodes.insert(row, node)
            rows.insert(row, -1)
            self._holding.insert(row, {})
            self._offers.insert(row, (0, 0))
        order = np.array(rows, np.intp)
        is_new = np.flatnonzero(order < 0)
        for name, fill in _FILLS.items():
            setattr(self, name, _moved(getattr(self, name), order, is_new, fill))
        self._labels = {key: _moved(one, order, is_new, 0) for key, one in self._labels.items()}
        if self._is_bloated:
            self._forget()
        self.images.forget()
        self.names = [one.name for one in self.nodes]
        self.row_of = dict(zip(self.names, range(len(rows)), strict=True))
        return rows

    @property
    def _is_bloated(self) -> bool:
        """Whether more is kept than nodes say."""
        named = (self.resources, self._labels, self.texts, self.taints)
        return sum(len(one) for one in named) > self._forget_at

    def _forget(self) -> None:
        """Keep what nodes say, and no other resource, label, text or set of taints: their numbers change."""
        self._labels = {key: one for key, one in self._labels.items() if one.any()}
        texts = {number: text for text, number in self.texts.items()}
        live = np.unique(np.concatenate((self.model, *self._labels.values())))
        numbers, live = np.zeros(len(texts) + 1, np.int32), live[live > 0]
        numbers[live] = np.arange(1, live.size + 1)
        self.texts = {texts[old]: new for new, old in enumerate(live.tolist(), 1)}
        self._labels = {key: numbers[one] for key, one in self._labels.items()}
        self.model = numbers[self.model]
        sets = np.union1d(self.taint_set, (0,))
        self.taint_set = np.searchsorted(sets, self.taint_set).astype(np.int32)
        self.taints = [self.taints[one] for one in sets.tolist()]
        self._taint_sets = {one: at for at, one in enumerate(self.taints)}
        offered = {name for one in self.nodes for name in one.allocatable}
        names = [name for at, name in enumerate(self.resources) if at <= STORAGE or name in offered]
        order = [self.resources[name] for name in names]
        self.resources = {name: at for at, name in enumerate(names)}
        self.allocatable, self.free = self.allocatable[:, order], self.free[:, order]
        named = (self.resources, self._labels, self.texts, self.taints)
        self._forget_at = 2 * sum(len(one) for one in named) + SPARE

    def _describe(self, row: int) -> None:
        """Write what a node says of itself."""
        self.described += 1
        node = self.nodes[row]
        amounts = amounts_of(node.allocatable)
        self.most_pods[row] = min(amounts.pop("pods", UNBOUNDED_PODS), UNBOUNDED_PODS)
        # Growing makes new matrices, so the columns come first.
        columns = {self.column(name): min(amount, MOST - 1) for name, amount in amounts.items()}
        used = self.allocatable[row] - self.free[row]
        self.allocatable[row] = 0
        for at, amount in columns.items():
            self.allocatable[row, at] = amount
        self.free[row] = self.allocatable[row] - used
        self.unschedulable[row] = node.unschedulable
        for column in self._labels.values():
            column[row] = 0
        for key, text in (node.labels | node.further_labels).items():
            if key not in self._labels:
                self._labels[key] = np.zeros(len(self.nodes), np.int32)
            self._labels[key][row] = self.text(text)
        self.model[row] = self.text(node.model) if node.model else 0
        self.is_cut[row] = node.is_cut
        self.images.describe(row, node.images)
        if node.taints not in self._taint_sets:
            self._taint_sets[node.taints] = len(self.taints)
            self.taints.append(node.taints)
        self.taint_set[row] = self._taint_sets[node.taints]
        self._offers[row] = (cards.count_of(node.allocatable), cards.memory_of(node.allocatable))
        self._deal_cards(row)
        self._touch(row)

    def column(self, resource: str) -> int:
        """The column of a resource that a node offers; a new one is 0 on every node."""
        at = self.resources.get(resource)
        if at is None:
            at = self.resources[resource] = len(self.resources)
            if at == self.allocatable.shape[1]:
                more = np.zeros((len(self.nodes), at), np.int64)
                self.allocatable = np.hstack((self.allocatable, more))
                self.free = np.hstack((self.free, more))
        return at

    def text(self, text: str) -> int:
        """The number of a text, from 1."""
        return self.texts.setdefault(text, len(self.texts) + 1)

    def label(self, key: str) -> SmallInts:
        """What each node has under a label, as numbers of texts; 0 = nothing."""
        found = self._labels.get(key)
        return np.zeros(len(self.nodes), np.int32) if found is None else found

    def per_domain(self, key: str, rows: Ints, amounts: Ints) -> Ints:
        """The sum of ``amounts``, given for ``rows``, over each node's domain: the nodes that share its text of a label.

        0 for a node without the label.
        """
        column = self.label(key)
        sums = np.zeros(len(self.texts) + 1, np.int64)
        np.add.at(sums, column[rows], amounts)
        sums[0] = 0
        return sums[column]

    def _touch(self, row: int) -> None:
        self.changed_at[row] = self.version

    def _confirm(self, name: str) -> None:
        self.confirmed_at[self.row_of[name]] = self.version

    def _touch_named(self, name: str) -> None:
        if name in self.row_of:
            self.version += 1
            self._touch(self.row_of[name])

    def _deal_cards(self, row: int) -> None:
        count, memory = self._offers[row]
        if count > self.cards.shape[1]:
            more = np.full((len(self.nodes), count - self.cards.shape[1]), -1, np.int32)
            self.cards = np.hstack((self.cards, more))
        idle = cards.idle(count, self._holding[row], memory)
        self.cards[row] = -1
        self.cards[row, :count] = idle
        self.idle[row] = sum(idle)


def _moved(
    column: npt.NDArray[T], order: npt.NDArray[np.intp], is_new: npt.NDArray[np.intp], fill: int
) -> npt.NDArray[T]:
    """The rows of a column in a new order; those that are new have ``fill``."""
    if not len(column):
        return np.full((len(order), *column.shape[1:]), fill, column.dtype)
    found = column[order]
    found[is_new] = fill
    return found


def amounts_of(quantities: Mapping[str, str]) -> dict[str, int]:
    """Amounts of a node's quantities, cpu in milli, rounded down; one that cannot be read is 0."""
    found = {}
    for name, text in quantities.items():
        try:
            nano = observed_quantity(text)
        except QuantityError:
            nano = 0
        found[name] = max(0, nano // (NANO // 1000 if name == "cpu" else NANO))
    return found
