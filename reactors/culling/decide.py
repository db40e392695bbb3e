"""The culling reactor: at every tick, decides warnings, withdrawals of warnings, stops and restores.

The verdict is :func:`reactors.culling.fusion.evaluate`'s. If the policy asks for Kubeflow's rules, it is its culler's
(:mod:`reactors.culling.kubeflow`), and stops come without a warning. This module adds the conditions around it:

- A stop needs an earlier warning on the object, even with a warning time of zero. The API server accepted that warning, so
  its clock has confirmed ours (:mod:`reactors.culling.effectors`).
- After a decision about a pod, the next one waits for its outcome. After a refusal it rests ten minutes.
- Pods with an unknown controller, or with one that controls other pods, too, are never stopped.
- A decision is valid as long as its evidence. Newer activity, an exemption or a snooze overtakes it.

Stops come before warnings, the longest idle first, so limits postpone the least idle.

Source: docs/architecture.md; docs/culling.md; docs/reliability.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from bus.clock import SECOND_US, parse_stamp
from bus.errors import TimestampError
from bus.events.decisions import Cull, Decision, Restore, Target, Warn, Withdraw
from bus.kube.crds.culling import SNOOZED_UNTIL
from projections.cluster import Pod, Workload
from reactors.culling.evidence import samples_of
from reactors.culling.fusion import Reason, Sample, Verdict, Warned, evaluate, last_activity
from reactors.culling.kubeflow.verdicts import activity_us, verdict_of
from reactors.culling.policy import CullingPolicy, KubeflowRules, Limits, NotebookSubject, limits_of
from reactors.culling.state import NOTEBOOK, ActiveWarning, CullingState
from reactors.engine.contract import ProposedDecision, Rest, Trigger

#: A restore may be done so long after it was asked for.
RESTORE_US = 3_600 * SECOND_US

_VERBS: dict[str, type[Decision]] = {"warn": Warn, "cancel_warning": Withdraw, "cull": Cull}
_ORDER = ("cull", "cancel_warning", "warn")


class Evaluation(msgspec.Struct, frozen=True):
    """A notebook, its limits, and the verdict on it at one moment."""

    pod: Pod
    limits: Limits
    samples: list[Sample]
    verdict: Verdict
    warned: Warned | None
    #: The newest deciding evidence; 0 = none.
    known_us: int

    @property
    def culls_us(self) -> int:
        """The time of its stop without further activity: by its warning, else by its limit and a whole warning."""
        warning_us = self.limits.warning_seconds * SECOND_US
        if self.warned is None:
            return self.verdict.idle_limit_us + warning_us
        return max(self.warned.at_us + warning_us, self.warned.snoozed_until_us or 0)


def evaluated(view: CullingState, policy: CullingPolicy, uid: str, now_us: int) -> Evaluation:
    """The verdict on the notebook ``uid`` at ``now_us``. It must be among ``view.notebooks``."""
    pod = view.state.pods[uid]
    annotations = view.annotations(pod)
    if policy.kubeflow is not None and (notebook := _notebook(view, pod)) is not None:
        annotations |= notebook.annotations
    image = view.images.get(uid, "")
    limits = limits_of(policy, NotebookSubject(pod.namespace, view.team(pod), image, annotations))
    samples = samples_of(view.activity[uid])
    standing = view.warned.get(uid)
    warned = None
    if standing is not None:
        reason: Reason = "idle" if standing.decision.reason == "idle" else "max_age"
        warned = Warned(standing.at_us, reason, _snoozed_us(annotations))
    if policy.kubeflow is not None:
        return _by_kubeflow(view, policy.kubeflow, pod, limits, samples, standing, now_us)
    verdict = evaluate(
        samples,
        running_since_us=pod.started_us,
        warned=warned,
        limits=limits,
        now_us=now_us,
    )
    return Evaluation(pod, limits, samples, verdict, warned, _known_us(samples, limits))


def _known_us(samples: list[Sample], limits: Limits) -> int:
    return max(
        (
            sample.observed_us
            for sample in samples
            if sample.outcome == "ok" and sample.source not in limits.supporting_sources
        ),
        default=0,
    )


def _by_kubeflow(
    view: CullingState,
    rules: KubeflowRules,
    pod: Pod,
    limits: Limits,
    samples: list[Sample],
    standing: ActiveWarning | None,
    now_us: int,
) -> Evaluation:
    """The verdict of Kubeflow's culler. An owner's exemption counts here, too; Kubeflow's own users have none."""
    culler_pass = view.books.of(pod.namespace, pod.name)
    found = verdict_of(culler_pass, rules, pod.started_us, is_warned=standing is not None)
    if limits.exempt and found.decision == "cull":
        found = msgspec.structs.replace(found, decision="keep", reason="exempt")
    limits = msgspec.structs.replace(
        limits, idle_seconds=rules.idle_minutes * 60, warning_seconds=0
    )
    looked_us = (
        now_us if standing is not None else culler_pass.looked_us if culler_pass is not None else 0
    )
    return Evaluation(pod, limits, samples, found, None, looked_us)


