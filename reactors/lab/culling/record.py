"""Recorded decisions of culling, with their outcomes. Pure but for its own state."""

from __future__ import annotations

from bus.events.decisions import Cull, Decision, EffectSettled, NoticeSettled
from bus.events.policies import PolicyChanged
from bus.events.vocabulary import Fact
from reactors.culling.state import NAME


class Record:
    """The recorded decisions by id, and the stop of each pod, done or under way."""

    def __init__(self) -> None:
        self.decisions: dict[str, Decision] = {}
        self._stops: dict[str, Decision] = {}

    def apply(self, fact: Fact) -> bool:
        """Fold one fact. Returns whether it belongs to the recorded culling, as the trial makes those decisions anew."""
        if isinstance(fact, Decision) and fact.reactor == NAME:
            self.decisions[fact.id] = fact
            if isinstance(fact, Cull) and not fact.is_shadow:
                self._stops[fact.key] = fact
            return True
        if isinstance(fact, EffectSettled | NoticeSettled) and fact.decision in self.decisions:
            decision = self.decisions[fact.decision]
            is_undone = isinstance(fact, EffectSettled) and fact.result != "done"
            if is_undone and self._stops.get(decision.key) is decision:
                del self._stops[decision.key]
            return True
        return isinstance(fact, PolicyChanged) and fact.reactor == NAME

    def stop_of(self, uid: str) -> Decision | None:
        """The stop of a pod."""
        return self._stops.get(uid)

    def forget(self, uid: str) -> None:
        """Forget a deleted pod."""
        self._stops.pop(uid, None)
