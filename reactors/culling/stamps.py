"""Kubeflow's two stamps on Notebooks: their values, and the times of their writes. Pure.

By Bursar's own rules ``last-activity`` is the newest evidence of any source, else the start of the run, and
the check stamp is the moment of the write. Both are written if either is missing. Later, they are written when the activity
moved by a minute or more (the precision of the web UI), at most once in a check period. So an unused notebook costs no write,
and one in use costs one in each period. Unknown activity is not written.

By Kubeflow's rules they equal its culler's own, at each pass; its rules read them.

On a Notebook that is stopped, or has no pod, both are removed: a restart begins a new idle period.

Source: docs/culling.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from bus.clock import SECOND_US, format_stamp
from bus.go_time import Stamp
from bus.kube.crds.culling import CHECKED_AT, LAST_ACTIVITY, STOPPED
from projections.cluster import Workload
from reactors.culling.decide import evaluated
from reactors.culling.policy import CullingPolicy
from reactors.culling.state import CullingState

#: The precision of the web UI.
VISIBLE_US = 60 * SECOND_US
#: A Notebook may be seen so long before its pod, at a first start.
GRACE_US = 60 * SECOND_US
_STAMPS = (LAST_ACTIVITY, CHECKED_AT)


class Stamping(msgspec.Struct, frozen=True):
    """The wanted stamps of one Notebook: both, or neither if ``last_activity`` is ""."""

    uid: str
    namespace: str
    name: str
    last_activity: str = ""
    checked_at: str = ""
    #: Least time between two writes (microseconds); 0 = whenever they differ.
    spacing_us: int = 0


def changes(stamping: Stamping, have: Mapping[str, str]) -> dict[str, str | None]:
    """The annotations to write on a Notebook with these; None = to remove, {} = nothing to write."""
    if not stamping.last_activity or STOPPED in have:
        return {key: None for key in _STAMPS if key in have}
    both: dict[str, str | None] = {
        LAST_ACTIVITY: stamping.last_activity,
        CHECKED_AT: stamping.checked_at,
    }
    if both.items() <= have.items():
        return {}
    if not (stamping.spacing_us and all(key in have for key in _STAMPS)):
        return both
    now, last = Stamp.parse(stamping.checked_at), Stamp.parse(stamping.last_activity)
    stored_check, stored_last = (Stamp.parse(have[key]) for key in (CHECKED_AT, LAST_ACTIVITY))
    assert now is not None and last is not None
    if stored_check is not None and 0 <= now.ns - stored_check.ns < stamping.spacing_us * 1_000:
        return {}
    if stored_last is not None and abs(last.ns - stored_last.ns) < VISIBLE_US * 1_000:
        return {}
    return both


def stampings(view: CullingState, policy: CullingPolicy, now_us: int) -> list[Stamping]:
    """Every Notebook that needs a write, by its known state."""
    known = view.state.workloads
    objects = (known[uid] for uid in view.books.uids() if uid in known)
    found = (one for notebook in objects for one in _wanted(view, policy, notebook, now_us))
    return [one for one in found if changes(one, known[one.uid].annotations)]


def _wanted(
    view: CullingState, policy: CullingPolicy, notebook: Workload, now_us: int
) -> Iterator[Stamping]:
    place = notebook.uid, notebook.namespace, notebook.name
    if policy.kubeflow is not None:
        culler_pass = view.books.named(notebook.namespace, notebook.name)
        if culler_pass is not None and culler_pass.decision:
            written = culler_pass.annotations
            yield Stamping(*place, written.get(LAST_ACTIVITY, ""), written.get(CHECKED_AT, ""))
        elif STOPPED in notebook.annotations:
            yield Stamping(*place)
        return
    pods = sorted(view.pods_below(notebook.uid))
    if STOPPED in notebook.annotations or (not pods and now_us > notebook.seen_us + GRACE_US):
        yield Stamping(*place)
        return
    seen = [uid for uid in pods if uid in view.activity and view.state.pods[uid].is_running]
    found = [evaluated(view, policy, uid, now_us).verdict for uid in seen]
    known = [verdict.last_activity_us for verdict in found if verdict.decision != "unknown"]
    if known:
        period_us = policy.check_period_seconds * SECOND_US
        yield Stamping(*place, _text(min(max(known), now_us)), _text(now_us), period_us)


def _text(us: int) -> str:
    return format_stamp(us // SECOND_US * SECOND_US)
