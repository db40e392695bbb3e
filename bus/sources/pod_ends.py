"""The end of a pod, read from its status. Pure.

Source: Kubernetes API reference, core/v1 PodStatus; kubernetes/kubernetes, pkg/kubelet/lifecycle; docs/accounting.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from bus.clock import parse_stamp
from bus.errors import TimestampError
from bus.kube.watch import records
from bus.sources.pod_objects import ContainerStatus, PodSpec, PodStatus, State

#: Most ends of containers, and most other stamps of evidence, in one fact.
MOST_FINISHES = 64
#: Why the kubelet's admission refuses a pod: whole reasons, and how families of them begin.
REFUSALS = frozenset({
    "NodeAffinity", "UnexpectedAdmissionError", "InvalidNodeInfo", "SysctlForbidden", "AppArmor",
    "PodFeatureUnsupported", "NodeShutdown",
})  # fmt: skip
REFUSAL_FAMILIES = ("OutOf", "Topology", "PodOS")
#: Longest reason in a fact.
LONGEST_REASON = 63


def finished(spec: PodSpec, status: PodStatus) -> tuple[tuple[str, ...], bool]:
    """When its containers ended, where each proves it, and whether it is not all.

    A sidecar without a status never started. A plain init container ends before the others.
    """
    by_name = {one.name: one for one in status.container_statuses or ()}
    statuses = [by_name.get(one.name) for one in spec.containers or ()] or list(by_name.values())
    sidecars = _sidecars(spec)
    statuses += [one for one in status.init_container_statuses or () if one.name in sidecars]
    ends = [_finished_at(one) for one in statuses]
    return latest(ends) if all(ends) else ((), False)


def _sidecars(spec: PodSpec) -> set[str]:
    return {one.name for one in spec.init_containers or () if one.restart_policy == "Always"}


def _finished_at(status: ContainerStatus | None) -> str | None:
    ended = status.state.terminated if status is not None and status.state else None
    return ended.finished_at if ended is not None else None


def init_finished(spec: PodSpec, status: PodStatus) -> str | None:
    """When the last init container ended, where a plain one failed and has a stamp."""
    statuses = status.init_container_statuses or ()
    sidecars = _sidecars(spec)
    has_failed = any(
        one.name not in sidecars
        and _finished_at(one)
        and one.state is not None
        and one.state.terminated is not None
        and one.state.terminated.exit_code
        for one in statuses
    )
    ends = [found for one in statuses if (found := _finished_at(one))]
    return records.stamp(max(ends)) if has_failed else None


def ran(status: PodStatus) -> str:
    """The containers started, by their own status.

    `ContainerStatusUnknown` has no stamps. A kubelet that restarts writes it for containers of refused pods without
    a start.
    """
    if any(map(_has_run, status.container_statuses or ())):
        return "regular"
    return "init" if any(map(_has_run, status.init_container_statuses or ())) else ""


def _has_run(status: ContainerStatus) -> bool:
    state, before = status.state or State(), status.last_state or State()
    has_stamp = state.terminated and (state.terminated.started_at or state.terminated.finished_at)
    return bool(
        status.restart_count or state.running or before.running or before.terminated or has_stamp
    )


def refusal(status: PodStatus) -> str:
    """Why the kubelet's admission refused the pod; "" for another reason, and for a pod with container statuses."""
    reason = status.reason or ""
    if status.container_statuses or status.init_container_statuses:
        return ""
    is_refusal = reason in REFUSALS or reason.startswith(REFUSAL_FAMILIES)
    return reason[:LONGEST_REASON] if is_refusal else ""


def evidence(status: PodStatus) -> Iterator[str]:
    """Stamps as proofs of the pod's existence; other texts prove nothing, and stay in the cluster."""
    for text in _evidence(status):
        if text:
            with suppress(TimestampError):
                parse_stamp(text)
                yield text


def _evidence(status: PodStatus) -> Iterator[str | None]:
    for condition in status.conditions or ():
        yield condition.last_transition_time
    for one in (*(status.init_container_statuses or ()), *(status.container_statuses or ())):
        for state in (one.state, one.last_state):
            if state is None:
                continue
            if state.running is not None:
                yield state.running.started_at
            if state.terminated is not None:
                yield state.terminated.started_at
                yield state.terminated.finished_at


def latest(texts: Iterable[str | None]) -> tuple[tuple[str, ...], bool]:
    """Each stamp once, and whether it is not all: of too many the latest ones, by their text, as these decide."""
    stamps = records.unique(texts)
    if len(stamps) <= MOST_FINISHES:
        return stamps, False
    return tuple(sorted(stamps)[-MOST_FINISHES:]), True
