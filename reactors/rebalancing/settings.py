"""Settings of rebalancing: its plugins, its limits and the pools of LowNodeLoad. Source: docs/rebalancing.md."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Percent = Annotated[float, Field(ge=0, le=100)]
Resource = Annotated[str, Field(pattern="^(cpu|memory|pods)$")]
Percents = dict[Resource, Percent]
PluginName = Literal[
    "LowNodeLoad",
    "RemovePodsViolatingNodeAffinity",
    "RemovePodsViolatingNodeTaints",
    "RemoveDuplicates",
    "RemovePodsViolatingInterPodAntiAffinity",
    "RemovePodsViolatingTopologySpreadConstraint",
    "PodLifeTime",
    "HighNodeUtilization",
]
#: In the order in which they propose. The last two propose once their limits are set.
PLUGINS: tuple[PluginName, ...] = (
    "LowNodeLoad",
    "RemovePodsViolatingNodeAffinity",
    "RemovePodsViolatingNodeTaints",
    "RemoveDuplicates",
    "RemovePodsViolatingInterPodAntiAffinity",
    "RemovePodsViolatingTopologySpreadConstraint",
    "PodLifeTime",
    "HighNodeUtilization",
)


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Pool(_Settings):
    """Nodes balanced among each other. A node belongs to the first pool selecting it."""

    name: str = Field("all", min_length=1, max_length=63)
    #: Labels of the nodes in the pool; none = every node.
    node_selector: dict[str, str] = {}
    #: A schedulable node at or below all of these is a destination; percent of allocatable.
    low: Percents = {"cpu": 45, "memory": 60}
    #: A node above any of these is a source; percent.
    high: Percents = {"cpu": 65, "memory": 80}
    #: ``low`` and ``high`` are distances from the mean use of the pool; 0 = the resource is not compared.
    deviation: bool = False
    #: The same for the use of production pods alone; none = it is not compared.
    prod_low: Percents = {}
    prod_high: Percents = {}
    #: Weights of resources in the order of nodes and pods.
    weights: dict[Resource, Annotated[int, Field(ge=0, le=1000)]] = {"cpu": 1, "memory": 1}
    #: Rounds in a row above the bounds; the round after them moves pods. 1 = the first round does.
    consecutive_abnormalities: int = Field(5, ge=1, le=100)
    #: An abnormal node is normal after more rounds in a row without excess.
    consecutive_normalities: int = Field(3, ge=1, le=100)
    #: An abnormal node is normal again after so long; seconds.
    abnormal_seconds: int = Field(60, ge=1, le=86_400)

    @model_validator(mode="after")
    def _consistent(self) -> Pool:
        for low, high in ((self.low, self.high), (self.prod_low, self.prod_high)):
            if low.keys() != high.keys():
                raise ValueError("low and high name the same resources")
            if not self.deviation and any(low[name] > high[name] for name in low):
                raise ValueError("low is at most high")
        return self


class LowNodeLoadSettings(_Settings):
    """Over- and underused nodes, by measured use."""

    pools: tuple[Pool, ...] = Field((Pool(),), min_length=1, max_length=64)
    #: Nothing is moved unless more nodes than this are underused.
    number_of_nodes: int = Field(0, ge=0)
    #: A measurement as old as this is not used; seconds.
    metric_seconds: int = Field(180, ge=1, le=86_400)

    @model_validator(mode="after")
    def _named(self) -> LowNodeLoadSettings:
        if len({one.name for one in self.pools}) < len(self.pools):
            raise ValueError("two pools have one name")
        return self


class PodLifeTimeSettings(_Settings):
    """How old a pod may be."""

    #: Older pods are proposed, the oldest first; seconds. None = no pod is too old.
    max_seconds: int | None = Field(None, ge=60)


class HighNodeUtilizationSettings(_Settings):
    """Nodes to become empty, by requests."""

    #: A schedulable node at or below all of these loses its pods; percent by resource, extended ones too.
    #: Empty = no node loses pods.
    thresholds: dict[str, Percent] = {}
    #: Nothing is moved unless more nodes than this are at or below the thresholds.
    number_of_nodes: int = Field(0, ge=0)


class RebalancingPolicy(_Settings):
    """Plugins of a round, and limits on its moves."""

    plugins: tuple[PluginName, ...] = Field(PLUGINS, min_length=1)
    #: Seconds between two rounds.
    interval_seconds: int = Field(60, ge=1, le=86_400)
    #: Most moves of one round; of one node; of one namespace; and of one workload in percent of its pods, at least one pod.
    most_moves: int = Field(20, ge=0)
    most_per_node: int = Field(2, ge=0)
    most_per_namespace: int = Field(5, ge=0)
    most_percent_of_workload: Percent = 1
    #: Namespaces of pods never to move, beside the system namespaces.
    excluded_namespaces: frozenset[str] = frozenset()
    low_node_load: LowNodeLoadSettings = LowNodeLoadSettings()
    pod_life_time: PodLifeTimeSettings = PodLifeTimeSettings()
    high_node_utilization: HighNodeUtilizationSettings = HighNodeUtilizationSettings()


class RebalancingSettings(_Settings):
    """The section ``rebalancing`` of a policy file."""

    policy: RebalancingPolicy = RebalancingPolicy()
