"""A round of rebalancing on the recorded history of a cluster: reads the ledger, changes nothing."""

from __future__ import annotations

from pathlib import Path

from bus.clock import SECOND_US
from bus.errors import EnvelopeError
from deploy.queries.lab import section_of
from projections.quota_trees.queries import Select, archived
from reactors.catalogue import REACTORS
from reactors.engine.replica import Replica
from reactors.engine.snapshots import at
from reactors.rebalancing.round import Rebalancing
from reactors.rebalancing.settings import RebalancingPolicy, RebalancingSettings
from reactors.rebalancing.shape import Outcome
from reactors.scheduling import NAME as SCHEDULING
from reactors.scheduling.cycle.passes import Scheduler
from reactors.scheduling.plugins.catalogue import default_profile
from reactors.scheduling.state import SchedulingState

#: The section of a policy file.
SECTION = "rebalancing"


def proposed_rebalancing(path: Path | None) -> RebalancingPolicy:
    """The policy in a file; the default without one. Raises SettingsError naming file and line."""
    if path is None:
        return RebalancingPolicy()
    return section_of(path, SECTION, RebalancingSettings).policy


def simulated_round(
    select: Select, cluster: str, policy: RebalancingPolicy, first: int, last: int, at_us: int
) -> Outcome:
    """The round at ``at_us`` after the event ``last``. Earlier rounds are observed after ``first``."""
    rebalancing = Rebalancing(policy)
    replica = at(select, REACTORS, cluster, first)
    before = (rebalancing.rounds - 1) * policy.interval_seconds
    moments = [at_us - second * SECOND_US for second in range(before, 0, -policy.interval_seconds)]
    for part in archived(select, cluster, replica.reads, after=first, until=last, apart=False):
        for event in part:
            while moments and event.time_us > moments[0]:
                rebalancing.observe(replica.cluster_state, moments.pop(0))
            try:
                replica.apply(event)
            except EnvelopeError:
                # As live readers do: the ledger counts parked events.
                continue
    for moment in moments:
        rebalancing.observe(replica.cluster_state, moment)
    return rebalancing.plan(replica.cluster_state, _scheduler(replica, at_us), last, at_us)


def earlier_us(policy: RebalancingPolicy, at_us: int) -> int:
    """The moment of the first round that is observed for the one at ``at_us``."""
    return at_us - (Rebalancing(policy).rounds - 1) * policy.interval_seconds * SECOND_US


def _scheduler(replica: Replica, at_us: int) -> Scheduler:
    """Bursar's scheduler by the policy in force; where it places no pod, one with the plugins of kube-scheduler."""
    own = replica.states[SCHEDULING]
    assert isinstance(own, SchedulingState)
    if own.scheduler is not None:
        return own.scheduler
    scheduler = Scheduler([default_profile("bursar")], replica.cluster_state, is_shadow=True)
    scheduler.begin(at_us)
    return scheduler
