"""What may be set of evictions. Source: ``koordinator.md`` section 2.7."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from bus.events.policies import Mode
from reactors.evictions.policy import EvictionPolicy


class EvictionSettings(BaseModel):
    """Whether quotas that must give back lose pods."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: ``off``; ``shadow``: who would go is decided and recorded, nothing is done; ``on``: they are evicted.
    mode: Mode = "off"
    policy: EvictionPolicy = EvictionPolicy()
