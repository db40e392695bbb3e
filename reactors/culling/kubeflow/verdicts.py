"""The verdict of Kubeflow's culler on a Notebook, in the words of Bursar's verdicts. Pure."""

from __future__ import annotations

from bus.clock import SECOND_US
from bus.go_time import Stamp
from bus.kube.crds.culling import LAST_ACTIVITY
from reactors.culling.fusion import Verdict
from reactors.culling.kubeflow.passes import CullerPass
from reactors.culling.policy import KubeflowRules

#: The reason of a stop by Kubeflow's rules: its last look was the probe, so there is no other.
REASON = "kubeflow_idle"


def activity_us(culler_pass: CullerPass | None, otherwise_us: int) -> int:
    """The activity stored by the culler; ``otherwise_us`` if it is absent, or unreadable for the culler."""
    stored = (
        Stamp.parse(culler_pass.annotations.get(LAST_ACTIVITY, ""))
        if culler_pass is not None
        else None
    )
    return otherwise_us if stored is None else stored.ns // 1_000


def verdict_of(
    culler_pass: CullerPass | None, rules: KubeflowRules, running_since_us: int, *, is_warned: bool
) -> Verdict:
    """Stop it or keep it; unknown where there was no pass yet, or no Notebook. A warning of other rules is taken back."""
    active_us = activity_us(culler_pass, running_since_us)
    limit_us = active_us + rules.idle_minutes * 60 * SECOND_US
    if is_warned:
        return Verdict("cancel_warning", "kubeflow", active_us, LAST_ACTIVITY, limit_us)
    if culler_pass is None or not culler_pass.decision:
        return Verdict("unknown", "no_pass", active_us, LAST_ACTIVITY, limit_us)
    if culler_pass.decision == "cull":
        return Verdict("cull", REASON, active_us, LAST_ACTIVITY, limit_us)
    return Verdict("keep", culler_pass.decision, active_us, LAST_ACTIVITY, limit_us)
