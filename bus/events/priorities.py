"""Facts about priority classes: what number a name stands for.

Pods carry the number itself; a workload that waits has no pods yet, only the name in its templates.

Source: Kubernetes API reference, scheduling.k8s.io/v1 PriorityClass.
"""

from __future__ import annotations

from typing import ClassVar

from bus.events.vocabulary import Fact

#: Preemption policy of a class whose pods take the room of nobody.
NEVER = "Never"


class PriorityClassObserved(Fact, frozen=True, kw_only=True):
    """A priority class was seen. Key: its name."""

    wire_type: ClassVar[str] = "priorityclass.observed"

    uid: str
    name: str
    resource_version: str
    #: Higher is more important; never changes while the class is there.
    value: int
    #: What names no class has this one.
    is_default: bool = False
    #: ``PreemptLowerPriority`` or :data:`NEVER`; histories that did not say it mean the first, Kubernetes' default.
    preemption_policy: str = "PreemptLowerPriority"


class PriorityClassVanished(Fact, frozen=True, kw_only=True):
    """A priority class was deleted. Key: its name."""

    wire_type: ClassVar[str] = "priorityclass.vanished"

    uid: str
    name: str
    resource_version: str
