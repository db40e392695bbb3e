"""The steps of training jobs: on an event about a job or its pods at once, and on every tick, as time makes steps due. Pure.

Source: docs/jobs.md; docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING

import msgspec

from bus.clock import SECOND_US
from bus.events.clock import ClockTicked
from bus.events.decisions import (
    AdoptReplica,
    CreateReplica,
    Decision,
    DeleteJob,
    DeleteReplica,
    EndPodGroup,
    KeepPodGroup,
    ReleaseReplica,
    ReportJob,
    Target,
)
from bus.events.pods import Owner
from projections.cluster import Pod, Service
from projections.cluster.held import held_milli
from reactors.engine.contract import ProposedDecision, Trigger
from reactors.jobs.orphans import takes_any
from reactors.jobs.shape import GangScheduler, GroupStep, Job, JobPass, Slot, api_of
from reactors.jobs.state import JobsState
from reactors.jobs.steps import (
    ADOPT,
    CREATE,
    DELETE,
    DELETE_JOB,
    END_GROUP,
    GROUP,
    RELEASE,
    REPORT,
    SERVICE_MISSING,
    TrackedJob,
    is_same,
    job_uid,
    service_key,
    slot_name,
)

if TYPE_CHECKING:
    # Its methods import the rules when they are asked; the test of purity looks at those by themselves.
    from reactors.jobs.settings import JobsPolicy

#: A step may be done so long after it was decided.
EXPIRES_US = 300 * SECOND_US
#: Longest run of foreign pod names skipped in a slot; with more, the slot waits until they are gone.
MOST_NAMESAKES = 100
#: The reason to delete a pod whose work restarts in its slot.
LOSING = frozenset({"failed_retryable", "suspended"})


def is_concerned(view: JobsState) -> bool:
    """Whether the newest event was about a training job."""
    return not view.touched.isdisjoint(view.jobs)


def decide(view: JobsState, trigger: Trigger, policy: JobsPolicy) -> list[ProposedDecision]:
    """The due steps without an earlier decision."""
    is_tick = isinstance(trigger.fact, ClockTicked)
    uids = sorted(view.jobs if is_tick else view.touched & view.jobs.keys())
    drafts: list[Iterator[ProposedDecision]] = []
    for uid in uids:
        found = look(view, uid, trigger.at_us, policy)
        tracked, is_on = view.jobs[uid], view.mode == "on"
        # Where each status is written, counts alone wait for the next tick.
        is_quiet = is_on and not is_tick and not _is_news(tracked, found)
        steps = _steps(view, tracked, found, trigger.at_us, is_on=is_on, is_quiet=is_quiet)
        drafts.append(steps)
    # So many are decided at once (reactors.engine.replica.MOST): no job's many steps are before the first of another.
    return [one for row in zip_longest(*drafts) for one in row if one is not None]


def look(view: JobsState, uid: str, now_us: int, policy: JobsPolicy) -> JobPass:
    """One pass over a job, by its known state."""
    return policy.reconciled(view.jobs[uid].as_reported, view.seen(uid), now_us, view.mode)


def needed(view: JobsState, uid: str, now_us: int, policy: JobsPolicy) -> JobPass:
    """The needs of a job by its observed state, including steps that are decided and not observed yet."""
    seen = msgspec.structs.replace(view.seen(uid), outstanding={})
    return policy.reconciled(view.jobs[uid].as_reported, seen, now_us, view.mode)


def _is_news(tracked: TrackedJob, found: JobPass) -> bool:
    """Whether a status says more than other counts."""
    return found.status.conditions != tracked.as_reported.status.conditions


def next_attempt(view: JobsState, tracked: TrackedJob, slot: Slot) -> tuple[str, int]:
    """The name of the slot's next pod by Bursar, and its attempt. Names of other pods are skipped."""
    first = tracked.attempts.get(slot.name, 0) + 1
    for attempt in range(first, first + MOST_NAMESAKES):
        name = f"{slot.name}-{attempt}"
        if not view.state.named(Pod.kind, tracked.job.namespace, name):
            break
    return name, attempt


