"""The plugins by name, and the profile that places like kube-scheduler's default. A plugin is added by a line here."""

from __future__ import annotations

from reactors.scheduling.contract import Plugin
from reactors.scheduling.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from reactors.scheduling.plugins.default_preemption import DefaultPreemption
from reactors.scheduling.plugins.image_locality import ImageLocality
from reactors.scheduling.plugins.known_terms import KnownTerms
from reactors.scheduling.plugins.node_affinity import NodeAffinity
from reactors.scheduling.plugins.node_name import NodeName
from reactors.scheduling.plugins.node_ports import NodePorts
from reactors.scheduling.plugins.node_unschedulable import NodeUnschedulable
from reactors.scheduling.plugins.pod_affinity import InterPodAffinity
from reactors.scheduling.plugins.priority_sort import PrioritySort
from reactors.scheduling.plugins.resources_fit import NodeResourcesFit
from reactors.scheduling.plugins.scheduling_gates import SchedulingGates
from reactors.scheduling.plugins.taint_toleration import TaintToleration
from reactors.scheduling.plugins.topology_spread import PodTopologySpread
from reactors.scheduling.plugins.yoda import Yoda
from reactors.scheduling.plugins.yoda_sort import YodaSort
from reactors.scheduling.profiles import Enabled, Profile

#: In the order in which a profile asks them, with the weight of their scores; 0 = only where a profile names it.
PLUGINS: tuple[tuple[type[Plugin], int], ...] = (
    (KnownTerms, 1),
    (SchedulingGates, 1),
    (PrioritySort, 1),
    (NodeUnschedulable, 1),
    (NodeName, 1),
    (TaintToleration, 3),
    (NodeAffinity, 2),
    (NodePorts, 1),
    (NodeResourcesFit, 1),
    (PodTopologySpread, 2),
    (InterPodAffinity, 2),
    (DefaultPreemption, 1),
    (NodeResourcesBalancedAllocation, 1),
    (ImageLocality, 1),
    (Yoda, 0),
    (YodaSort, 0),
)


def default_profile(name: str) -> Profile:
    """Every plugin as it is by default."""
    return Profile(name, tuple(Enabled(plugin(), weight) for plugin, weight in PLUGINS if weight))
