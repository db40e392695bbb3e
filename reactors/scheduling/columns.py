"""The cluster as columns of integers, one row for each node in the order of uids: what scheduling plugins read.

Follows :class:`projections.cluster.ClusterState` change by change. Everything is an exact integer, so the columns are a
function of what exists, in whatever order it came. Where a node comes or goes, the others' rows move as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from bus.amounts import NANO, observed_quantity
from bus.errors import QuantityError
from bus.events.constraints import Taint
from projections.cluster import POD, Change, ClusterState, Pod
from projections.cluster.rows import Node
from reactors.scheduling import cards
from reactors.scheduling.crowds import Crowds

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
#: The label of every namespace that the API server writes.
NAMESPACE_NAME = "kubernetes.io/metadata.name"
#: Protocol, port and address.
Port: TypeAlias = tuple[str, int, str]
#: All addresses of a node.
ANY = "0.0.0.0"
#: Pods that a node takes where its allocatable names no number.
UNBOUNDED_PODS = 2**31 - 1

#: Distinct demands that are known as columns.
KNOWN_DEMANDS = 16_384

_REQUESTS = "requests."
#: The columns that move with their nodes, and what a new row has.
_FILLS = {
    "changed_at": 0, "allocatable": 0, "free": 0, "nonzero": 0, "pods": 0, "most_pods": 0, "unschedulable": 0,
    "cards": -1, "model": 0, "is_cut": 0, "taint_set": 0,
}  # fmt: skip

T = TypeVar("T", bound=np.generic)


class Placed(msgspec.Struct, frozen=True, gc=False):
    """A pod on a node, and the cards that it holds where a decision named them."""

    pod: Pod
    node: str
    cards: tuple[int, ...] = ()


class Columns:
    """Columns over the nodes of one cluster. Plugins read them and change nothing."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        #: Counts layouts: what was computed for another layout is void.
        self.layout = 0
        #: Counts changes; ``changed_at`` has the one that touched a row last.
        self.version = 0
        #: The column of each resource.
        self.resources: dict[str, int] = {name: at for at, name in enumerate(BASIC)}
        #: Texts of labels as numbers from 1; 0 = the label is absent.
        self.texts: dict[str, int] = {}
        #: Every distinct set of taints; the first is none.
        self.taints: list[tuple[Taint, ...]] = [()]
        self._taint_sets: dict[tuple[Taint, ...], int] = {(): 0}
        #: Pods that were placed here ahead of the history, by uid.
        self._ahead: dict[str, Placed] = {}
        #: By the id of pods' demands, which many share: the demand, and its (column, amount).
        self._amounts: dict[int, tuple[dict[str, int], list[tuple[int, int]]]] = {}
        self._make_empty()
        self._lay_out()

    # shape

    def _make_empty(self) -> None:
        count, width = 0, len(self.resources) + 8
        self.nodes: list[Node] = []
        self.names: list[str] = []
        self.row_of: dict[str, int] = {}
        self.changed_at: Ints = np.zeros(count, np.int64)
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
        #: The node's GPU model as in ``texts``.
        self.model: SmallInts = np.zeros(count, np.int32)
        #: Not all taints and labels of the node are known.
        self.is_cut: Bools = np.zeros(count, np.bool_)
        #: The node's taints as an index of ``taints``.
        self.taint_set: SmallInts = np.zeros(count, np.int32)
        #: Pods by what selectors of pods see of them.
        self.crowds = Crowds()
        #: By row: host ports that its pods hold, as (protocol, port, address), and how many pods hold each.
        self.ports: list[dict[Port, int]] = []
        self._labels: dict[str, SmallInts] = {}
        self._holding: list[dict[str, cards.Holding]] = []
        self._on: dict[str, Placed] = {}
        #: By row: uids of its pods.
        self._here: list[set[str]] = []

    def _lay_out(self) -> None:
        """Give every node its row; what is known of nodes that stay moves with them."""
        nodes = sorted(self._cluster.current_nodes(), key=lambda one: one.uid)
        stays = {one.uid for one in nodes}
        for row, node in enumerate(self.nodes):
            if node.uid not in stays:
                for uid in sorted(self._here[row]):
                    self._replace(uid, None)
        old = {one.uid: row for row, one in enumerate(self.nodes)}
        rows = [old.get(one.uid, -1) for one in nodes]
        self.layout += 1
        self.version += 1
        for name, fill in _FILLS.items():
            setattr(self, name, _moved(getattr(self, name), rows, fill))
        self._labels = {key: _moved(one, rows, 0) for key, one in self._labels.items()}
        self.crowds.move({row: at for at, row in enumerate(rows) if row >= 0})
        self.ports = [self.ports[row] if row >= 0 else {} for row in rows]
        self._holding = [self._holding[row] if row >= 0 else {} for row in rows]
        self._here = [self._here[row] if row >= 0 else set() for row in rows]
        self.nodes = nodes
        self.names = [one.name for one in nodes]
        self.row_of = {name: row for row, name in enumerate(self.names)}
        came = [row for row, before in enumerate(rows) if before < 0]
        for row in came:
            self._describe(row)
            for uid in self._cluster.index.on_node.get(self.names[row], ()):
                if uid not in self._ahead:
                    self._add(_seen(self._cluster.pods[uid]))
        names = {self.names[row] for row in came}
        for placed in self._ahead.values():
            if placed.node in names:
                self._add(placed)

    def _describe(self, row: int) -> None:
        """Write what a node says of itself."""
        node = self.nodes[row]
        amounts = amounts_of(node.allocatable)
        used = self.allocatable[row] - self.free[row]
        self.most_pods[row] = min(amounts.pop("pods", UNBOUNDED_PODS), UNBOUNDED_PODS)
        # Growing makes new matrices, so the columns come first.
        columns = {self.column(name): min(amount, MOST - 1) for name, amount in amounts.items()}
        self.allocatable[row] = 0
        for at, amount in columns.items():
            self.allocatable[row, at] = amount
        self.free[row] = self.allocatable[row]
        self.free[row, : len(used)] -= used
        self.unschedulable[row] = node.unschedulable
        for column in self._labels.values():
            column[row] = 0
        for key, text in (node.labels | node.further_labels).items():
            if key not in self._labels:
                self._labels[key] = np.zeros(len(self.nodes), np.int32)
            self._labels[key][row] = self.text(text)
        self.model[row] = self.text(node.model) if node.model else 0
        self.is_cut[row] = node.is_cut
        if node.taints not in self._taint_sets:
            self._taint_sets[node.taints] = len(self.taints)
            self.taints.append(node.taints)
        self.taint_set[row] = self._taint_sets[node.taints]
        self._deal_cards(row)
        self._touch(row)

    def column(self, resource: str) -> int:
        """The column of a resource; a new one is 0 on every node."""
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

    def namespace_labels(self, name: str) -> dict[str, str]:
        """Labels of a namespace, with the one that has its name."""
        known = self._cluster.namespaces.get(name)
        return {**(known.labels if known is not None else {}), NAMESPACE_NAME: name}

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

    # pods

    def request(self, pod: Pod) -> Ints:
        """What a pod requests, one amount for each column."""
        amounts = self._requested(pod)
        request = np.zeros(self.free.shape[1], np.int64)
        for at, amount in amounts:
            request[at] = amount
        return request

    def _requested(self, pod: Pod) -> list[tuple[int, int]]:
        demand = pod.demand
        known = self._amounts.get(id(demand))
        if known is not None and known[0] is demand:
            return known[1]
        found = [
            (self.column(name.removeprefix(_REQUESTS)), min(amount, MOST))
            for name, amount in demand.items()
            if name.startswith(_REQUESTS)
        ]
        if len(self._amounts) >= KNOWN_DEMANDS:
            self._amounts.clear()
        self._amounts[id(demand)] = (demand, found)
        return found

    def follow(self, changes: Iterable[Change]) -> None:
        """The cluster's state changed: what its last event changed."""
        stale = False
        for change in changes:
            if change.kind == POD:
                self.version += 1
                after = change.after
                found = _seen(after) if isinstance(after, Pod) and holds(after) else None
                if found is not None or change.after is None:
                    self._ahead.pop(change.uid, None)
                self._replace(change.uid, found or self._ahead.get(change.uid))
            elif change.kind == Node.kind:
                after = change.after
                row = self.row_of.get(after.name) if isinstance(after, Node) else None
                if row is None or not isinstance(after, Node) or self.nodes[row].uid != after.uid:
                    stale = True
                    continue
                self.version += 1
                self.nodes[row] = after
                self._describe(row)
        if stale:
            self._lay_out()

    def place(self, pod: Pod, node: str, on: tuple[int, ...] = ()) -> None:
        """Count a pod on a node from now on, ahead of the history, until it is seen there, gone or taken back."""
        self.version += 1
        placed = self._ahead[pod.uid] = Placed(pod, node, on)
        self._replace(pod.uid, placed)

    def take_back(self, uid: str) -> None:
        """A pod that was placed ahead of the history counts no more, where that has it not bound itself."""
        self.version += 1
        self._ahead.pop(uid, None)
        pod = self._cluster.pods.get(uid)
        self._replace(uid, _seen(pod) if pod is not None and holds(pod) else None)

    def _replace(self, uid: str, placed: Placed | None) -> None:
        before = self._on.get(uid)
        if before is not None:
            self._count(before, -1)
            del self._on[uid]
        if placed is not None:
            self._add(placed)

    def _add(self, placed: Placed) -> None:
        if placed.node in self.row_of and placed.pod.phase not in _ENDED:
            self._on[placed.pod.uid] = placed
            self._count(placed, 1)

    def _count(self, placed: Placed, sign: int) -> None:
        row, pod = self.row_of[placed.node], placed.pod
        for at, amount in self._requested(pod):
            self.free[row, at] -= sign * amount
            if at <= MEMORY:
                self.nonzero[row, at] += sign * amount
        if pod.unrequested:
            self.nonzero[row, CPU] += sign * pod.unrequested[CPU]
            self.nonzero[row, MEMORY] += sign * pod.unrequested[MEMORY]
        self.pods[row] += sign
        if sign > 0:
            self._here[row].add(pod.uid)
        else:
            self._here[row].discard(pod.uid)
        self.crowds.count(pod, row, sign)
        for port in ports_of(pod):
            count = self.ports[row].get(port, 0) + sign
            if count:
                self.ports[row][port] = count
            else:
                del self.ports[row][port]
        holding = cards.holding_of(pod, placed.cards)
        if holding is not None:
            if sign > 0:
                self._holding[row][pod.uid] = holding
            else:
                del self._holding[row][pod.uid]
            self._deal_cards(row)
        self._touch(row)

    def _deal_cards(self, row: int) -> None:
        count = cards.count_of(self.nodes[row].allocatable)
        if count > self.cards.shape[1]:
            more = np.full((len(self.nodes), count - self.cards.shape[1]), -1, np.int32)
            self.cards = np.hstack((self.cards, more))
        idle = cards.idle(count, self._holding[row])
        self.cards[row] = -1
        self.cards[row, :count] = idle


def ports_of(pod: Pod) -> list[Port]:
    """The host ports that a pod takes."""
    ports = pod.constraints.host_ports if pod.constraints else ()
    return [(one.protocol or "TCP", one.host_port, one.host_ip or ANY) for one in ports]


_ENDED = ("Succeeded", "Failed")


def holds(pod: Pod) -> bool:
    """Whether a pod has a part of a node: a scheduler counts it until it is gone or has ended."""
    return bool(pod.node) and not pod.is_ended


def _seen(pod: Pod) -> Placed:
    return Placed(pod, pod.node)


def _moved(column: npt.NDArray[T], rows: list[int], fill: int) -> npt.NDArray[T]:
    """The rows of a column in a new order; -1 = a new row."""
    found = np.full((len(rows), *column.shape[1:]), fill, column.dtype)
    order = np.array(rows, np.intp)
    stays = order >= 0
    found[stays] = column[order[stays]]
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
