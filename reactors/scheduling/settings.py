"""Settings of the scheduler: the pods that it places, and its plugins. Source: docs/scheduling.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from bus.events.policies import Mode, switch
from reactors.engine.settings import ReactorPolicy

if TYPE_CHECKING:
    from reactors.scheduling.framework.profiles import Profile


#: What metrics-server measures.
NODE_USAGE = "NodeMetrics"
#: Plugin to the kind of object that it alone reads.
_FOLLOWS = {
    "LoadAware": "NodeMetric",
    "DeviceShare": "Device",
    "NodeNUMAResource": "NodeResourceTopology",
}


class SchedulingProfile(BaseModel):
    """The plugins for the pods of one ``schedulerName``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field("bursar", pattern="^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$")
    #: Plugin to the weight of its scores, where it is another than the default; 0 = the plugin is not asked.
    weights: dict[str, int] = {}
    #: Plugin to its own fields, where they are others than the defaults.
    fields: dict[str, dict[str, Any]] = {}

    @field_validator("weights")
    @classmethod
    def _bounded(cls, weights: dict[str, int]) -> dict[str, int]:
        if any(not 0 <= weight <= 1000 for weight in weights.values()):
            raise ValueError("a weight is from 0 to 1000")
        return weights


class SchedulingPolicy(ReactorPolicy):
    """Which pods are placed, and how."""

    #: In shadow the first one stands for the schedulers that are not named.
    profiles: tuple[SchedulingProfile, ...] = Field(
        (SchedulingProfile(),), min_length=1, max_length=16
    )
    #: Most pods that one pass tries; the next one follows at once.
    most_pods: int = Field(500, ge=1, le=5000)
    #: Whether less important pods have to go for a pod that no node takes. ``shadow``: who would go is decided and recorded;
    #: ``on``: they are evicted, where scheduling is on. It ends what runs and needs the right to evict, so it is ``off`` at first.
    preemption: Annotated[Mode, BeforeValidator(switch)] = "off"

    @field_validator("profiles")
    @classmethod
    def _known(cls, profiles: tuple[SchedulingProfile, ...]) -> tuple[SchedulingProfile, ...]:
        if len({one.name for one in profiles}) < len(profiles):
            raise ValueError("two profiles have one name")
        for one in profiles:
            if one.weights or one.fields:
                _made(one)
        if len(_values_of(profiles, "Coscheduling", "rules", "current", weight=1)) > 1:
            raise ValueError(
                "the rules of Coscheduling are the same in all profiles: a gang may have pods of several"
            )
        if len(_values_of(profiles, "LoadAware", "measured_by", "koordinator")) > 1:
            raise ValueError(
                "LoadAware's measured_by is the same in all profiles: a node has one measurement"
            )
        return profiles

    @property
    def follows(self) -> frozenset[str]:
        """What nodes really use, and their devices, are followed where a profile goes by it."""
        named = {name for one in self.profiles for name, weight in one.weights.items() if weight}
        kinds = {kind for plugin, kind in _FOLLOWS.items() if plugin in named}
        if _FOLLOWS["LoadAware"] in kinds and "metrics-server" in _values_of(
            self.profiles, "LoadAware", "measured_by", ""
        ):
            kinds = kinds - {_FOLLOWS["LoadAware"]} | {NODE_USAGE}
        return frozenset(kinds)

    def made(self) -> list[Profile]:
        """The profiles with their plugins."""
        return [_made(one) for one in self.profiles]


def _values_of(
    profiles: Iterable[SchedulingProfile], plugin: str, field: str, usual: str, weight: int = 0
) -> set[str]:
    """What profiles with a plugin say in one of its fields; ``weight``: that of the plugin where a profile names none."""
    return {
        one.fields.get(plugin, {}).get(field, usual)
        for one in profiles
        if one.weights.get(plugin, weight)
    }


def _made(profile: SchedulingProfile) -> Profile:
    # Plugins compute with numpy, which takes a tenth of a second to import.
    from reactors.scheduling.plugins.catalogue import profile_of

    return profile_of(profile.name, profile.weights, profile.fields)


class SchedulingSettings(BaseModel):
    """Whether waiting pods are given nodes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: ``off``: no pod is placed. ``shadow``: where the pods of all schedulers would go is decided and recorded, nothing is done.
    #: ``on``: the pods that name one of the profiles are bound.
    mode: Annotated[Mode, BeforeValidator(switch)] = "off"
    policy: SchedulingPolicy = SchedulingPolicy()

    def wanted(self, environment: Mapping[str, str]) -> tuple[Mode, SchedulingPolicy]:
        """Mode and policy as they are set."""
        return self.mode, self.policy

    def announcement(self, mode: Mode) -> str:
        """What ``bursar up`` says of the scheduler when it starts; "" where nobody asked for it."""
        return {
            "off": "",
            "shadow": "shadow: where waiting pods would go is decided and recorded, and none is bound",
            "on": "on: pods whose schedulerName is a profile's are bound, beside kube-scheduler",
        }[mode]
