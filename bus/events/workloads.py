"""Facts about workloads: the links of the owner chain from a pod up to what its user created.

Source: Kubernetes API reference, apps/v1 and batch/v1; ``accounting.md`` section 4 (workload).
"""

from __future__ import annotations

from typing import ClassVar

from bus.events.pods import Owner
from bus.events.vocabulary import Fact


class WorkloadObserved(Fact, frozen=True, kw_only=True):
    """A Deployment, ReplicaSet, StatefulSet, Job or CronJob was seen. Key: its uid."""

    wire_type: ClassVar[str] = "workload.observed"

    uid: str
    kind: str
    namespace: str
    name: str
    resource_version: str
    created: str | None = None
    owner: Owner | None = None
    labels: dict[str, str] = {}


class WorkloadVanished(Fact, frozen=True, kw_only=True):
    """A workload was deleted. Key: its uid."""

    wire_type: ClassVar[str] = "workload.vanished"

    uid: str
    kind: str
    namespace: str
    name: str
    resource_version: str