def decide(view: CullingState, trigger: Trigger, policy: CullingPolicy) -> list[ProposedDecision]:
    """The decisions at one tick. At most one draft for each notebook."""
    return decide_on(view, trigger, policy, view.notebooks)


def decide_on(
    view: CullingState, trigger: Trigger, policy: CullingPolicy, notebooks: Sequence[str]
) -> list[ProposedDecision]:
    """The decisions at one tick about these notebooks alone."""
    found = [_restored(id, cull, trigger) for id, cull in view.restores.items()]
    drafts = [draft for uid in notebooks for draft in _drafts(view, trigger, policy, uid)]
    drafts.sort(key=lambda one: (_rank(one), one.numbers["last_activity_us"], one.key))
    return found + drafts


def _rank(draft: ProposedDecision) -> int:
    return next(n for n, decision in enumerate(_ORDER) if _VERBS[decision] is draft.verb)


def _drafts(
    view: CullingState, trigger: Trigger, policy: CullingPolicy, uid: str
) -> Iterator[ProposedDecision]:
    if not _waits(view, trigger, uid).reason:
        yield from _due(view, trigger, policy, uid)


def rests(view: CullingState, trigger: Trigger, policy: CullingPolicy) -> Iterator[Rest]:
    """Due decisions that wait for an outcome, rest after a refusal, or lack evidence or an object to stop."""
    for uid in view.notebooks:
        waits = _waits(view, trigger, uid)
        if waits.reason:
            due = _due(view, trigger, policy, uid)
            yield from (Rest(draft, waits.reason, waits.until_us) for draft in due)
        else:
            yield from _unable(view, trigger, policy, uid)


def _unable(
    view: CullingState, trigger: Trigger, policy: CullingPolicy, uid: str
) -> Iterator[Rest]:
    pod = view.state.pods[uid]
    if not pod.is_running or uid in view.stopped:
        return
    found = evaluated(view, policy, uid, trigger.at_us)
    verdict = found.verdict
    is_idle = trigger.at_us >= verdict.idle_limit_us
    verb = _VERBS.get(verdict.decision)
    if verb is None and (verdict.decision != "unknown" or not is_idle):
        return
    target = _target(view, policy, pod)
    if target is None or verb is None:
        reason = "no_target" if target is None else verdict.reason
        target = target or Target("Pod", pod.namespace, pod.name, pod.uid, pod.node)
        yield Rest(_draft(found, uid, verb or Warn, target), reason)


class _Waits(msgspec.Struct, frozen=True):
    """The reason to decide nothing about a notebook now; ``reason`` "" = decisions are allowed."""

    reason: str = ""
    until_us: int = 0


def _waits(view: CullingState, trigger: Trigger, uid: str) -> _Waits:
    if uid in view.awaited:
        return _Waits("outstanding")
    until_us = view.rests_until_us.get(uid, 0)
    return _Waits("refused", until_us) if until_us > trigger.at_us else _Waits()


def _due(
    view: CullingState, trigger: Trigger, policy: CullingPolicy, uid: str
) -> Iterator[ProposedDecision]:
    pod = view.state.pods[uid]
    if not pod.is_running:
        return
    found = evaluated(view, policy, uid, trigger.at_us)
    verdict = found.verdict
    stop = view.stopped.get(uid)
    if stop is not None and verdict.last_activity_us <= stop.at_us:
        return
    verb = _VERBS.get(verdict.decision)
    target = _target(view, policy, pod) if verb is not None else None
    if verb is not None and target is not None:
        yield _draft(found, uid, verb, target)


