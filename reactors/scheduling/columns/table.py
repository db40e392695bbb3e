"""The cluster as columns of integers, one row for each node in the order of uids, for scheduling plugins.

Follows :class:`projections.cluster.ClusterState` change by change. Everything is an exact integer, so the columns are a function
of the existing objects, in any order of arrival. When a node comes or goes, the rows of the others move unchanged.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

import numpy as np

from bus.events.constraints import HeldCpus
from projections.cluster import POD, Change, ClusterState, Pod
from projections.cluster.rows import Node
from reactors.scheduling.columns import volumes
from reactors.scheduling.columns.card_columns import CardColumns
from reactors.scheduling.columns.crowds import Crowds
from reactors.scheduling.columns.facts import BY_NODE, ClusterFacts
from reactors.scheduling.columns.images import ImageSizes
from reactors.scheduling.columns.node_labels import NodeLabels
from reactors.scheduling.columns.nodes import (
    ALL,
    CPU,
    MEMORY,
    STORAGE,
    UNBOUNDED_PODS,
    Bools,
    Ints,
    Rows,
    SmallInts,
    amounts_of,
    moved,
)
from reactors.scheduling.columns.placements import Placed, Placements
from reactors.scheduling.columns.resource_columns import ResourceColumns
from reactors.scheduling.columns.volumes import Volumes
from reactors.scheduling.shape import Dealt

__all__ = [
    "ALL",
    "CPU",
    "MEMORY",
    "STORAGE",
    "Bools",
    "Columns",
    "Ints",
    "Placed",
    "Rows",
    "SmallInts",
]

#: Protocol, port and address.
Port: TypeAlias = tuple[str, int, str]
#: All addresses of a node.
ANY = "0.0.0.0"
#: Most resources, labels, texts and sets of taints kept after their last node is gone: for each, as many as are in use plus these.
SPARE = 256

#: The columns moved with their nodes; a new row has 0.
_MOVED = (
    "changed_at", "confirmed_at", "pods", "most_pods", "unschedulable", "is_cut",
)  # fmt: skip

K = TypeVar("K")

_uid = attrgetter("uid")


class Columns:
    """Columns over the nodes of one cluster and the room left by its pods. Plugins read them and change nothing.

    ``dealt``: the cards allocated by decisions to pods already bound, by uid.
    """

    def __init__(self, cluster: ClusterState, dealt: Mapping[str, Dealt] | None = None) -> None:
        self._cluster = cluster
        #: Uids of pods lifted for a trial.
        self.lifted: set[str] = set()
        #: The nodes allowed for a gang in a trial; None = all.
        self.domain: Bools | None = None
        #: The time of the newest event of the history.
        self.at_us = 0
        #: The version of the layout: values computed for another layout are void.
        self.layout = 0
        #: The version of the nodes' own reports.
        self.described = 0
        #: Values computed by plugins from nodes' own reports, by plugin; each plugin checks the version.
        self.tables: dict[Hashable, Any] = {}
        #: The version of all changes; ``changed_at`` has the version of the last change of each row.
        self.version = 0
        self._forget_at = SPARE
        self.nodes: list[Node] = []
        self.names: list[str] = []
        self.row_of: dict[str, int] = {}
        self.changed_at: Ints = np.zeros(0, np.int64)
        #: The change at which a pod was observed with unchanged counts: on its node, after a placement ahead of the history.
        self.confirmed_at: Ints = np.zeros(0, np.int64)
        self.pods: Ints = np.zeros(0, np.int64)
        self.most_pods: Ints = np.zeros(0, np.int64)
        self.unschedulable: Bools = np.zeros(0, np.bool_)
        #: Some taints or labels of the node are unknown.
        self.is_cut: Bools = np.zeros(0, np.bool_)
        self.resources = ResourceColumns(self._counted)
        self.labels = NodeLabels()
        self.cards = CardColumns()
        #: Sizes of images requested by pods.
        self.images = ImageSizes()
        self.facts = ClusterFacts(cluster)
        self.placements = Placements(cluster, self.resources.requests, dealt)
        #: Pods grouped by their fields for selectors.
        self.crowds = Crowds()
        self.volumes = Volumes(cluster)
        #: By row: host ports of its pods as (protocol, port, address), and the number of pods on each.
        self.ports: list[dict[Port, int]] = []
        #: How many pods on nodes have each priority.
        self.priorities: dict[int, int] = {}
        #: Pods waiting for the room of victims, by uid, and the node held for them.
        self.nominated: dict[str, Placed] = {}
        self._on: dict[str, Placed] = {}
        #: By row: uids of its pods.
        self._here: list[set[str]] = []
        self._lay_out({one.name for one in cluster.nodes.values()})

    def _lay_out(self, named: Iterable[str]) -> None:
        """Give every node its row after nodes of these names came or went; the values of the others move with them."""
        self.facts.forget_scvs()
        gone, came = list[int](), list[Node]()
        for name in named:
            row, node = self.row_of.get(name, -1), self._cluster.current_node(name)
            if row >= 0 and node is not None and node.uid == self.nodes[row].uid:
                continue
            gone += [row] if row >= 0 else []
            came += [node] if node is not None else []
        gone.sort(reverse=True)
        for uid in sorted(uid for row in gone for uid in self._here[row]):
            self._replace(uid, None)
        rows = self._move(gone, came)
        self.resources.requests.clear()
        stayed = {row: at for at, row in enumerate(rows) if row >= 0} if self._on else {}
        self.crowds.move(stayed)
        self.volumes.lay_out(stayed, self.row_of)
        for row in gone:
            del self.ports[row], self._here[row]
        new = [row for row, before in enumerate(rows) if before < 0]
        for row in new:
            self.ports.insert(row, {})
            self._here.insert(row, set())
        for row in new:
            self._describe(row)
            for uid in self._cluster.index.on_node.get(self.names[row], ()):
                if uid not in self.placements.ahead:
                    self._add(self.placements.seen(self._cluster.pods[uid]))
        names = {self.names[row] for row in new}
        for placed in (one for one in self.placements.ahead.values() if one.node in names):
            self._add(placed)

    def _move(self, gone: Sequence[int], came: Iterable[Node]) -> list[int]:
        """Remove the nodes of these rows, the last one first, and add others without any report yet.

        Returns by new row the old one, -1 = it is new.
        """
        self.layout += 1
        self.version += 1
        rows = list(range(len(self.nodes)))
        for row in gone:
            del rows[row], self.nodes[row]
            self.cards.remove(row)
        for node in came:
            row = bisect_left(self.nodes, node.uid, key=_uid)
            self.nodes.insert(row, node)
            rows.insert(row, -1)
            self.cards.insert(row)
        order = np.array(rows, np.intp)
        is_new = np.flatnonzero(order < 0)
        for name in _MOVED:
            setattr(self, name, moved(getattr(self, name), order, is_new, 0))
        self.resources.move(order, is_new)
        self.labels.move(order, is_new)
        self.cards.move(order, is_new)
        if self._is_bloated:
            self._forget()
        self.images.forget()
        self.names = [one.name for one in self.nodes]
        self.row_of = dict(zip(self.names, range(len(rows)), strict=True))
        return rows

    @property
    def _is_bloated(self) -> bool:
        """Whether too much is kept beyond the nodes' reports."""
        return len(self.resources.names) + len(self.labels) > self._forget_at

    def _forget(self) -> None:
        """Keep the resources and labels in use, and drop all others: their numbers change."""
        self.labels.forget()
        self.resources.forget(self.nodes)
        self._forget_at = 2 * (len(self.resources.names) + len(self.labels)) + SPARE

    def _describe(self, row: int) -> None:
        """Write a node's own report."""
        self.described += 1
        node = self.nodes[row]
        amounts = amounts_of(node.allocatable)
        self.most_pods[row] = min(amounts.pop("pods", UNBOUNDED_PODS), UNBOUNDED_PODS)
        self.resources.describe(row, amounts)
        self.unschedulable[row] = node.unschedulable
        self.is_cut[row] = node.is_cut
        self.labels.describe(row, node)
        self.images.describe(row, node.images)
        self.cards.describe(row, node.allocatable)
        self.changed_at[row] = self.version

    def follow(self, changes: Iterable[Change]) -> None:
        """Follow the changes of the cluster's last event."""
        stale = set[str]()
        for change in changes:
            self.facts.follow(change)
            if change.kind == POD:
                self.version += 1
                self._replace(change.uid, self.placements.follow(change))
            elif change.kind in volumes.KINDS:
                self.volumes.follow(change)
            elif change.kind in BY_NODE and (newest := change.after or change.before):
                if (row := self.row_of.get(newest.name)) is not None:
                    self.version += 1
                    self.changed_at[row] = self.version
            elif change.kind == Node.kind:
                after = change.after
                row = self.row_of.get(after.name) if isinstance(after, Node) else None
                if row is None or not isinstance(after, Node) or self.nodes[row].uid != after.uid:
                    stale.update(
                        one.name for one in (change.before, after) if isinstance(one, Node)
                    )
                    continue
                self.version += 1
                self.nodes[row] = after
                self._describe(row)
        if stale or self._is_bloated:
            self._lay_out(stale)

    def place(self, pod: Pod, node: str, on: tuple[int, ...] = (), cpus: HeldCpus | None = None) -> None:  # fmt: skip
        """Count a pod on a node from now on, ahead of the history, until it is observed there, gone or taken back."""
        self.version += 1
        self._replace(pod.uid, self.placements.place(pod, node, on, cpus))

    def take_back(self, uid: str) -> None:
        """Take back a pod placed ahead of the history, unless the history has it bound."""
        self.version += 1
        self._replace(uid, self.placements.take_back(uid))

    def placed_on(self, row: int) -> list[Placed]:
        """The pods counted on a node with their cards, in no order."""
        return [self._on[uid] for uid in self._here[row]]

    def counted(self, uid: str) -> Placed | None:
        """The placement of a pod; None = on no node."""
        return self._on.get(uid)

    def _counted(self) -> Iterator[tuple[int, Pod]]:
        return ((self.row_of[one.node], one.pod) for one in self._on.values())

    def lift(self, uid: str) -> None:
        """Take a pod off until :meth:`put_back`. For trials: meanwhile the columns follow no change."""
        self.version += 1
        self.lifted.add(uid)
        self._count(self._on[uid], -1)

    def put_back(self, uid: str) -> None:
        """Count a lifted pod again."""
        self.version += 1
        self.lifted.discard(uid)
        self._count(self._on[uid], 1)

    def _replace(self, uid: str, placed: Placed | None) -> None:
        before = self._on.pop(uid, None)
        if before is not None and placed is not None and _count_alike(before, placed):
            self._on[uid] = placed
            self.confirmed_at[self.row_of[placed.node]] = self.version
            return
        if before is not None:
            self._count(before, -1)
        if placed is not None:
            self._add(placed)

    def _add(self, placed: Placed) -> None:
        if placed.node in self.row_of and placed.pod.phase not in _ENDED:
            self._on[placed.pod.uid] = placed
            self._count(placed, 1)

    def _count(self, placed: Placed, sign: int) -> None:
        row, pod = self.row_of[placed.node], placed.pod
        request = self.resources.requests.of(pod)
        self.resources.count(row, pod, request, sign)
        self.pods[row] += sign
        _tally(self.priorities, pod.priority, sign)
        if sign > 0:
            self._here[row].add(pod.uid)
        else:
            self._here[row].discard(pod.uid)
        self.crowds.count(pod, row, sign)
        self.volumes.count(pod, row, sign)
        for port in ports_of(pod):
            _tally(self.ports[row], port, sign)
        if request.cards[0]:
            on = () if placed.is_said else placed.cards
            self.cards.count(row, pod, request.cards, on, sign)
        self.changed_at[row] = self.version


