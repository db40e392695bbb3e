"""The claims of a placed pod, until it is bound. Pure.

A pod whose volume is being created on its node keeps the node, for as long as kube-scheduler would let it.

Source: Kubernetes, "Storage Classes", "Volume Binding Mode"; docs/scheduling.md.
"""

from __future__ import annotations

from bus.clock import SECOND_US
from projections.cluster import Pod
from projections.cluster.volumes import claims_of
from reactors.scheduling.columns.volumes import Volumes
from reactors.scheduling.framework.contract import Cycle
from reactors.scheduling.framework.runner import Framework
from reactors.scheduling.plugins.volumes.volume_binding import VolumeBinding
from reactors.scheduling.plugins.volumes.volume_zone import VolumeZone

#: The time for a placed pod with unbound claims to keep its node.
LONGEST_US = 600 * SECOND_US
#: Plugins for the nodes with access to a volume.
REACHING = (VolumeBinding.name, VolumeZone.name)


def bindable_us(volumes: Volumes, pod: Pod, at_us: int) -> int:
    """The time since when a pod may be bound by the state of its claims: the newest claim's observation; ``at_us`` = not yet."""
    if volumes.unbound(pod):
        return at_us
    claims = [volumes.claim(*key) for key in claims_of(pod)]
    return max((one.seen_us for one in claims if one is not None), default=0)


def settled(framework: Framework, cycle: Cycle, row: int, waited_us: int) -> str:
    """The reason why a pod must not be bound to its node any more, as a token; "" = it may, or waits for its claims."""
    volumes, pod = cycle.columns.volumes, cycle.pod
    if framework.filtering.keeps_away(cycle, row):
        return "node_cordoned"
    claims = [volumes.claim(*key) for key in claims_of(pod)]
    if any(one is None or one.is_lost or one.is_terminating for one in claims):
        return "claim_gone"
    if volumes.unbound(pod):
        return "claims_not_bound" if waited_us > LONGEST_US else ""
    # A created volume may be elsewhere.
    is_away = bool(claims) and framework.filtering.keeps_away(cycle, row, REACHING)
    return "volume_not_reached" if is_away else ""