def _draft(found: Evaluation, uid: str, verb: type[Decision], target: Target) -> ProposedDecision:
    verdict, limits = found.verdict, found.limits
    return ProposedDecision(
        verb=verb,
        key=uid,
        target=target,
        reason=verdict.reason,
        numbers={
            "last_activity_us": verdict.last_activity_us,
            "running_since_us": found.pod.started_us,
            "known_us": found.known_us,
            "idle_limit_us": verdict.idle_limit_us,
            "idle_seconds": limits.idle_seconds,
            "warning_seconds": limits.warning_seconds,
            "warned_us": found.warned.at_us if found.warned else 0,
        },
        expires_us=found.known_us + limits.fresh_seconds * SECOND_US,
    )


def _target(view: CullingState, policy: CullingPolicy, pod: Pod) -> Target | None:
    """The object to stop for a pod. By Kubeflow's rules it is the Notebook of the pod's name, whatever else controls the pod.
    A warning is withdrawn from the object with the warning.
    """
    if policy.kubeflow is None:
        return view.target(pod)
    if pod.uid in view.warned:
        return view.warned[pod.uid].decision.target
    notebook = _notebook(view, pod)
    if notebook is None:
        return None
    return Target(NOTEBOOK, notebook.namespace, notebook.name, notebook.uid, pod.node)


def _notebook(view: CullingState, pod: Pod) -> Workload | None:
    """The Notebook of the pod's name."""
    culler_pass = view.books.of(pod.namespace, pod.name)
    return view.state.workloads.get(culler_pass.uid) if culler_pass is not None else None


def _restored(id: str, cull: Decision, trigger: Trigger) -> ProposedDecision:
    return ProposedDecision(
        verb=Restore,
        key=id,
        target=cull.target,
        reason="asked",
        expires_us=trigger.at_us + RESTORE_US,
    )


def overtaken(view: CullingState, decision: Decision, policy: CullingPolicy) -> str:
    """The reason why newer facts make a decision wrong; "" = it is still right."""
    if decision.is_asked or isinstance(decision, Withdraw):
        return ""
    uid = decision.key
    if view.pod(uid) is None or uid not in view.activity:
        return "gone"
    pod = view.state.pods[uid]
    now = evaluated(view, policy, uid, max(decision.at_us, view.activity[uid].observed_us))
    if now.limits.exempt:
        return "exempt"
    if policy.kubeflow is not None:
        return _overtaken_by_kubeflow(view, policy, pod, decision)
    if isinstance(decision, Cull) and _snoozes(view, pod, decision, now.limits):
        return "snoozed"
    known = [one for one in now.samples if one.observed_us >= pod.started_us]
    readable = [one for one in known if one.outcome == "ok"]
    active_us, _ = last_activity(readable, pod.started_us, now.limits)
    if decision.reason == "idle" and active_us > decision.numbers["last_activity_us"]:
        return "active"
    if now.verdict.decision == "unknown":
        return now.verdict.reason
    return "" if _is_same(view.target(pod), decision.target) else "target_changed"


def _overtaken_by_kubeflow(
    view: CullingState, policy: CullingPolicy, pod: Pod, decision: Decision
) -> str:
    culler_pass = view.books.of(pod.namespace, pod.name)
    before_us = decision.numbers["last_activity_us"]
    if activity_us(culler_pass, before_us) > before_us:
        return "active"
    return "" if _is_same(_target(view, policy, pod), decision.target) else "target_changed"


def _snoozes(view: CullingState, pod: Pod, decision: Decision, limits: Limits) -> bool:
    until_us = _snoozed_us(view.annotations(pod)) or 0
    cap_us = limits.warning_seconds + limits.snooze_cap_seconds
    return decision.at_us < min(until_us, decision.numbers["warned_us"] + cap_us * SECOND_US)


def _is_same(target: Target | None, other: Target) -> bool:
    return target is not None and (target.kind, target.uid) == (other.kind, other.uid)


def _snoozed_us(annotations: dict[str, str]) -> int | None:
    """The end of the owner's snooze; None if there is none, or it is unreadable."""
    try:
        return parse_stamp(annotations[SNOOZED_UNTIL])
    except (KeyError, TimestampError):
        return None


def managed(view: CullingState) -> int:
    """How many notebooks there are."""
    return sum(view.pod(uid) is not None for uid in view.activity)
