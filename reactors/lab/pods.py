"""Pods on record: the newest observation of each running pod, and its cores and GPUs charged by the ledger."""

from __future__ import annotations

from collections.abc import Callable

from bus.charges import charged_bytes
from bus.envelope import Event
from bus.errors import MalformedJsonError
from bus.events.pods import PodObserved, PodVanished
from bus.events.vocabulary import Fact

#: The newest observation of a pod before the played history; None = there is none.
Earlier = Callable[[str], PodObserved | None]
#: Milli-cores and milli-cards charged to a pod at a time (microseconds) by the ledger; None = it never held a node.
HeldAt = Callable[[str, int], tuple[int, int] | None]


def nobody(uid: str) -> None:
    """For a complete history: no earlier observation."""


def unbound(uid: str, at_us: int) -> None:
    """For a history without a ledger: pods count by their requests."""


class Pods:
    """The running pods of the record, updated after each event's other readers."""

    def __init__(self, earlier: Earlier, held_at: HeldAt = unbound) -> None:
        self._earlier = earlier
        self._held_at = held_at
        self._known: dict[str, PodObserved | None] = {}

    def apply(self, fact: Fact, event: Event) -> None:
        """Fold one event of the record."""
        if isinstance(fact, PodObserved):
            if fact.deletion is None and fact.phase == "Running":
                self._known[fact.uid] = fact
        elif isinstance(fact, PodVanished):
            self._known.pop(fact.uid, None)

    def of(self, uid: str) -> PodObserved | None:
        """The pod's last running observation; None without any."""
        if uid not in self._known:
            self._known[uid] = self._earlier(uid)
        return self._known[uid]

    def amounts(self, uid: str, at_us: int) -> tuple[int, int]:
        """Milli-cores and milli-cards of a pod at a time, as the ledger charges them; nothing for an unknown pod."""
        held = self._held_at(uid, at_us)
        if held is not None:
            return held
        found = self.of(uid)
        try:
            amounts = charged_bytes(bytes(found.resources)) if found is not None else None
        except MalformedJsonError:
            amounts = None
        return (amounts.cpu_millicores, amounts.gpu_milligpus) if amounts is not None else (0, 0)
