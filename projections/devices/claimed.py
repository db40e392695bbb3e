"""The claims of the pods of a folder: each pod's holdings by them, and the runs to derive again when one changes.

Source: docs/devices.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from bus.envelope import Event
from bus.events.devices import ResourceClaimState, ResourceSliceObserved
from bus.events.pods import PodState
from bus.events.vocabulary import Fact
from projections.devices import supply
from projections.devices.claim_holdings import ClaimHoldings
from projections.devices.claims import ClaimHistory, claims
from projections.devices.claims import projection as claim_rows
from projections.devices.groups import cards_of
from projections.devices.held import NOTHING_GIVEN, ClaimedCards
from projections.devices.holding import Span
from projections.devices.index import ClaimIndex
from projections.devices.occupied import OccupiedCards
from projections.devices.pods import CardPod, ListPart, ObjectLists, PodRow, Pods, PodSurroundings
from projections.devices.shape import card_segments, claim_cards, claim_devices
from projections.devices.shared_cards import RESERVING
from projections.devices.supply import Supply
from projections.engine.changes import Changes
from projections.engine.contract import Key
from projections.engine.rows import Rows


class ClaimedPods:
    """The holdings of pods in memory by claims."""

    def __init__(self, rows: Rows, pods: Pods, around: PodSurroundings, lists: ObjectLists) -> None:
        self._rows = rows
        self._pods = pods
        self._lists = lists
        self._index = ClaimIndex(rows.reader.select)
        self._holdings = ClaimHoldings(rows, self._index, self._absent, self._span_of)
        self._cards = OccupiedCards(rows, self._index, self._holdings, pods, around)

    def open(self) -> None:
        """Take in the newest lists."""
        self._lists.open()
        self._index.open()

    def begin(self, facts: Iterable[tuple[Event, Fact]]) -> None:
        """Read at once all rows around the observed pods and claims."""
        pods: set[str] = set()
        names: dict[tuple[str, str], set[str]] = defaultdict(set)
        pools: dict[tuple[str, str], set[str]] = defaultdict(set)
        for event, fact in facts:
            if isinstance(fact, PodState):
                pods.add(fact.uid)
                if fact.claims:
                    names[event.cluster, fact.namespace].update(fact.claims)
            elif isinstance(fact, ResourceClaimState):
                names[event.cluster, fact.namespace].add(fact.name)
                if fact.is_generated and fact.owner:
                    pods.add(fact.owner.uid)
                for one in fact.allocation.results if fact.allocation else ():
                    key = (event.cluster, one.driver, one.pool, supply.DEVICE, one.device)
                    self._rows.want(supply.projection, key)
            elif isinstance(fact, ResourceSliceObserved):
                pools[event.cluster, fact.driver].add(fact.pool)
        if self._index.is_stored:
            for uid in self._index.prepare(pods, names) | self._index.prepare_pools(pools):
                self._rows.want(claim_rows, (uid,))
        self._pods.load(pods)

    def named(self, before: CardPod | None, pod: CardPod, sequence: int) -> None:
        """A pod was observed: record its named claims, and its cards shared by KAI."""
        cards = cards_of(pod) - (cards_of(before) if before else set()) if pod.cards else set()
        claims = set(pod.claims) - set(before.claims if before else ())
        if cards:
            self._index.put_pod(pod.cluster, RESERVING, sorted(cards), pod.uid, sequence)
        if claims:
            self._index.put_pod(pod.cluster, pod.namespace, sorted(claims), pod.uid, sequence)
        # The reserved part depends on more than the run: the pod's owner, and the time of its report about KAI's
        # card.
        if pod.cards or claims or before is None or _team(before) != _team(pod):
            self.moved(pod)

    def given(self, pod: CardPod, start_s: int, end_s: int | None) -> ClaimedCards:
        """The holdings of ``pod`` by claims from its start to its end."""
        if self._index.is_empty:
            return NOTHING_GIVEN
        return self._holdings.given(_span(pod, start_s, end_s))

    def moved(self, pod: CardPod) -> None:
        """Mark the cards and claims of a pod with a changed run, to derive their segments again."""
        if pod.cards or not self._index.is_empty:
            self._cards.pod_changed(pod.uid)

    def node_changed(self, key: Key, since: int) -> None:
        """The model of a node's cards changed from a second on."""
        if not self._index.is_empty:
            self._cards.node_changed(key, since)

    def namespace_changed(self, key: Key, since: int) -> None:
        """The owners of a namespace changed from a second on."""
        if not self._index.is_empty:
            self._cards.namespace_changed(key, since)

    def beside(self, known: PodRow | None, row: PodRow) -> set[str]:
        """The other pods with more or less since this one began or ended at another time."""
        if self._index.is_empty:
            return set()
        now = _span(row.pod, row.run.start_s, row.run.end_s)
        was = None if known is None else _span(known.pod, known.run.start_s, known.run.end_s)
        if was == now or (now.start_s is None and (was is None or was.start_s is None)):
            return set()
        both = [now] if was is None else [was, now]
        found = {uid for one in both for uid in self._holdings.beside(one)}
        self._pods.load(found)
        return self._holdings.together(found, both)

    def follow(self, before: Any, after: ClaimHistory | Supply, sequence: int) -> set[str]:
        """A claim or a device changed; the pods to derive again."""
        if isinstance(after, ClaimHistory):
            self._index.put_claim(after, sequence)
            found = self._holdings.of_claim(after)
            self._cards.claims_changed([after.uid])
            if before is not None and before.is_generated != after.is_generated:
                # An older version of it came late: it was another pod's, or those of its name choose anew.
                found |= self._holdings.pods_of(before)
                of_name = self._index.named(after.cluster, after.namespace, after.name)
                self._cards.claims_changed(of_name)
        else:
            found = self._holdings.of_supply(after)
            self._cards.claims_changed(self._holdings.given_of(after))
        self._pods.load(found)
        return found

    def listed(self, part: ListPart) -> set[str]:
        """A complete list of claims came; returns the pods to derive again: those of claims with news in it."""
        is_late = self._lists.add(part)
        if is_late is None:
            return set()
        query = sa.select(claims.c.uid).where(
            claims.c.vanished == 0, claims.c.cluster == part.cluster, claims.c.uid >= part.first,
            *([claims.c.uid < part.until] if part.until else []),
        )  # fmt: skip
        stored = {row[0] for row in self._rows.reader.select(query)}
        touched = self._index.changed()
        found: set[str] = set()
        covered = sorted(filter(part.covers, stored | touched))
        for uid in covered:
            self._rows.want(claim_rows, (uid,))
        self._rows.fetch()
        for uid in covered:
            claim: ClaimHistory | None = self._rows.get(claim_rows, (uid,))
            if claim is None or claim.cluster != part.cluster:
                continue
            if is_late or self._lists.may_change(claim, part):
                self._cards.claims_changed([uid])
                found |= self._holdings.of_claim(claim)
        self._pods.load(found)
        return found

    def changes(self) -> Changes:
        """Rows, and claims with rewritten rows. The next batch begins."""
        occupied, cards = self._cards.changes()
        uids, rows = self._index.changes()
        deletes: list[tuple[sa.Table, str, list[str]]] = [(claim_devices, "uid", uids)]
        deletes += [(table, "uid", occupied) for table in (card_segments, claim_cards)]
        listed = self._lists.changes()
        upserts = {**rows, **listed.upserts, **cards}
        return Changes([one for one in (*deletes, *listed.deletes) if one[2]], upserts)

    def settle(self) -> None:
        """Drop stored rows."""
        self._lists.settle()
        self._index.settle()

    def _absent(self, claim: ClaimHistory) -> tuple[int, int | None]:
        found = self._lists.absence(claim)
        return found.seen_us, found.missed_us

    def _span_of(self, uid: str) -> Span | None:
        self._pods.load([uid])
        row = self._pods.get(uid)
        if row is None:
            return None
        return _span(row.pod, row.run.start_s, row.run.end_s, row.run.unknown_s)


def _span(pod: CardPod, start_s: int | None, end_s: int | None, unknown_s: int = 0) -> Span:
    return Span(
        pod.uid, pod.cluster, pod.namespace, start_s, end_s,
        names=frozenset(pod.claims), claimed=frozenset(pod.claimed), unknown_s=unknown_s,
    )  # fmt: skip


def _team(pod: CardPod) -> str | None:
    """The team of its newest observation: claims made for it are reserved for that team."""
    team: str | None = pod.history[-1][2].team
    return team
