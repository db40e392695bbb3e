"""The ticks at which a policy could decide anything about a notebook. The culling reactor decides at these ticks only.

A month has a quarter of a million ticks, and at nearly all of them a notebook is kept. The newest verdict implies a moment, and
the notebook is kept until then. Activity makes the moment later. A changed pod, controller or namespace re-evaluates the notebook
at the next tick. A probe does so for a notebook without readable evidence.

Source: :mod:`reactors.culling.fusion` has the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from bus.clock import SECOND_US
from projections.cluster.objects import Change
from projections.cluster.rows import Namespace, Pod, Workload
from reactors.culling.decide import Evaluation, decide_on, evaluated
from reactors.culling.fusion import last_activity
from reactors.culling.policy import CullingPolicy
from reactors.culling.state import CullingState
from reactors.engine.contract import ProposedDecision, Trigger

#: Later than any moment.
NEVER_US = 2**62


class DueNotebooks:
    """The culling reactor's decisions, computed only for notebooks possibly due."""

    def __init__(self) -> None:
        #: By pod uid: the moment before which the only decision is "keep".
        self._kept_until_us: dict[str, int] = {}
        #: Notebooks without readable evidence until their next probe.
        self._unknown: set[str] = set()
        #: The earliest of these moments; 0 = some notebook was not evaluated yet.
        self.next_us = 0

    def looked(self, uid: str) -> None:
        """Record a probe of a notebook."""
        if uid not in self._kept_until_us or uid in self._unknown:
            self._forget(uid)

    def changed(self, view: CullingState, changes: Sequence[Change]) -> None:
        """The cluster changed."""
        for change in changes:
            row = change.after or change.before
            found: Iterable[str] = ()
            if isinstance(row, Pod):
                found = (row.uid,)
            elif isinstance(row, Workload):
                found = view.pods_below(row.uid)
            elif isinstance(row, Namespace):
                found = [pod.uid for pod in view.pods() if pod.namespace == row.name]
            for uid in found:
                if uid in view.activity:
                    self._forget(uid)

    def decide(
        self, view: CullingState, trigger: Trigger, policy: CullingPolicy
    ) -> list[ProposedDecision]:
        """The decisions at one tick, as made by :func:`reactors.culling.decide.decide`."""
        known, now_us = self._kept_until_us, trigger.at_us
        notebooks = view.notebooks
        due = [uid for uid in notebooks if known.get(uid, 0) <= now_us]
        found = decide_on(view, trigger, policy, due)
        for uid in due:
            known[uid] = self._until_us(view, policy, uid, now_us)
        self.next_us = min((known[uid] for uid in notebooks), default=NEVER_US)
        return found

    def _forget(self, uid: str) -> None:
        self._kept_until_us.pop(uid, None)
        self._unknown.discard(uid)
        self.next_us = 0

    def _until_us(self, view: CullingState, policy: CullingPolicy, uid: str, now_us: int) -> int:
        """The moment up to which the only decision is "keep"; 0 = a stop is possible now."""
        if uid in view.warned or uid in view.awaited or policy.kubeflow is not None:
            return 0
        found = evaluated(view, policy, uid, now_us)
        limits, started_us = found.limits, found.pod.started_us
        if found.verdict.reason == "exempt":
            return NEVER_US
        if found.verdict.reason == "keep_until":
            return limits.keep_until_us or 0
        if found.verdict.reason == "min_running":
            return started_us + limits.min_running_seconds * SECOND_US
        until_us = _idle_us(found)
        if limits.max_age_seconds is not None:
            until_us = min(until_us, started_us + limits.max_age_seconds * SECOND_US)
        if until_us > now_us:
            return until_us
        if found.verdict.decision != "unknown":
            return 0
        # Evidence only grows older until the next probe.
        self._unknown.add(uid)
        return NEVER_US


def _idle_us(found: Evaluation) -> int:
    """The earliest moment at which the notebook can be idle, whatever is observed later."""
    # A starting notebook counts as active for a while only.
    limits = msgspec.structs.replace(found.limits, starting_grace_seconds=0)
    readable = [
        one
        for one in found.samples
        if one.outcome == "ok" and one.observed_us >= found.pod.started_us
    ]
    active_us, _ = last_activity(readable, found.pod.started_us, limits)
    return active_us + min(limits.idle_seconds, limits.presence_seconds) * SECOND_US
