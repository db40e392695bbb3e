"""Settings of migrations. Source: docs/migration.md (Koordinator's names and defaults)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from bus.events.policies import Mode, switch
from reactors.engine.settings import Pace, ReactorPolicy
from reactors.migration.limits import Rules, bound

#: Pods, or a percentage of the replicas.
Share = Annotated[int, Field(ge=0, le=100_000)] | Annotated[str, Field(pattern="^[0-9]{1,3}%$")]


class MigrationPace(Pace):
    """Rate limits of evictions for migrations."""

    #: Of one pod in any five minutes: a disruption budget may refuse the first evictions.
    per_workload: int = Field(5, ge=0)


class MigrationPolicy(ReactorPolicy):
    """Limits of migrations: eligible pods, concurrent moves."""

    pace: MigrationPace = MigrationPace()
    #: By which release of Koordinator limits are read. ``v1.0`` rounds percentages up and lets single replicas move.
    rules: Rules = "current"
    #: Most migrations that run at once: from one node, in one namespace, and in the cluster; 0 = no limit.
    max_migrating_per_node: int = Field(2, ge=0)
    max_migrating_per_namespace: int = Field(0, ge=0)
    max_migrating_globally: int = Field(0, ge=0)
    #: Most pods of one workload that migrate at once, and that migrate or are unavailable, in pods or as a percentage. None = 10 %
    #: above 10 replicas, 2 pods from 4 replicas on, else 1.
    max_migrating_per_workload: Share | None = None
    max_unavailable_per_workload: Share | None = None
    #: Namespaces whose pods never move.
    excluded_namespaces: frozenset[str] = frozenset({"kube-system"})
    #: Pods with claims of volumes stay. Koordinator moves them; a volume may exist on one node or in one zone only.
    ignore_pvc_pods: bool = True

    @property
    def follows(self) -> frozenset[str]:
        """PodMigrationJobs: no other reactor reads them."""
        return frozenset({"PodMigrationJob"})

    def most_migrating(self, replicas: int) -> int:
        """Most pods of a workload that migrate at once."""
        return bound(replicas, self.max_migrating_per_workload, self.rules)

    def most_unavailable(self, replicas: int) -> int:
        """Most pods of a workload that migrate or are unavailable."""
        return bound(replicas, self.max_unavailable_per_workload, self.rules)


class MigrationSettings(BaseModel):
    """Settings of PodMigrationJobs: mode and policy."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: ``off``: PodMigrationJobs are left to others. ``shadow``: the next step of each is decided and recorded, and none is done.
    #: ``on``: room is reserved and pods are evicted; never beside Koordinator's descheduler.
    mode: Annotated[Mode, BeforeValidator(switch)] = "off"
    policy: MigrationPolicy = MigrationPolicy()

    def wanted(self, environment: Mapping[str, str]) -> tuple[Mode, MigrationPolicy]:
        """Mode and policy as they are set."""
        return self.mode, self.policy

    def announcement(self, mode: Mode) -> str:
        """The line of ``bursar up`` about migrations; "" while they are off."""
        return {
            "off": "",
            "shadow": "shadow: the next steps of PodMigrationJobs are decided and recorded, and none is done",
            "on": "on: PodMigrationJobs reserve room on another node, and then evict their pods",
        }[mode]
