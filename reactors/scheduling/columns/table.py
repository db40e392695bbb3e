"""The cluster as columns of integers, one row for each node in the order of uids: what scheduling plugins read.

Follows :class:`projections.cluster.ClusterState` change by change. Everything is an exact integer, so the columns are a
function of what exists, in whatever order it came. Where a node comes or goes, the others' rows move as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias, TypeVar

import msgspec
import numpy as np

from bus.events.constraints import DeviceTerms, HeldCpus
from projections.cluster import POD, Change, ClusterState, Pod
from projections.cluster.devices import Scv
from projections.cluster.rows import Node
from reactors.scheduling.columns import cards, volumes
from reactors.scheduling.columns.arrivals import Arrivals
from reactors.scheduling.columns.cluster import BY_NODE, ClusterColumns
from reactors.scheduling.columns.crowds import Crowds
from reactors.scheduling.columns.device_requests import requested
from reactors.scheduling.columns.nodes import (
    ALL,
    CPU,
    MEMORY,
    MOST,
    MOST_COUNTED,
    SHARE,
    STORAGE,
    Bools,
    Ints,
    Rows,
    SmallInts,
)
from reactors.scheduling.columns.volumes import Volumes
from reactors.scheduling.shape import Dealt, holds

__all__ = [
    "ALL",
    "CPU",
    "MEMORY",
    "STORAGE",
    "Bools",
    "Columns",
    "Ints",
    "Rows",
    "SmallInts",
]

#: Protocol, port and address.
Port: TypeAlias = tuple[str, int, str]
#: All addresses of a node.
ANY = "0.0.0.0"
#: Distinct demands that are known as columns.
KNOWN_DEMANDS = 16_384

_REQUESTS = "requests."

K = TypeVar("K")


class Placed(msgspec.Struct, frozen=True, gc=False):
    """A pod on a node, and the cards and CPUs that a decision gave it; cards by its annotation (``is_said``) where none did.

    ``terms``: what it wanted of its devices when it got them.
    """

    pod: Pod
    node: str
    cards: tuple[int, ...] = ()
    cpus: HeldCpus | None = None
    is_said: bool = False
    terms: DeviceTerms | None = None


class _Request(msgspec.Struct, frozen=True, gc=False):
    """What a demand requests, as (column, amount), by name what no node offers, and what of cards."""

    demand: dict[str, int]
    amounts: list[tuple[int, int]]
    not_offered: dict[str, int]
    has_devices: bool
    cards: tuple[int, int, int]


class Columns(ClusterColumns):
    """Columns over the nodes of one cluster and the room that its pods leave. Plugins read them and change nothing.

    ``dealt``: which cards decisions gave to pods that are bound already, by uid.
    """

    def __init__(self, cluster: ClusterState, dealt: Mapping[str, Dealt] | None = None) -> None:
        super().__init__(cluster)
        #: Cards that decisions gave to pods, by uid, until the pod is gone or lies elsewhere.
        self.dealt: dict[str, Dealt] = dict(dealt or {})
        #: Pods by what selectors of pods see of them.
        self.crowds = Crowds()
        self.volumes = Volumes(cluster)
        #: By row: host ports that its pods hold, as (protocol, port, address), and how many pods hold each.
        self.ports: list[dict[Port, int]] = []
        #: How many pods on nodes have each priority.
        self.priorities: dict[int, int] = {}
        self._on: dict[str, Placed] = {}
        #: By row: uids of its pods.
        self._here: list[set[str]] = []
        #: Pods that were placed here ahead of the history, by uid.
        self._ahead: dict[str, Placed] = {}
        #: Pods that wait for the room of others that have to go, by uid, and the node that is held for them.
        self.nominated: dict[str, Placed] = {}
        #: By the id of pods' demands, which many share.
        self._requests: dict[int, _Request] = {}
        #: Who arrives, counted from when somebody learns of it.
        self.arrivals: Arrivals | None = None
        self._lay_out({one.name for one in cluster.nodes.values()})

    def learned(self) -> Arrivals:
        """What pods are like: those that exist at the first call, in the order of their times, then those that come."""
        if self.arrivals is None:
            self.arrivals = Arrivals()
            pods = self._cluster.pods.values()
            for pod in sorted(pods, key=lambda one: (one.started_us, one.uid)):
                self.arrivals.count(pod)
        return self.arrivals

    def _lay_out(self, named: Iterable[str]) -> None:
        """Give every node its row, where nodes of these names came or went; what is known of those that stay moves with them."""
        self.forget_scvs()
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
        self._requests.clear()
        moved = {row: at for at, row in enumerate(rows) if row >= 0} if self._on else {}
        self.crowds.move(moved)
        self.volumes.lay_out(moved, self.row_of)
        for row in gone:
            del self.ports[row], self._here[row]
        new = [row for row, before in enumerate(rows) if before < 0]
        for row in new:
            self.ports.insert(row, {})
            self._here.insert(row, set())
        for row in new:
            self._describe(row)
            for uid in self._cluster.index.on_node.get(self.names[row], ()):
                if uid not in self._ahead:
                    self._add(self._seen(self._cluster.pods[uid]))
        names = {self.names[row] for row in new}
        for placed in (one for one in self._ahead.values() if one.node in names):
            self._add(placed)

    def request(self, pod: Pod) -> Ints:
        """What a pod requests, one amount for each column."""
        request = np.zeros(self.free.shape[1], np.int64)
        for at, amount in self._requested(pod).amounts:
            request[at] = amount
        return request

    def not_offered(self, pod: Pod) -> dict[str, int]:
        """What a pod requests and no node offers, which therefore has no column: tenants may name anything."""
        return self._requested(pod).not_offered

    def _requested(self, pod: Pod) -> _Request:
        demand = pod.demand
        known = self._requests.get(id(demand))
        if known is not None and known.demand is demand:
            return known
        found = _Request(demand, [], {}, bool(requested(demand)), cards.parts_of(pod))
        for key, amount in demand.items():
            if key.startswith(_REQUESTS):
                name = key.removeprefix(_REQUESTS)
                at = self.resources.get(name)
                if at is not None:
                    found.amounts.append((at, min(amount, MOST)))
                elif amount:
                    found.not_offered[name] = min(amount, MOST)
        if len(self._requests) >= KNOWN_DEMANDS:
            self._requests.clear()
        self._requests[id(demand)] = found
        return found

    def column(self, resource: str) -> int:
        """The column of a resource; of a new one that which pods on nodes have of it already."""
        is_new = resource not in self.resources
        at = super().column(resource)
        if is_new:
            self._requests.clear()
            for placed in self._on.values():
                amount = placed.pod.demand.get(_REQUESTS + resource, 0)
                self.free[self.row_of[placed.node], at] -= min(amount, MOST)
        return at

    def follow(self, changes: Iterable[Change]) -> None:
        """The cluster's state changed: what its last event changed."""
        stale = set[str]()
        for change in changes:
            if change.kind == POD:
                self.version += 1
                after = change.after
                if self.arrivals is not None and change.before is None and isinstance(after, Pod):
                    self.arrivals.count(after)
                found = self._seen(after) if isinstance(after, Pod) and holds(after) else None
                if found is not None or change.after is None:
                    self._ahead.pop(change.uid, None)
                    self._settle(change.uid, found)
                self._replace(change.uid, found or self._ahead.get(change.uid))
            elif change.kind in volumes.KINDS:
                self.volumes.follow(change)
            elif change.kind in BY_NODE and (newest := change.after or change.before):
                self._touch_named(newest.name)
            elif change.kind == Scv.kind:
                self.forget_scvs()
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
        """Count a pod on a node from now on, ahead of the history, until it is seen there, gone or taken back."""
        self.version += 1
        terms = _terms_of(pod, self.dealt.get(pod.uid), node, on)
        placed = self._ahead[pod.uid] = Placed(pod, node, on, cpus, terms=terms)
        if on or cpus is not None:
            self.dealt[pod.uid] = Dealt(node, on, cpus=cpus, terms=terms)
        self._replace(pod.uid, placed)

    def take_back(self, uid: str) -> None:
        """A pod that was placed ahead of the history counts no more, where that has it not bound itself."""
        self.version += 1
        self._ahead.pop(uid, None)
        pod = self._cluster.pods.get(uid)
        found = self._seen(pod) if pod is not None and holds(pod) else None
        self._settle(uid, found)
        self._replace(uid, found)

    def _settle(self, uid: str, found: Placed | None) -> None:
        """Forget what a pod was dealt where it is not, or is no more."""
        dealt = self.dealt.get(uid)
        if dealt is not None and (found is None or found.node != dealt.node):
            del self.dealt[uid]

    def _seen(self, pod: Pod) -> Placed:
        dealt = self.dealt.get(pod.uid)
        here = dealt if dealt is not None and dealt.node == pod.node else None
        is_new = here is None or not (here.cards or here.is_said)
        if is_new and holds(pod) and (pod.devices or self._requested(pod).has_devices):
            # What the annotation said first counts, also if that was nothing: later words could be meant to free a card.
            cpus = here.cpus if here is not None else None
            here = self.dealt[pod.uid] = _as_annotated(pod, cpus)
        if here is None:
            return Placed(pod, pod.node)
        return Placed(pod, pod.node, here.cards, here.cpus, here.is_said and bool(here.cards), here.terms)  # fmt: skip

    def placed_on(self, row: int) -> list[Placed]:
        """The pods that are counted on a node with their cards, in no order."""
        return [self._on[uid] for uid in self._here[row]]

    def counted(self, uid: str) -> Placed | None:
        """Where a pod is counted; None = on no node."""
        return self._on.get(uid)

    def lift(self, uid: str) -> None:
        """Count a pod no more, until :meth:`put_back`. For trials: meanwhile the columns follow no change."""
        self.version += 1
        self.lifted.add(uid)
        self._count(self._on[uid], -1)

    def put_back(self, uid: str) -> None:
        """Count a pod again that was lifted."""
        self.version += 1
        self.lifted.discard(uid)
        self._count(self._on[uid], 1)

    def _replace(self, uid: str, placed: Placed | None) -> None:
        before = self._on.pop(uid, None)
        if before is not None and placed is not None and _count_alike(before, placed):
            self._on[uid] = placed
            self._confirm(placed.node)
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
        request = self._requested(pod)
        for at, amount in request.amounts:
            self.free[row, at] -= sign * amount
            if at <= MEMORY:
                self.nonzero[row, at] += sign * amount
        if pod.unrequested:
            self.nonzero[row, CPU] += sign * pod.unrequested[CPU]
            self.nonzero[row, MEMORY] += sign * pod.unrequested[MEMORY]
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
        count, milli, size = request.cards
        if count:
            kind = SHARE if milli < cards.WHOLE else min(count, MOST_COUNTED)
            self.kinds[row, kind] += sign
            if sign > 0:
                on = () if placed.is_said else placed.cards
                self._holding[row][pod.uid] = cards.Holding(pod.started_us, count, milli, on, size)
            else:
                del self._holding[row][pod.uid]
            self._deal_cards(row)
        self._touch(row)


