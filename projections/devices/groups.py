"""Cards shared by KAI: the rest beside its pods is reserved.

A pod in a namespace of its own holds the card for the scheduler; the pods on it, and this one, have the card's group as a label.

Source: docs/devices.md.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bus.sources.card_texts import GROUP
from projections import timelines
from projections.devices.cards import RESERVED, left
from projections.devices.held import card_facts
from projections.devices.holding import OPEN
from projections.devices.index import ClaimIndex
from projections.devices.pods import CardPod, PodRow, Pods, PodSurroundings
from projections.devices.requested import CardFacts
from projections.devices.shared_cards import RESERVING, shared
from projections.devices.sizes import WHOLE
from projections.engine.changes import Columns

#: Most bytes of a label: its name and its value.
LONGEST_GROUP = 400

_facts = msgspec.json.Decoder(CardFacts).decode
_texts = msgspec.json.Decoder(dict[str, str]).decode


class CardGroups:
    """The reserved rows of such cards."""

    def __init__(self, index: ClaimIndex, pods: Pods, around: PodSurroundings) -> None:
        self._index = index
        self._pods = pods
        self._around = around
        self._changed: set[tuple[str, str]] = set()

    def pod_changed(self, pod: CardPod) -> None:
        """A pod's run changed: its rest of its cards may change."""
        self._changed |= {(pod.cluster, name) for name in cards_of(pod)}

    def changes(self) -> tuple[list[str], list[Columns]]:
        """Uids with rewritten rows, and rows."""
        changed, self._changed = self._changed, set()
        uids: set[str] = set()
        rows: list[Columns] = []
        for cluster, card in sorted(changed):
            found = self._index.naming(cluster, RESERVING, card)
            self._pods.load(found)
            pods = [row for uid in sorted(found) if (row := self._pods.get(uid)) is not None]
            for row in pods:
                if row.pod.namespace == RESERVING and card in _first_cards(row.pod):
                    uids.add(row.pod.uid)
                    taken = [
                        one
                        for other in pods
                        if other.pod.namespace != RESERVING and _is_beside(row, other)
                        for one in self._held(other, card)
                    ]
                    rows += self._reserved(row, card, taken)
        return sorted(uids), rows

    def _held(self, row: PodRow, card: str) -> Iterator[tuple[int, int, int]]:
        """(from, to, milli-cards) of a pod on a card."""
        facts = card_facts(row.pod)
        for segment in row.run.segments:
            end_s = OPEN if segment.end_s is None else segment.end_s
            cuts = sorted({segment.start_s, *(s for s, _ in facts if segment.start_s < s < end_s)})
            sharing = self._around.sharing((row.pod.cluster, segment.node))
            for from_s, to_s in zip(cuts, [*cuts[1:], end_s], strict=True):
                reported = timelines.at(facts, from_s)
                known = _facts(reported) if reported else CardFacts()
                cards = _cards(known.texts)
                if card in cards:
                    node = timelines.at(sharing, from_s) or ""
                    held = shared(
                        known.requests,
                        known.texts,
                        _texts(node) if node else {},
                        slots=known.slots,
                    )
                    yield from_s, to_s, sum(one.gpu_milli for one in held.parts) // len(cards)

    def _reserved(
        self, row: PodRow, card: str, taken: list[tuple[int, int, int]]
    ) -> Iterator[Columns]:
        pod = row.pod
        for one in row.run.segments:
            end_s = OPEN if one.end_s is None else one.end_s
            for from_s, to_s, milli in left(WHOLE, taken, one.start_s, end_s):
                yield (
                    pod.uid, 0, card, RESERVED, "", from_s, None if to_s == OPEN else to_s,
                    one.start_s, pod.cluster, pod.namespace, pod.name, "", one.node, one.model, one.team,
                    milli, 0, 0, row.run_sequence,
                )  # fmt: skip


def cards_of(pod: CardPod) -> set[str]:
    """The cards ever shared with a pod by KAI, by their names there."""
    return {
        card for _, _, reported in pod.cards if reported for card in _cards(_facts(reported).texts)
    }


def _is_beside(one: PodRow, other: PodRow) -> bool:
    """Whether both held on one node at some moment: a pod may say any card, it has only those of its node."""
    return any(
        a.node == b.node
        and (b.end_s is None or a.start_s < b.end_s)
        and (a.end_s is None or b.start_s < a.end_s)
        for a in one.run.segments
        for b in other.run.segments
    )


def _first_cards(pod: CardPod) -> set[str]:
    """The card reserved by a pod: one pod is written once."""
    return set(sorted(cards_of(pod))[:1])


def _cards(texts: dict[str, str]) -> set[str]:
    found = {f"{GROUP}/{texts[GROUP]}"} if texts.get(GROUP) else set()
    found |= {name for name in texts if name.startswith(f"{GROUP}/")}
    # They become parts of keys; labels are shorter.
    return {one for one in found if len(one.encode()) <= LONGEST_GROUP}
