"""Facts about priority classes: the number of each name.

Pods carry the number itself; a waiting workload has no pods yet, only the name in its templates.

Source: Kubernetes API reference, scheduling.k8s.io/v1 PriorityClass.
"""

from __future__ import annotations

from typing import ClassVar

from bus.events.vocabulary import Fact

#: Preemption policy of a class without preemption.
NEVER = "Never"


class PriorityClassObserved(Fact, frozen=True, kw_only=True):
    """A priority class was observed. Key: its name."""

    wire_type: ClassVar[str] = "priorityclass.observed"

    uid: str
    name: str
    resource_version: str
    #: Higher is more important; never changes while the class is there.
    value: int
    #: Pods without a class have this one.
    is_default: bool = False
    #: ``PreemptLowerPriority`` or :data:`NEVER`; older histories without it mean the first, Kubernetes' default.
    preemption_policy: str = "PreemptLowerPriority"


class PriorityClassVanished(Fact, frozen=True, kw_only=True):
    """A priority class was deleted. Key: its name."""

    wire_type: ClassVar[str] = "priorityclass.vanished"

    uid: str
    name: str
    resource_version: str