def _steps(
    view: JobsState,
    tracked: TrackedJob,
    found: JobPass,
    now_us: int,
    *,
    is_on: bool,
    is_quiet: bool,
) -> Iterator[ProposedDecision]:
    job, steps, expires_us = tracked.job, tracked.steps, now_us + EXPIRES_US
    target = Target(job.kind, job.namespace, job.name, job.uid)
    if is_on:
        yield from _claims(view, tracked, found, expires_us)
        yield from _group(view, tracked, found, expires_us)
    for slot in found.creates:
        rest = tracked.rests.get(slot.type.lower())
        if rest is not None and now_us < rest.until_us:
            continue
        name, attempt = next_attempt(view, tracked, slot) if is_on else (slot.name, 0)
        if f"{CREATE}/{name}" not in steps:
            yield ProposedDecision(
                verb=CreateReplica, key=f"{job.uid}/{name}", target=target, reason="replica_missing",
                numbers={"index": slot.index}, expires_us=expires_us,
                fields={
                    "replica": name, "type": slot.type, "attempt": attempt,
                    "gang_scheduler": view.gang_scheduler if is_on else "",
                },
            )  # fmt: skip
    for slot in lone_services(view, found):
        if service_key(slot.name) not in steps:
            yield ProposedDecision(
                verb=CreateReplica, key=f"{job.uid}/{slot.name}", target=target, reason=SERVICE_MISSING,
                numbers={"index": slot.index}, expires_us=expires_us,
                fields={"replica": slot.name, "type": slot.type, "attempt": 0},
            )  # fmt: skip
    asked = set[str]()
    for removal in found.removals:
        pod = removal.pod
        # An object that is not the job's yet is never deleted for it.
        if (
            pod.owner != "self"
            or pod.is_deleting
            or pod.uid in asked
            or f"{DELETE}/{pod.uid}" in steps
        ):
            continue
        asked.add(pod.uid)
        numbers = {"restarts": pod.restarts, "replaced": tracked.replaced}
        if pod.exit_code is not None:
            numbers["exit_code"] = pod.exit_code
        known = view.state.pods.get(pod.uid)
        if known is not None and removal.reason in LOSING:
            numbers |= lost(known, held_milli(view.state, known), now_us)
        yield ProposedDecision(
            verb=DeleteReplica, key=pod.uid, reason=removal.reason, numbers=numbers,
            target=Target("Pod", job.namespace, pod.name, pod.uid, pod.node), expires_us=expires_us,
            fields={"job": job.uid, "type": pod.type, "attempt": pod.attempt},
        )  # fmt: skip
    if found.is_deleted:
        if DELETE_JOB not in steps:
            yield ProposedDecision(
                verb=DeleteJob, key=job.uid, target=target, reason="ttl_over", expires_us=expires_us,
                fields={"events": _events(found)},
            )  # fmt: skip
        return
    report = steps.get(REPORT)
    # A step that was not observed in time is decided again once the job's object or its pods change.
    missed = report.status if report is not None and report.is_missed else None
    if missed is not None and is_same(found.status, missed):
        return
    if is_quiet:
        return
    # The last decided status counts as written, even before it is observed.
    if not is_same(found.status, tracked.as_reported.status):
        yield _report(job, target, found, expires_us)


def _claims(
    view: JobsState, tracked: TrackedJob, found: JobPass, expires_us: int
) -> Iterator[ProposedDecision]:
    """Adoptions and releases of the job's objects. The operator never releases services without the labels."""
    job = tracked.job
    for verb, step, reason, those in (
        (AdoptReplica, ADOPT, "labels_match", found.adopted),
        (ReleaseReplica, RELEASE, "labels_lost", found.released),
    ):
        for one in those:
            what, _, name = one.partition(":")
            kind = Pod.kind if what == "pod" else Service.kind
            uid = view.state.named(kind, job.namespace, name)
            if uid and f"{step}/{uid}" not in tracked.steps:
                yield ProposedDecision(
                    verb=verb, key=uid, reason=reason, numbers={}, expires_us=expires_us,
                    target=Target(kind, job.namespace, name, uid),
                    fields={"owner": Owner(job.kind, job.name, job.uid)},
                )  # fmt: skip


def _group(
    view: JobsState, tracked: TrackedJob, found: JobPass, expires_us: int
) -> Iterator[ProposedDecision]:
    """The step for the job's PodGroup."""
    job, step = tracked.job, found.group
    if step is None or step.action == "keep":
        return
    api, uid = api_of(GangScheduler(view.gang_scheduler)), step.uid
    if step.action == "delete":
        if END_GROUP not in tracked.steps:
            yield ProposedDecision(
                verb=EndPodGroup, key=uid, reason="job_stopped", numbers={}, expires_us=expires_us,
                target=Target(api, job.namespace, job.name, uid), fields={"job": job.uid},
            )  # fmt: skip
    elif GROUP not in tracked.steps and not job.is_too_large:
        reason = "members_changed" if uid else "group_missing"
        yield ProposedDecision(
            verb=KeepPodGroup, key=f"{job.uid}/group", reason=reason, numbers={}, expires_us=expires_us,
            target=Target(job.kind, job.namespace, job.name, job.uid),
            fields={"api": api, "group": uid, **_terms(step)},
        )  # fmt: skip


