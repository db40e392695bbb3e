"""Evictions for nominated pods: one decision for each victim, until it is settled. Pure.

The interlocks and limits of the engine cut the rest off; the next tick decides anew on the remaining pods.

Source: docs/scheduling.md; docs/reliability.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bus.clock import SECOND_US
from bus.events.decisions import Decision, Evict, Target
from reactors.engine.contract import ProposedDecision, Trigger
from reactors.reclaim.disruption import covers, known

if TYPE_CHECKING:
    from reactors.scheduling.settings import SchedulingPolicy
    from reactors.scheduling.state import SchedulingState

#: The reason of an eviction for a more important pod on a node.
PREEMPTED = "pod-preempted"
#: The time from a decision to its expiry.
EXPIRES_US = 300 * SECOND_US


def decide(
    state: SchedulingState, trigger: Trigger, policy: SchedulingPolicy
) -> Sequence[ProposedDecision]:
    """The evictions for nominations, the oldest first.

    Of each nomination, or of a gang's, only victims under a disruption budget are evicted until they have ended: if one of them
    may not be evicted, the others need not be.
    """
    scheduler, drafts = state.scheduler, dict[str, ProposedDecision]()
    if scheduler is None or policy.preemption == "off":
        return ()
    nominations = scheduler.nominations
    budgets = known(scheduler.columns.facts.disruption_budgets()) if nominations.all else []
    for one, staying in nominations.staying():
        asker = state.pod(one.uid)
        if asker is None:
            continue
        covered = [pod for pod in staying if any(covers(budget, pod) for budget in budgets)]
        for pod in covered or staying:
            if pod.uid in nominations.evicting:
                continue
            drafts.setdefault(
                pod.uid,
                ProposedDecision(
                    verb=Evict,
                    key=pod.uid,
                    target=Target("Pod", pod.namespace, pod.name, pod.uid, pod.node),
                    reason=PREEMPTED,
                    numbers={"priority": pod.priority, "for_priority": asker.priority},
                    expires_us=trigger.at_us + EXPIRES_US,
                    fields={"beneficiary": f"Pod {asker.namespace}/{asker.name}"},
                    is_shadow=one.is_shadow,
                ),
            )
    return list(drafts.values())


def overtaken(state: SchedulingState, decision: Decision, policy: SchedulingPolicy) -> str:
    """The reason why newer facts make an eviction unnecessary, as a token; "" = it is still needed."""
    pod, scheduler = state.pod(decision.key), state.scheduler
    if pod is None or pod.is_ended:
        return "gone"
    if scheduler is None or policy.preemption != "on":
        return "not_wanted"
    wanting = scheduler.nominations.wanting(decision.key)
    is_wanted = any(not one.is_shadow for one in wanting)
    return "" if is_wanted else "not_wanted"


def managed(state: SchedulingState) -> int:
    """The number of pods with a node."""
    return int(state.scheduler.columns.pods.sum()) if state.scheduler is not None else 0
