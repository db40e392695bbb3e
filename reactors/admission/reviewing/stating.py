"""Requirements before admission: limits that a workload must state because its quota limits the resource. Pure.

A quota of ``limits.cpu`` has no effect on containers without a limit: they may use the whole node. So they are refused,
as by Kubernetes' ResourceQuota, or charged by their requests if the quota asks for it. Existing workloads without limits
may be edited and scaled down, and may not grow.

Source: Kubernetes, "Resource Quotas" (must specify); ``docs/admission.md``.
"""

from __future__ import annotations

from bus.errors import DemandError
from bus.kube import kinds
from bus.kube.kinds import Ask
from projections.quota_trees import Tree, TreeOverlay
from reactors.admission.deciding.decide import Request, decide
from reactors.admission.deciding.messages import queued, sentence
from reactors.admission.reviewing.reading import Stored
from reactors.webhook.review import Answer, Review


def to_state(ask: Ask, review: Review, before: Stored) -> dict[str, tuple[str, ...]]:
    """The containers without a limit, as :class:`bus.kube.kinds.Ask` has them; empty if a change does not add to them."""
    if not ask.unstated or review.operation != "UPDATE":
        return ask.unstated
    if before is None or isinstance(before, DemandError):
        return ask.unstated
    is_grown = (
        ask.pods > before.pods
        or ask.labels != before.labels
        or any(amount > before.demand.get(key, 0) for key, amount in ask.demand.items())
        or bool(newly_unstated(ask, before))
    )
    return ask.unstated if is_grown else {}


def newly_unstated(ask: Ask, before: Stored) -> dict[str, tuple[str, ...]]:
    """The containers without a limit that had one before, or are new."""
    known = before.unstated if isinstance(before, Ask) else {}
    return {
        key: names for key, names in ask.unstated.items() if set(names) - set(known.get(key, ()))
    }


def waits(tree: Tree, request: Request, now_us: int, refusal: str, place: int) -> Answer:
    """The answer to a queued workload: it is charged nothing until it starts. ``request`` is its request at the start.

    A workload that could not be charged then may not wait. ``place`` 0: the workload waited before, with the same answer.
    """
    decision = decide(TreeOverlay(tree), request, now_us)
    if decision.reason == "must-specify":
        return Answer(False, decision.reason, sentence(decision, tree))
    if refusal:
        decision = decide(TreeOverlay(tree), request, now_us, refusal)
    return Answer(True, "held", warnings=(queued(decision, tree, place),) if place else ())


def is_up(scale: kinds.Scale, review: Review) -> bool:
    """Whether a scale asks for more replicas than there are, as far as it is told."""
    before = review.old_object
    return before is None or scale.replicas > kinds.scale_of(before).replicas
