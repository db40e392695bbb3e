"""A pod's cards by Koordinator's rules: its annotation names them.

Their amount is computed from its requests, divided evenly, as Koordinator gives the same part of each card. Every
writer of pods may write the annotation: it selects the node's cards for the pod's part, and never changes the
amount. A claim's allocation is a row of the claim, and no part of this division.

Source: docs/devices.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import msgspec

from bus import strict
from bus.amounts import NANO, observed_quantity
from bus.charges import card_milli
from bus.errors import MalformedJsonError, QuantityError
from bus.events.devices import ALLOCATED, MOST_MINORS
from projections import timelines
from projections.devices.cards import HELD
from projections.devices.demand import IMPLICIT
from projections.devices.held import card_facts
from projections.devices.pods import CardPod, CardSegment, PodRow, Pods, PodSurroundings
from projections.devices.requested import CardFacts
from projections.devices.shared_cards import (
    KOORDINATOR_SHARED,
    MOST_MIB,
    RESERVING,
    memory_part,
)
from projections.devices.sizes import WHOLE
from projections.engine.changes import Columns

#: The name of a node's card, with the node's name and the card's number behind it.
POOL = "koordinator"
#: Longest uuid of a card in a row.
LONGEST_ID = 80
_MIB = 2**20 * NANO

_facts = msgspec.json.Decoder(CardFacts).decode
_texts = msgspec.json.Decoder(dict[str, str]).decode


class _Given(msgspec.Struct):
    minor: int
    id: str = ""
    resources: dict[str, str | int] = {}


class DealtCards:
    """The held rows of such cards."""

    def __init__(self, pods: Pods, around: PodSurroundings) -> None:
        self._pods = pods
        self._around = around
        self._changed: set[str] = set()

    def pod_changed(self, pod: CardPod) -> None:
        """A pod's run changed: so may what it holds of its cards."""
        if pod.namespace != RESERVING and any(ALLOCATED in text for _, _, text in pod.cards):
            self._changed.add(pod.uid)

    def changes(self) -> tuple[list[str], list[Columns]]:
        """Uids with rewritten rows, and rows."""
        changed, self._changed = sorted(self._changed), set()
        found = [row for uid in changed if (row := self._pods.get(uid)) is not None]
        return changed, [columns for row in found for columns in self._held(row)]

    def _held(self, row: PodRow) -> Iterator[Columns]:
        facts, pod = card_facts(row.pod), row.pod
        for segment in row.run.segments:
            sharing = self._around.sharing((pod.cluster, segment.node))
            # The first report counts from the start.
            later = {
                s
                for timeline in (facts, sharing)
                for s, _ in timeline[1:]
                if s > segment.start_s and _is_before(s, segment.end_s)
            }
            cuts = [segment.start_s, *sorted(later)]
            for from_s, to_s in zip(cuts, [*cuts[1:], segment.end_s], strict=True):
                reported, node = timelines.at(facts, from_s), timelines.at(sharing, from_s)
                texts = _texts(node) if node else {}
                parts = _parts(_facts(reported), pod.claimed, segment, texts) if reported else []
                for number, (one, milli, memory) in enumerate(parts):
                    yield (
                        pod.uid, number, f"{POOL}/{segment.node}/gpu-{one.minor}", HELD, pod.uid, from_s, to_s, from_s,
                        pod.cluster, pod.namespace, "", one.id[:LONGEST_ID], segment.node, segment.model, "", milli, memory, 0,
                        row.run_sequence,
                    )  # fmt: skip


def _is_before(second: int, end_s: int | None) -> bool:
    return end_s is None or second < end_s


def _parts(
    known: CardFacts, claimed: Collection[str], segment: CardSegment, node: Mapping[str, str]
) -> list[tuple[_Given, int, int]]:
    """Cards with thousandths and MiB; none if the annotation does not fit the pod's requests."""
    found = _read(known.texts.get(ALLOCATED, ""))
    by_claim = (name for name in known.requests if name in claimed or name.startswith(IMPLICIT))
    requests = known.requests | dict.fromkeys(by_claim, 0)
    by_memory = memory_part(requests, node)
    asked = card_milli(requests) if by_memory is None else by_memory.gpu_milli
    held = min(asked, segment.gpu_milli)
    most = max(-(-held // WHOLE), known.requests.get(KOORDINATOR_SHARED, 0), 1)
    if not found or len(found) > most or held > WHOLE * len(found):
        return []
    if not held and by_memory is None:
        return []
    milli = [held // len(found) + (n < held % len(found)) for n in range(len(found))]
    sizes = [min(_amount(one), MOST_MIB) for one in found]
    return list(zip(found, milli, sizes, strict=True))


def _read(text: str) -> list[_Given]:
    """The cards in a text, each once; none for an unreadable one."""
    raw = text.encode()
    try:
        given = msgspec.convert(strict.loads(raw, max_bytes=len(raw)), dict[str, list[_Given]])
    except (MalformedJsonError, msgspec.ValidationError):
        return []
    found = {one.minor: one for one in given.get("gpu", ()) if 0 <= one.minor < MOST_MINORS}
    return [found[minor] for minor in sorted(found)]


def _amount(one: _Given) -> int:
    text = str(one.resources.get("koordinator.sh/gpu-memory", 0))
    try:
        return max(observed_quantity(text) // _MIB, 0)
    except QuantityError:
        return 0
