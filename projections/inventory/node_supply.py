"""Nodes with more charged cards than existing ones.

A node's supply is its largest offer under its uid: a restarting device plugin, or a failing card, takes no card
away from its pods. The supply of a node without any offer is unknown.

Source: docs/devices.md (supply; no node gives more cards than it has).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from projections import nodes, timelines
from projections.devices.plugins import offered, vendor
from projections.devices.shared_cards import HAMI_NODE, VOLCANO_NODE
from projections.devices.sizes import WHOLE
from projections.inventory.shape import card_supply
from projections.pod_runs import held_segments, pod_runs

Select = Callable[[sa.Select[Any]], list[tuple[Any, ...]]]
#: Cluster and name.
NodeKey = tuple[str, str]

#: Nodes in one statement.
_ASKED = 500
#: A future end.
_OPEN = 2**62

_texts = msgspec.json.Decoder(dict[str, str]).decode


class Excess(NamedTuple):
    """[``from_s``, ``to_s``) with charges on a node above its supply."""

    from_s: int
    to_s: int
    charged_milli: int
    supply_milli: int


ExcessByNode = Mapping[NodeKey, Sequence[Excess]]


class Oversubscribed(NamedTuple):
    """A node with more charged cards than existing ones now, and its resources for cards."""

    cluster: str
    node: str
    resources: tuple[str, ...]
    charged_milli: int
    supply_milli: int


def excesses(
    select: Select, places: Collection[NodeKey], from_s: int, to_s: int
) -> dict[NodeKey, list[Excess]]:
    """When between two seconds more is charged on these nodes than their cards are."""
    held: dict[NodeKey, list[tuple[int, int, int]]] = defaultdict(list)
    segments = held_segments.c
    for cluster, names in _by_cluster(places):
        query = sa.select(segments.node, segments.start_s, segments.end_s, segments.gpu_milli)
        query = query.where(
            segments.cluster == cluster, segments.node.in_(names), segments.gpu_milli > 0,
            segments.start_s < to_s, sa.or_(segments.end_s.is_(None), segments.end_s > from_s),
        )  # fmt: skip
        for node, start_s, end_s, milli in select(query):
            end_s = _OPEN if end_s is None else end_s
            held[cluster, node].append((max(start_s, from_s), min(end_s, to_s), milli))
    known = _supplies(select, held)
    found: dict[NodeKey, list[Excess]] = {}
    for key, charges in held.items():
        if supply := known.get(key):
            excess = [one for one in _charged(charges, supply) if one.charged_milli > one.supply_milli]  # fmt: skip
            if excess:
                found[key] = excess
    return found


def is_oversubscribed(found: ExcessByNode, cluster: str, node: str, from_s: int, to_s: int) -> bool:
    """Whether the charges on a node pass its supply at some second between two."""
    return any(one.from_s < to_s and from_s < one.to_s for one in found.get((cluster, node), ()))


def oversubscribed(select: Select) -> list[Oversubscribed]:
    """The nodes with more charged cards than existing ones now."""
    runs, segments = pod_runs.c, held_segments.c
    total = sa.func.sum(segments.gpu_milli)
    query = (
        sa.select(segments.cluster, segments.node, total)
        # Open pods first: their index is partial, and ended segments are never read.
        .where(segments.uid.in_(sa.select(runs.uid).where(runs.end_s.is_(None))))
        .where(segments.end_s.is_(None), segments.gpu_milli > 0)
        .group_by(segments.cluster, segments.node)
    )
    charged = {(cluster, node): int(milli) for cluster, node, milli in select(query)}
    found = []
    for (cluster, node), supply in sorted(_supplies(select, charged).items()):
        milli, newest = charged[cluster, node], supply[-1]
        if milli > newest[1]:
            found.append(Oversubscribed(cluster, node, newest[2], milli, newest[1]))
    return found


#: (first second, milli-cards, resources), oldest first
_Timeline = list[tuple[int, int, tuple[str, ...]]]


def _supplies(select: Select, places: Collection[NodeKey]) -> dict[NodeKey, _Timeline]:
    """The supply of each of these nodes with any offered card, by its lives."""
    by_slices = _by_slices(select, {cluster for cluster, _ in places})
    found: dict[NodeKey, _Timeline] = {}
    rows: dict[NodeKey, nodes.NodeHistory] = {}
    for cluster, names in _by_cluster(places):
        query = sa.select(nodes.nodes).where(
            nodes.nodes.c.cluster == cluster, nodes.nodes.c.node.in_(names)
        )
        for columns in select(query):
            row = nodes.codec.row(columns)
            rows[row.cluster, row.name] = row
    for key in places:
        slices = by_slices.get(key, {})
        lives = _lives(rows[key]) if key in rows else []
        # Cards of no node are held from any.
        free = sum(milli for milli, _ in by_slices.get((key[0], ""), {}).values())
        supply: _Timeline = []
        for begin_s, plugin in lives or [(0, {})]:
            most = {
                of: max(slices.get(of, _NONE), plugin.get(of, _NONE)) for of in {**slices, **plugin}
            }
            milli = free + sum(amount for amount, _ in most.values())
            resources = tuple(sorted({name for _, several in most.values() for name in several}))
            supply.append((begin_s, milli, resources))
        if any(milli for _, milli, _ in supply):
            found[key] = supply
    return found


#: Vendor → milli-cards, and the resources or drivers with them.
_Offers = dict[str, tuple[int, tuple[str, ...]]]
_NONE: tuple[int, tuple[str, ...]] = (0, ())


def _by_slices(select: Select, clusters: Iterable[str]) -> dict[NodeKey, _Offers]:
    """The largest number of cards of each vendor in a node's slices at one time."""
    changes: dict[tuple[NodeKey, str], list[tuple[int, int]]] = defaultdict(list)
    table = card_supply.c
    query = sa.select(table.cluster, table.node, table.card, table.start_s, table.end_s)
    for cluster, node, card, start_s, end_s in select(query.where(table.cluster.in_(sorted(clusters)))):  # fmt: skip
        driver = card.partition("/")[0]
        changes[(cluster, node), driver] += [(start_s, 1), (_OPEN if end_s is None else end_s, -1)]
    found: dict[NodeKey, _Offers] = defaultdict(dict)
    for (key, driver), of_driver in changes.items():
        now = most = 0
        for _, change in sorted(of_driver):
            now += change
            most = max(most, now)
        found[key][vendor(driver)] = (most * WHOLE, (driver,))
    return found


