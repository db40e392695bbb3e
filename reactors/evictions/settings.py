"""What may be set of evictions. Source: docs/queues.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict

from bus.events.policies import Mode, switch
from reactors.evictions.policy import EvictionPolicy


class EvictionSettings(BaseModel):
    """Whether quotas that must give back lose pods."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: ``off``: nothing is decided. ``shadow``: who would go is decided and recorded, nothing is done. ``on``: they are
    #: evicted.
    mode: Annotated[Mode, BeforeValidator(switch)] = "shadow"
    policy: EvictionPolicy = EvictionPolicy()

    def wanted(self, environment: Mapping[str, str]) -> tuple[Mode, EvictionPolicy]:
        """Mode and policy as they are set."""
        return self.mode, self.policy

    def told(self, mode: Mode) -> str:
        """What ``bursar up`` says of evictions when it starts: what becomes of pods that a quota must give back."""
        return {
            "off": "off: no quota gives pods back",
            "shadow": "shadow: who would have to go is decided and recorded, and no pod is touched",
            "on": "on: where a budget's grace is over, and where quotas are monitored, pods are evicted",
        }[mode]
