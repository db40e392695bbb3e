"""Settings of evictions. Source: docs/queues.md (Koordinator's names and defaults)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from bus.events.policies import Mode, switch
from reactors.engine.settings import ReactorPolicy


class EvictionPolicy(ReactorPolicy):
    """When a quota has to give back. That a budget's grace is over always counts: its quota asks for it."""

    #: Elastic quotas that use more than their share give back. Off as in Koordinator: a cluster whose shares were never held
    #: to would lose much of what runs.
    monitor_all_quotas: bool = False
    #: Pods of lower priority make room in their own quota for a workload of higher priority that was refused, or waits. ``off``;
    #: ``shadow``: who would go is decided and recorded, also where evictions are on; ``on``: they go where evictions are on.
    preemption: Annotated[Mode, BeforeValidator(switch)] = "shadow"
    #: So long a quota must have been over its share, without a moment within; seconds.
    delay_evict_seconds: int = Field(120, ge=0)


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

    def announcement(self, mode: Mode) -> str:
        """What ``bursar up`` says of evictions when it starts: what becomes of pods that a quota must give back."""
        return {
            "off": "off: no quota gives pods back",
            "shadow": "shadow: who would have to go is decided and recorded, and no pod is touched",
            "on": "on: where a budget's grace is over, and where quotas are monitored, pods are evicted",
        }[mode]
