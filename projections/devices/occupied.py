"""Rows of cards to rewrite, once for each batch: the parts held by pods and reserved by claims.

A claim's rows are computed from the claim, its pods, and the claims with the same cards at the same time.

Source: docs/devices.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from projections import timelines
from projections.attribution import UNASSIGNED
from projections.devices import claims as claim_rows
from projections.devices.cards import HELD, RESERVED, CardPiece, Occupant, pieces, union
from projections.devices.claim_holdings import ClaimHoldings
from projections.devices.claims import ClaimHistory
from projections.devices.dealt_cards import DealtCards
from projections.devices.groups import CardGroups
from projections.devices.holding import OPEN
from projections.devices.index import ClaimIndex
from projections.devices.pods import PodRow, Pods, PodSurroundings
from projections.devices.rewritten import Windows, inside, joined, outside
from projections.devices.shape import card_segments, claim_cards
from projections.engine.changes import Columns
from projections.engine.contract import Key
from projections.engine.rows import Rows

#: Keys in one statement.
_ASKED = 500

#: (first second, last second) by card, with its cluster
Extents = dict[Key, tuple[int, int]]

_BESIDE = sa.select(claim_cards).where(
    claim_cards.c.cluster == sa.bindparam("cluster"),
    claim_cards.c.card.in_(sa.bindparam("keys", expanding=True)),
    claim_cards.c.end_s > sa.bindparam("since"),
)
_ON_NODE = sa.select(card_segments.c.node, card_segments.c.uid, card_segments.c.end_s).where(
    card_segments.c.cluster == sa.bindparam("cluster"),
    card_segments.c.node.in_(sa.bindparam("keys", expanding=True)),
    sa.or_(card_segments.c.end_s.is_(None), card_segments.c.end_s > sa.bindparam("since")),
)
_OF_NAMESPACE = sa.select(
    card_segments.c.namespace, card_segments.c.uid, card_segments.c.end_s
).where(
    card_segments.c.cluster == sa.bindparam("cluster"),
    card_segments.c.namespace.in_(sa.bindparam("keys", expanding=True)),
    card_segments.c.kind == sa.literal_column("'reserved'"),
    sa.or_(card_segments.c.end_s.is_(None), card_segments.c.end_s > sa.bindparam("since")),
)


class OccupiedCards:
    """The rows of cards of a folder. Changes are noted, and :meth:`changes` writes their results."""

    def __init__(
        self,
        rows: Rows,
        index: ClaimIndex,
        holdings: ClaimHoldings,
        pods: Pods,
        around: PodSurroundings,
    ) -> None:
        self._rows = rows
        self._index = index
        self._holdings = holdings
        self._pods = pods
        self._around = around
        self.groups = CardGroups(index, pods, around)
        self._dealt = DealtCards(pods, around)
        self._claims: set[str] = set()
        self._moved: set[str] = set()
        #: (query, cluster) → name → the first second of a change.
        self._relabelled: dict[tuple[Any, ...], dict[str, int]] = defaultdict(dict)

    def claims_changed(self, uids: Iterable[str]) -> None:
        """These claims, or the data about their devices, changed."""
        self._claims.update(uids)

    def pod_changed(self, uid: str) -> None:
        """A pod's run changed."""
        self._moved.add(uid)

    def node_changed(self, key: Key, since: int) -> None:
        """The model of a node's cards changed."""
        self._relabel(_ON_NODE, key, since)

    def namespace_changed(self, key: Key, since: int) -> None:
        """A namespace's owners changed."""
        self._relabel(_OF_NAMESPACE, key, since)

    def _relabel(self, query: sa.Select[Any], key: Key, since: int) -> None:
        cluster, name = key
        names = self._relabelled[query, cluster]
        names[name] = min(names.get(name, since), since)

    def changes(self) -> tuple[list[str], dict[sa.Table, list[Columns]]]:
        """Uids with rewritten rows, and rows. The next batch begins."""
        changed = self._changed()
        uids, rows = self.groups.changes()
        dealt, more = self._dealt.changes()
        uids, rows = [*uids, *dealt], [*rows, *more]
        if not changed:
            return uids, {card_segments: rows} if rows else {}
        occupants: dict[str, Occupant] = {}
        before = self._stored(changed)
        self._add(changed, occupants)
        extents = {uid: _extents(of) for uid, of in occupants.items()}
        windows = _windows([*before.values(), *extents.values()])
        beside = self._beside(windows) - changed
        self._add(beside, occupants)
        written = changed | beside
        # Of a neighboring claim only the part in their windows: it may have shared the card with very many others.
        parts: dict[str, list[Columns]] = defaultdict(list)
        for row in self._segments_of(beside):
            parts[row[0]] += outside(row, windows)
        for piece in pieces(list(occupants.values()), written):
            of = occupants[piece.use.claim.uid]
            if of.claim.uid in changed:
                rows += self._segments(piece, of)
            else:
                for part in inside(piece, windows):
                    parts[of.claim.uid] += self._segments(part, of)
        for uid, found in parts.items():
            rows += joined(found, self._sequence(occupants[uid]))
        extents |= {uid: _extents(occupants[uid]) for uid in occupants.keys() - extents.keys()}
        cards = [
            (uid, *key, *bounds, self._sequence(occupants[uid]))
            for uid in sorted(written & occupants.keys())
            for key, bounds in extents[uid].items()
        ]
        upserts = {table: some for table, some in ((card_segments, rows), (claim_cards, cards)) if some}  # fmt: skip
        return sorted({*uids, *written}), upserts

    def _changed(self) -> set[str]:
        """The noted claims, and those of noted pods, nodes and namespaces."""
        found, self._claims = self._claims, set()
        moved, self._moved = self._moved, set()
        relabelled, self._relabelled = self._relabelled, defaultdict(dict)
        if not (found or moved or relabelled):
            return found
        rows = [row for uid in sorted(moved) if (row := self._pods.get(uid)) is not None]
        self._prepare(rows)
        for row in rows:
            found |= self._of_pod(row)
            self.groups.pod_changed(row.pod)
            self._dealt.pod_changed(row.pod)
        for (query, cluster), names in relabelled.items():
            found |= self._had(query, cluster, names)
        for uid in found:
            self._rows.want(claim_rows.projection, (uid,))
        self._rows.fetch()
        for claim in [one for uid in sorted(found) if (one := self._claim(uid)) is not None]:
            if not claim.is_generated:
                # The choice among several claims of one name depends on all of them.
                found |= self._index.named(claim.cluster, claim.namespace, claim.name)
        return {uid for uid in found if self._claim(uid) is not None}

    def _had(self, query: sa.Select[Any], cluster: str, names: dict[str, int]) -> set[str]:
        """The claims with a card of one of these nodes or namespaces after its second."""
        found: set[str] = set()
        for start in range(0, len(names), _ASKED):
            part = sorted(names)[start : start + _ASKED]
            values = {"cluster": cluster, "keys": part, "since": min(names[one] for one in part)}
            for name, uid, end_s in self._rows.reader.select(query, values):
                if end_s is None or end_s > names[name]:
                    found.add(uid)
        return found

    def _of_pod(self, row: PodRow) -> set[str]:
        pod = row.pod
        found = set(self._index.own(pod.uid))
        for name in pod.claims:
            found |= self._index.named(pod.cluster, pod.namespace, name)
        return found

    def _prepare(self, rows: Iterable[PodRow]) -> None:
        """Ask at once for what these pods will be asked for."""
        names: dict[tuple[str, str], set[str]] = defaultdict(set)
        uids = []
        for row in rows:
            uids.append(row.pod.uid)
            if row.pod.claims:
                names[row.pod.cluster, row.pod.namespace].update(row.pod.claims)
        if self._index.is_stored:
            self._index.prepare(uids, names)

    def _add(self, uids: Iterable[str], occupants: dict[str, Occupant]) -> None:
        """The claims of ``uids`` with their pods; all their inputs are read at once."""
        new = sorted(set(uids) - occupants.keys())
        names: dict[tuple[str, str], set[str]] = defaultdict(set)
        for uid in new:
            self._rows.want(claim_rows.projection, (uid,))
        self._rows.fetch()
        found = [claim for uid in new if (claim := self._claim(uid)) is not None]
        for claim in found:
            if not claim.is_generated:
                names[claim.cluster, claim.namespace].add(claim.name)
        if self._index.is_stored:
            self._index.prepare((), names)
        pods = {uid for claim in found for uid in self._holdings.pods_of(claim)}
        self._pods.load(pods)
        self._prepare(row for uid in sorted(pods) if (row := self._pods.get(uid)) is not None)
        for claim in found:
            occupants[claim.uid] = self._holdings.occupant(claim)

    def _stored(self, uids: Iterable[str]) -> dict[str, Extents]:
        """Uid → the claim's stored times on each card."""
        keys: Sequence[Key] = [(uid,) for uid in sorted(uids)]
        found: dict[str, Extents] = defaultdict(dict)
        if not keys:
            return {}
        for uid, cluster, card, begin_s, end_s, _ in self._rows.reader.rows(claim_cards, keys):
            found[uid][cluster, card] = (begin_s, end_s)
        return dict(found)

    def _segments_of(self, uids: Iterable[str]) -> list[Columns]:
        """The rows of claims as they are stored."""
        keys: Sequence[Key] = [(uid,) for uid in sorted(uids)]
        return self._rows.reader.rows(card_segments, keys) if keys else []

    def _beside(self, windows: Windows) -> set[str]:
        """The stored claims with one of these cards at one of these times."""
        found: set[str] = set()
        by_cluster: dict[str, list[str]] = defaultdict(list)
        for cluster, card in sorted(windows):
            by_cluster[cluster].append(card)
        for cluster, cards in by_cluster.items():
            for start in range(0, len(cards), _ASKED):
                part = cards[start : start + _ASKED]
                since = min(a for card in part for a, _ in windows[cluster, card])
                values = {"cluster": cluster, "keys": part, "since": since}
                for uid, _, card, begin_s, end_s, _ in self._rows.reader.select(_BESIDE, values):
                    if any(a < end_s and begin_s < b for a, b in windows[cluster, card]):
                        found.add(uid)
        return found

    def _segments(self, piece: CardPiece, of: Occupant) -> list[Columns]:
        """The rows of a piece: one for each team and model."""
        claim, size = of.claim, piece.use.size
        models = [] if size.model else self._models(claim.cluster, size.node)
        team, owners = "", []
        if piece.kind == RESERVED:
            team = claim.team or self._team_of_owner(claim)
            owners = [] if team else self._around.owners((claim.cluster, claim.namespace))
        cuts = {s for timeline in (models, owners) for s, _ in timeline[1:]}
        seconds = [piece.from_s, *sorted(s for s in cuts if piece.from_s < s < piece.to_s)]
        found: list[Columns] = []
        for from_s, to_s in zip(seconds, [*seconds[1:], piece.to_s], strict=True):
            names = timelines.at(owners, from_s)
            group = team or (names and names[0]) or UNASSIGNED
            values = (
                size.model or timelines.at(models, from_s),
                group if piece.kind == RESERVED else "",
            )
            if found and found[-1][13:15] == values:
                found[-1] = (*found[-1][:6], None if to_s == OPEN else to_s, *found[-1][7:])
                continue
            found.append(
                (
                    claim.uid, piece.part, piece.card, piece.kind, piece.pod, from_s,
                    None if to_s == OPEN else to_s, from_s if piece.kind == HELD else piece.since_s,
                    claim.cluster, claim.namespace, claim.name, piece.use.result.device, size.node,
                    *values, piece.gpu_milli, piece.gpu_memory_mib,
                    int(piece.use.given.evidence_us is not None), self._sequence(of),
                )
            )  # fmt: skip
        return found

    def _team_of_owner(self, claim: ClaimHistory) -> str:
        """The team of a claim's owning pod; "" for none."""
        row = self._pods.get(claim.owner.uid) if claim.is_generated and claim.owner else None
        return (row.pod.history[-1][2].team or "") if row is not None else ""

    def _models(self, cluster: str, node: str) -> list[tuple[int, str | None]]:
        return self._around.models((cluster, node)) if node else []

    def _sequence(self, of: Occupant) -> int:
        """The last event with a change of the claim, or of the segments of its pods."""
        rows = [row for pod in of.pods if (row := self._pods.get(pod.uid)) is not None]
        return max([of.claim.sequence, *(row.run_sequence for row in rows if row.run.segments)])

    def _claim(self, uid: str) -> ClaimHistory | None:
        row: ClaimHistory | None = self._rows.get(claim_rows.projection, (uid,))
        return row


def _windows(extents: Iterable[Extents]) -> Windows:
    """The times of each card in one of the claims with these extents."""
    found: dict[Key, list[tuple[int, int]]] = defaultdict(list)
    for one in extents:
        for key, (begin_s, end_s) in one.items():
            if begin_s < end_s:
                found[key].append((begin_s, end_s))
    return {key: union(bounds) for key, bounds in found.items()}


def _extents(of: Occupant) -> Extents:
    return {(of.claim.cluster, card): bounds for card, bounds in of.extents().items()}
