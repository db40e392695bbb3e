"""Scheduling profiles: the plugins for a pod, with their order and weights."""

from __future__ import annotations

import msgspec

from bus.events.constraints import DEFAULT_SCHEDULER
from projections.cluster import Pod
from reactors.scheduling.framework.contract import Plugin


class Enabled(msgspec.Struct, frozen=True):
    """A plugin of a profile. Only scores have a weight."""

    plugin: Plugin
    weight: int = 1


class Profile(msgspec.Struct, frozen=True):
    """The plugins for the pods of one ``schedulerName``, in the order of their calls."""

    name: str
    plugins: tuple[Enabled, ...]
    #: Of several best nodes the first is taken, in the order of uids; else one by a seed of pod and history.
    takes_first: bool = False

    def takes(self, pod: Pod) -> bool:
        """Whether a pod names this profile."""
        named = pod.constraints.scheduler_name if pod.constraints else ""
        return (named or DEFAULT_SCHEDULER) == self.name
