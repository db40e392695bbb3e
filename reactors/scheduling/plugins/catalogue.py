"""The plugins by name, and the profile that places like kube-scheduler's default. A plugin is added by a line here."""

from __future__ import annotations

from reactors.scheduling.contract import Plugin
from reactors.scheduling.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from reactors.scheduling.plugins.node_name import NodeName
from reactors.scheduling.plugins.node_unschedulable import NodeUnschedulable
from reactors.scheduling.plugins.resources_fit import NodeResourcesFit
from reactors.scheduling.profiles import Enabled, Profile

#: In the order in which a profile asks them, with the weight of their scores.
PLUGINS: tuple[tuple[type[Plugin], int], ...] = (
    (NodeUnschedulable, 1),
    (NodeName, 1),
    (NodeResourcesFit, 1),
    (NodeResourcesBalancedAllocation, 1),
)

#: The schedulerName of pods that Bursar places.
NAME = "bursar"


def default_profile(name: str = NAME) -> Profile:
    """Every plugin as it is by default."""
    return Profile(name, tuple(Enabled(plugin(), weight) for plugin, weight in PLUGINS))
