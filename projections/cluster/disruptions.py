"""The row of a disruption budget. Pure."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from bus.events.constraints import LabelSelector
from bus.events.pods import DisruptionBudgetObserved


class DisruptionBudget(msgspec.Struct, gc=False):
    """A disruption budget."""

    kind: ClassVar[str] = "PodDisruptionBudget"

    uid: str
    namespace: str
    name: str
    version: str
    seen_us: int
    selector: LabelSelector | None
    #: How many of its pods may go now.
    allowed: int
    disrupted: tuple[str, ...] = ()
    unkept_labels: tuple[str, ...] = ()
    #: Which pods it protects is not known.
    is_cut: bool = False
    last_us: int = 0
    listed_us: int = 0


def disruption_budget(
    fact: DisruptionBudgetObserved, time_us: int, known: DisruptionBudget | None
) -> DisruptionBudget:
    """The row of a disruption budget."""
    return DisruptionBudget(
        fact.uid, fact.namespace, fact.name, fact.resource_version, time_us, fact.selector,
        fact.allowed, fact.disrupted, fact.unkept_labels, fact.is_cut, time_us,
    )  # fmt: skip
