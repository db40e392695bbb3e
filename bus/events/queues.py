"""Facts about queues: a person's order about a workload's place.

Source: docs/queues.md.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from bus.events.vocabulary import Fact

#: Priorities allowed by Kubernetes for users' classes, either way.
MOST_PRIORITY = 10**9


class QueueOrdered(Fact, frozen=True, kw_only=True):
    """A person changed a workload's place in its queue. Key: the workload's uid. The newest order of each action holds."""

    wire_type: ClassVar[str] = "queue.ordered"

    uid: str
    #: ``move`` (to the place of ``priority``), ``hold`` (not released until this is lifted), ``release`` (lifts it).
    action: str
    #: Counts instead of its priority class, in the queue only; None takes such an order back.
    priority: Annotated[int, msgspec.Meta(ge=-MOST_PRIORITY, le=MOST_PRIORITY)] | None = None
    author: str
    reason: str = ""