def is_by_claim(columns: Columns, pod: Pod, row: int) -> bool:
    """Whether only a claim can give a pod devices on a node, as no device plugin offers them there."""
    offered = (columns.resources.names.get(name) for name in columns.facts.served(pod))
    return any(at is None or not columns.resources.allocatable[row, at] for at in offered)


def _tally(counts: dict[K, int], key: K, sign: int) -> None:
    count = counts.get(key, 0) + sign
    if count:
        counts[key] = count
    else:
        del counts[key]


def _count_alike(before: Placed, after: Placed) -> bool:
    """Whether one pod counts as before: most observations of pods on nodes are a change of phase."""
    one, other = before.pod, after.pod
    return (
        before.node == after.node
        and (before.cards, before.is_said) == (after.cards, after.is_said)
        and before.cpus == after.cpus
        and one.demand == other.demand
        and one.constraints == other.constraints
        and one.labels == other.labels
        and one.annotations == other.annotations
        and one.priority == other.priority
        and one.unrequested == other.unrequested
        and one.started_us == other.started_us
        and one.owner == other.owner
        and one.is_terminating == other.is_terminating
        and other.phase not in _ENDED
        and (bool(one.node) == bool(other.node) or not _says_of_cpus(other))
    )


def _says_of_cpus(pod: Pod) -> bool:
    """Whether a pod's bind matters for its node's CPUs: until then its requested CPUs are kept for it."""
    return pod.constraints is not None and pod.constraints.cpus is not None


def ports_of(pod: Pod) -> list[Port]:
    """The host ports of a pod."""
    ports = pod.constraints.host_ports if pod.constraints else ()
    return [(one.protocol or "TCP", one.host_port, one.host_ip or ANY) for one in ports]


_ENDED = ("Succeeded", "Failed")
