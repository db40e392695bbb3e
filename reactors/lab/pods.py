"""Pods as the record shows them: the newest observation of each that runs, and the cores and GPUs that it is charged."""

from __future__ import annotations

from collections.abc import Callable

from bus.charges import charged_bytes
from bus.envelope import Event
from bus.errors import MalformedJsonError
from bus.events.pods import PodObserved, PodVanished
from bus.events.vocabulary import Fact

#: The newest observation of a pod before the history that is played; None = there is none.
Earlier = Callable[[str], PodObserved | None]


def nobody(uid: str) -> None:
    """Of a history that is whole."""


class Pods:
    """Fed with the record, behind those who ask."""

    def __init__(self, earlier: Earlier) -> None:
        self._earlier = earlier
        self._known: dict[str, PodObserved | None] = {}

    def apply(self, fact: Fact, event: Event) -> None:
        """Fold one event of the record."""
        if isinstance(fact, PodObserved):
            if fact.deletion is None and fact.phase == "Running":
                self._known[fact.uid] = fact
        elif isinstance(fact, PodVanished):
            self._known.pop(fact.uid, None)

    def of(self, uid: str) -> PodObserved | None:
        """The pod as it last ran; None where that was never observed."""
        if uid not in self._known:
            self._known[uid] = self._earlier(uid)
        return self._known[uid]

    def amounts(self, uid: str) -> tuple[int, int]:
        """Milli-cores and milli-GPUs of a pod, as the ledger charges them; nothing for one that is not known."""
        found = self.of(uid)
        try:
            amounts = charged_bytes(bytes(found.resources)) if found is not None else None
        except MalformedJsonError:
            amounts = None
        return (amounts.cpu_millicores, amounts.gpu_milligpus) if amounts is not None else (0, 0)
