"""The plugins by name, and a profile with kube-scheduler's defaults. A plugin is added by a line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from reactors.scheduling.framework.contract import Bind, Plugin, QueueSort
from reactors.scheduling.framework.profiles import Enabled, Profile
from reactors.scheduling.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from reactors.scheduling.plugins.coscheduling import Coscheduling
from reactors.scheduling.plugins.default_binder import DefaultBinder
from reactors.scheduling.plugins.default_preemption import DefaultPreemption
from reactors.scheduling.plugins.device_share import DeviceShare
from reactors.scheduling.plugins.gpu_cards import GpuCards
from reactors.scheduling.plugins.image_locality import ImageLocality
from reactors.scheduling.plugins.known_terms import KnownTerms
from reactors.scheduling.plugins.load_aware import LoadAware
from reactors.scheduling.plugins.node_numa_resource import NodeNUMAResource
from reactors.scheduling.plugins.nodes.node_affinity import NodeAffinity
from reactors.scheduling.plugins.nodes.node_name import NodeName
from reactors.scheduling.plugins.nodes.node_ports import NodePorts
from reactors.scheduling.plugins.nodes.node_unschedulable import NodeUnschedulable
from reactors.scheduling.plugins.nodes.taint_toleration import TaintToleration
from reactors.scheduling.plugins.pod_affinity import InterPodAffinity
from reactors.scheduling.plugins.quota import Quota
from reactors.scheduling.plugins.reservation import Reservation
from reactors.scheduling.plugins.resources_fit import NodeResourcesFit
from reactors.scheduling.plugins.scheduling_gates import SchedulingGates
from reactors.scheduling.plugins.sorting.coscheduling_sort import CoschedulingSort
from reactors.scheduling.plugins.sorting.priority_sort import PrioritySort
from reactors.scheduling.plugins.sorting.yoda_sort import YodaSort
from reactors.scheduling.plugins.topology_spread import PodTopologySpread
from reactors.scheduling.plugins.volumes.node_volume_limits import NodeVolumeLimits
from reactors.scheduling.plugins.volumes.volume_binding import VolumeBinding
from reactors.scheduling.plugins.volumes.volume_restrictions import VolumeRestrictions
from reactors.scheduling.plugins.volumes.volume_zone import VolumeZone
from reactors.scheduling.plugins.yoda import Yoda

#: In the order of their calls in a profile, with the weight of their scores; 0 = only on request of a profile.
PLUGINS: tuple[tuple[type[Plugin], int], ...] = (
    (KnownTerms, 1),
    (SchedulingGates, 1),
    (Coscheduling, 1),
    (PrioritySort, 1),
    (NodeUnschedulable, 1),
    (NodeName, 1),
    (TaintToleration, 3),
    (NodeAffinity, 2),
    (NodePorts, 1),
    (NodeResourcesFit, 1),
    (VolumeRestrictions, 1),
    (NodeVolumeLimits, 1),
    (VolumeBinding, 1),
    (VolumeZone, 1),
    (PodTopologySpread, 2),
    (InterPodAffinity, 2),
    (DefaultPreemption, 1),
    (NodeResourcesBalancedAllocation, 1),
    (ImageLocality, 1),
    (Yoda, 0),
    (YodaSort, 0),
    (CoschedulingSort, 0),
    (DeviceShare, 0),
    (GpuCards, 0),
    (LoadAware, 0),
    (NodeNUMAResource, 0),
    (Quota, 0),
    (Reservation, 0),
    # It binds the pods left by all others.
    (DefaultBinder, 1),
)


def default_profile(name: str) -> Profile:
    """Every plugin with its defaults."""
    return profile_of(name, {}, {})


def profile_of(
    name: str, weights: Mapping[str, int], fields: Mapping[str, Mapping[str, Any]]
) -> Profile:
    """The plugins with other weights and fields. Raises ValueError for an unknown plugin or field."""
    known = {plugin.name for plugin, _ in PLUGINS}
    strangers = sorted({*weights, *fields} - known)
    if strangers:
        raise ValueError(f"there is no plugin {', '.join(strangers)}")
    enabled = []
    for plugin, usual in PLUGINS:
        weight, own = weights.get(plugin.name, usual), fields.get(plugin.name, {})
        if weight:
            try:
                enabled.append(Enabled(msgspec.convert(own, plugin), weight))
            except msgspec.ValidationError as error:
                raise ValueError(f"{plugin.name}: {error}") from error
            strange = sorted(set(own) - set(getattr(plugin, "__struct_fields__", ())))
            if strange:
                raise ValueError(f"{plugin.name} has no field {', '.join(strange)}")
    if sum(isinstance(one.plugin, QueueSort) for one in enabled) != 1:
        raise ValueError("exactly one plugin of a profile sorts the queue")
    # Reservation binds only reservations.
    binding = (one.plugin for one in enabled if isinstance(one.plugin, Bind))
    if all(isinstance(one, Reservation) for one in binding):
        raise ValueError("no plugin of a profile binds its pods")
    return Profile(name, tuple(enabled))