def _terms(step: GroupStep) -> dict[str, object]:
    """The fields of a decision about a PodGroup."""
    spec = step.spec or {}
    return {
        "least": spec["min_member"], "requests": spec["min_resources_milli"], "queue": spec.get("queue", ""),
        "priority_class": spec.get("priority_class", ""), "wait_seconds": spec.get("schedule_timeout_seconds"),
    }  # fmt: skip


def lone_services(view: JobsState, found: JobPass) -> list[Slot]:
    """Missing services whose pods exist. Services of other slots are made with their pod."""
    if view.mode != "on" or not view.knows_services:
        return []
    with_pod = {slot.name for slot in found.creates}
    return [slot for slot in found.service_creates if slot.name not in with_pod]


def lost(pod: Pod, gpu_milli: int, now_us: int) -> dict[str, int]:
    """The loss by a restart of a pod: seconds, and its holdings on its node; empty without a node.

    The share saved by a checkpoint is unknown. The exact amounts are in `v1_attempts` once the pod has ended.
    """
    if not pod.node:
        return {}
    # An ended pod holds nothing since its end was observed.
    until_us = min(now_us, pod.seen_us) if pod.is_ended else now_us
    held_s = max(0, until_us - pod.started_us) // SECOND_US
    found = {
        "held_s": held_s,
        "lost_cpu_milli_s": pod.asks.get("requests.cpu", 0) * held_s,
        "lost_gpu_milli_s": gpu_milli * held_s,
    }
    # A number of the history is a signed one of 64 bits, and a pod may ask for anything.
    return {name: min(amount, 2**63 - 1) for name, amount in found.items()}


def _report(job: Job, target: Target, found: JobPass, expires_us: int) -> ProposedDecision:
    status = found.status
    counts = status.counts.values()
    return ProposedDecision(
        verb=ReportJob, key=job.uid, target=target, expires_us=expires_us,
        reason=status.conditions[-1].type.lower() if status.conditions else "counted",
        numbers={
            "active": sum(one.active for one in counts),
            "succeeded": sum(one.succeeded for one in counts),
            "failed": sum(one.failed for one in counts),
        },
        fields={
            "conditions": status.conditions, "counts": status.counts, "start_us": status.start_us,
            "completion_us": status.completion_us, "events": _events(found),
        },
    )  # fmt: skip


def _events(found: JobPass) -> tuple[str, ...]:
    """Each event once: the operator repeats the end of every pod at every pass."""
    return tuple(dict.fromkeys(found.events))


def overtaken(view: JobsState, decision: Decision, policy: JobsPolicy) -> str:
    """The reason why newer facts make a step unnecessary; "" = it is still needed."""
    tracked = view.jobs.get(job_uid(decision))
    if tracked is None:
        return "gone"
    if isinstance(decision, CreateReplica):
        if decision.reason == SERVICE_MISSING:
            if service_key(decision.replica) not in tracked.steps:
                return "service_seen"
        elif tracked.attempts.get(slot_name(decision), 0) >= decision.attempt:
            return "pod_seen"
        is_idle = tracked.as_reported.status.is_finished or tracked.job.spec.suspend
        return "job_stopped" if is_idle or tracked.job.is_deleting else ""
    if isinstance(decision, KeepPodGroup):
        return "" if GROUP in tracked.steps else "group_seen"
    if isinstance(decision, EndPodGroup):
        return "" if decision.target.uid in view.state.pod_groups else "gone"
    if isinstance(decision, AdoptReplica | ReleaseReplica):
        return _unclaimed(view, tracked, decision)
    if isinstance(decision, DeleteReplica):
        return "" if view.state.pods.get(decision.target.uid) is not None else "gone"
    if isinstance(decision, ReportJob):
        report = tracked.steps.get(REPORT)
        return "" if report is not None and report.decision == decision.id else "status_changed"
    return ""


def _unclaimed(
    view: JobsState, tracked: TrackedJob, decision: AdoptReplica | ReleaseReplica
) -> str:
    uid = decision.target.uid
    found = view.state.pods.get(uid) or view.state.services.get(uid)
    if found is None:
        return "gone"
    if isinstance(decision, ReleaseReplica):
        is_ours = found.owner is not None and found.owner.uid == tracked.job.uid
        return "" if is_ours else "released"
    if found.owner is not None:
        return "controlled"
    return "" if takes_any(tracked.job) else "job_stopped"


def managed(view: JobsState) -> int:
    """How many jobs there are."""
    return len(view.jobs)
