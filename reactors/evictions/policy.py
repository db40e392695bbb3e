"""What may be set of evictions. Source: docs/queues.md (Koordinator's names and defaults)."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

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