def _tally(counts: dict[K, int], key: K, sign: int) -> None:
    count = counts.get(key, 0) + sign
    if count:
        counts[key] = count
    else:
        del counts[key]


def _count_alike(before: Placed, after: Placed) -> bool:
    """Whether one pod counts as it did: most of what is seen of pods on nodes is a phase."""
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


def _terms_of(pod: Pod, known: Dealt | None, node: str, on: tuple[int, ...]) -> DeviceTerms | None:
    """What a pod wants of its devices; where it is placed once more, after a restart say, what it wanted before."""
    if known is not None and (known.node, known.cards) == (node, on):
        return known.terms
    return pod.constraints.devices if pod.constraints is not None else None


def _as_annotated(pod: Pod, cpus: HeldCpus | None) -> Dealt:
    """What the annotation of a pod says of its devices."""
    on = pod.devices or ()
    return Dealt(pod.node, on, is_said=True, cpus=cpus, terms=_terms_of(pod, None, pod.node, on))


def _says_of_cpus(pod: Pod) -> bool:
    """Whether it matters for its node's CPUs that a pod is bound: until then those that it wants are kept for it."""
    return pod.constraints is not None and pod.constraints.cpus is not None


def ports_of(pod: Pod) -> list[Port]:
    """The host ports that a pod takes."""
    ports = pod.constraints.host_ports if pod.constraints else ()
    return [(one.protocol or "TCP", one.host_port, one.host_ip or ANY) for one in ports]


_ENDED = ("Succeeded", "Failed")
