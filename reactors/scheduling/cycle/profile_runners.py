"""The frameworks and queues of the scheduler's profiles, over the state for their plugins. Pure but for its state.

Source: Kubernetes, "Scheduling Framework"; docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from projections.cluster import ClusterState, Pod
from projections.cluster.volumes import ClaimKey
from reactors.scheduling.columns.table import Columns
from reactors.scheduling.framework.bind_plugins import BindPlugins
from reactors.scheduling.framework.context import PluginContext
from reactors.scheduling.framework.contract import (
    CountsCycles,
    ReadsQuotas,
    ReadsReservations,
    extends,
)
from reactors.scheduling.framework.profiles import Profile
from reactors.scheduling.framework.runner import Framework
from reactors.scheduling.gangs.cycles import GangCycles
from reactors.scheduling.gangs.state import Gangs
from reactors.scheduling.queueing.hints import Hint
from reactors.scheduling.queueing.queue import Queue
from reactors.scheduling.queueing.quota_state import QuotaState
from reactors.scheduling.reservations.state import Reservations
from reactors.scheduling.shape import Assumed, Dealt


class ProfileRunners:
    """The framework, the queue and the binder of each profile. ``assumed``: pods with a node ahead of the history.

    ``quotas``: makes the state of quotas, if a plugin reads it.
    """

    def __init__(
        self,
        profiles: Sequence[Profile],
        cluster: ClusterState,
        assumed: Mapping[str, Assumed],
        quotas: Callable[[], QuotaState | None],
        *,
        is_shadow: bool,
        dealt: Mapping[str, Dealt] | None,
    ) -> None:
        self._cluster, self._is_shadow = cluster, is_shadow
        plugins = [one.plugin for profile in profiles for one in profile.plugins]
        columns = Columns(cluster, dealt)
        #: The gangs of pods in these queues or on nodes.
        self.gangs = Gangs(cluster, lambda pod: bool(self.profile_of(pod)))
        if any(extends(one, CountsCycles) and one.counts_cycles for one in plugins):
            self.gangs.cycles = GangCycles(self.gangs)
        has_reservations = any(extends(one, ReadsReservations) for one in plugins)
        self.context = PluginContext(
            columns,
            self.gangs,
            quotas() if any(extends(one, ReadsQuotas) for one in plugins) else None,
            Reservations(cluster, columns, assumed) if has_reservations else None,
        )
        self.frameworks = {one.name: Framework(one, self.context) for one in profiles}
        self.binders = {
            one.name: BindPlugins(enabled.plugin for enabled in one.plugins) for one in profiles
        }
        self.queues = {
            name: Queue(one.order, one.pre_enqueue) for name, one in self.frameworks.items()
        }
        if any(one.learns for one in self.frameworks.values()):
            columns.facts.learned()

    def profile_of(self, pod: Pod) -> str:
        """The profile of a pod; "" = none."""
        for name, framework in self.frameworks.items():
            if framework.profile.takes(pod):
                return name
        return next(iter(self.frameworks)) if self._is_shadow else ""

    def pod(self, uid: str) -> Pod:
        """An existing pod, or the pod standing for a reservation. Raises KeyError without one."""
        found = self._cluster.pods.get(uid)
        if found is None and self.context.reservations is not None:
            return self.context.reservations.known.stand_in(uid)
        return self._cluster.pods[uid]

    def happened(self, hints: set[Hint], at_us: int, claims: Collection[ClaimKey] = ()) -> None:
        """Try the pods possibly helped by a change again."""
        for queue in self.queues.values() if hints else ():
            queue.happened(hints, at_us, claims)