def _lives(row: nodes.NodeHistory) -> list[tuple[int, _Offers]]:
    """(first second, the largest offer of its device plugins) for each uid of a node."""
    sharing = {(version, time_us): text for version, time_us, text in row.sharing_points()}
    found: list[tuple[int, _Offers]] = []
    uid = None
    for version, time_us, value in row.history:
        if value[0] != uid:
            uid = value[0]
            found.append((time_us // timelines.MICROSECONDS, {}))
        most = found[-1][1]
        for of, offer in _offers(value[2], sharing.get((version, time_us), "")).items():
            most[of] = max(most.get(of, _NONE), offer)
    return found


@lru_cache(maxsize=4_096)
def _offers(allocatable: str, sharing: str) -> Mapping[str, tuple[int, tuple[str, ...]]]:
    quantities, texts = _texts(allocatable), _texts(sharing) if sharing else {}
    plain = {name: text for name, text in texts.items() if name not in (HAMI_NODE, VOLCANO_NODE)}
    # The resources for each vendor's cards are found one by one.
    names: dict[str, list[str]] = defaultdict(list)
    for name in sorted(quantities):
        for of in offered({name: quantities[name]}, plain):
            names[of].append(name)
    return {
        of: (milli, tuple(names[of]) or (of,)) for of, milli in offered(quantities, texts).items()
    }


def _charged(charges: list[tuple[int, int, int]], supply: _Timeline) -> Iterator[Excess]:
    """The charges from second to second, beside the supply."""
    seconds = {s for a, b, _ in charges for s in (a, b)}
    first, last = min(seconds), max(seconds)
    ordered = sorted({*seconds, *(s for s, _, _ in supply[1:] if first < s < last)})
    changes: dict[int, int] = defaultdict(int)
    for a, b, milli in charges:
        changes[a] += milli
        changes[b] -= milli
    now = 0
    amounts = [(begin_s, milli) for begin_s, milli, _ in supply]
    for from_s, to_s in pairwise(ordered):
        now += changes[from_s]
        yield Excess(from_s, to_s, now, timelines.at(amounts, from_s) or 0)


def _by_cluster(places: Collection[NodeKey]) -> Iterator[tuple[str, list[str]]]:
    names: dict[str, list[str]] = defaultdict(list)
    for cluster, node in sorted(places):
        names[cluster].append(node)
    for cluster, of_cluster in names.items():
        for start in range(0, len(of_cluster), _ASKED):
            yield cluster, of_cluster[start : start + _ASKED]


class SuppliedCards(NamedTuple):
    """The cards of one vendor on a node, or of a pool that is on none: by slices, and by the node's device plugin."""

    cluster: str
    node: str
    vendor: str
    by_slices: int
    by_plugin: int

    @property
    def gpu_milli(self) -> int:
        """Of both for one vendor the larger: they are the same cards."""
        return max(self.by_slices, self.by_plugin)


def supply(select: Callable[[sa.Select[Any]], list[tuple[Any, ...]]]) -> list[SuppliedCards]:
    """What there is now, by cluster, node and vendor, in thousandths of a card."""
    found: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0])
    table = card_supply.c
    query = sa.select(table.cluster, table.node, table.card).where(table.end_s.is_(None))
    for cluster, node, card in select(query):
        driver, _, name = card.partition("/")
        found[cluster, node or name.rpartition("/")[0], vendor(driver)][0] += WHOLE
    for columns in select(sa.select(nodes.nodes).where(nodes.nodes.c.vanished == 0)):
        row = nodes.codec.row(columns)
        sharing = row.sharing()
        texts = _texts(sharing[-1][1]) if sharing and sharing[-1][1] else {}
        for name, milli in offered(_texts(row.history[-1][2][2]), texts).items():
            found[row.cluster, row.name, name][1] += milli
    return [SuppliedCards(*key, *amounts) for key, amounts in sorted(found.items())]
