"""One pass of the culling controller over one Notebook: from its annotations and the answers to the new annotations.

The answers are arguments, although a pass asks only when it is due: :attr:`ReconcilePass.probed` lists the answers it used.

Source: docs/culling.md; culling_controller.go lines 78 to 162, and the Open Data Hub fork's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from bus.go_time import Stamp
from bus.kube.crds.culling import CHECKED_AT, LAST_ACTIVITY, STOPPED
from bus.notebooks.go_json import Kernel, all_idle, kernels_in, terminals_in
from reactors.culling.kubeflow.annotations import (
    Annotations,
    Notebook,
    is_due,
    is_idle,
    is_stopped,
    stop,
    with_annotations,
    without_bookkeeping,
)

if TYPE_CHECKING:
    from bus.notebooks.prober import ProbeResponse as Reply

#: The fork reads no more of an answer than this; the rest of a longer one is missing to the parser.
FORK_BODY_BYTES = 1 << 20

Decision = Literal["gone", "already_stopped", "no_pod", "initialised", "too_soon", "keep", "cull"]


class ReconcilePass(msgspec.Struct, frozen=True):
    """The result of one pass. ``annotations`` None = no object, or no map on it."""

    decision: Decision
    annotations: Annotations | None
    #: When the next pass is asked for; 0 = only at the next change of the object.
    requeue_seconds: int = 0
    #: URL paths in the order asked for.
    probed: tuple[str, ...] = ()
    #: Updates sent for the object, those without a change included.
    writes: int = 0


def reconcile(
    notebook: Notebook | None,
    *,
    pod_exists: bool,
    kernels: Sequence[Kernel] | None,
    idle_minutes: int,
    period_minutes: int,
    now: Stamp,
) -> ReconcilePass:
    """One pass of the controller of Kubeflow 1.8. ``now`` carries the controller's zone.

    A busy kernel is activity now; idle kernels' newest stamp replaces the stored one, older or not; anything else leaves
    it as it was, and then one failed probe is enough to cull. ``kernels`` None: the answer was not usable, or there was
    none.
    """

    def probe(notebook: Notebook) -> Annotations:
        return _activity(kernels, now)

    looked, writes = _look(notebook, pod_exists, period_minutes, now, probe)
    if isinstance(looked, ReconcilePass):
        return looked
    found, paths = looked, (_path(looked, "kernels"),)
    if is_idle(found.annotations, idle_minutes, now):
        culled = stop(found, now)
        return ReconcilePass("cull", culled.annotations, period_minutes * 60, paths, writes + 1)
    return ReconcilePass("keep", found.annotations, period_minutes * 60, paths, writes)


def reconcile_with_terminals(
    notebook: Notebook | None,
    *,
    pod_exists: bool,
    kernels: Reply | None,
    terminals: Reply | None,
    idle_minutes: int,
    period_minutes: int,
    now: Stamp,
) -> ReconcilePass:
    """One pass of the Open Data Hub fork: terminals count too, no stamp moves backwards, one update holds everything."""

    def probe(notebook: Notebook) -> Annotations:
        known = kernels_in(_cut(kernels)) or []
        changes = _activity(known, now)
        if all_idle([kernel.execution_state for kernel in known]):
            changes = _forward(notebook, changes)
        after = with_annotations(notebook, changes)
        newest = _newest(terminals_in(_cut(terminals)) or ())
        return changes | _forward(after, {LAST_ACTIVITY: newest} if newest else {})

    looked, writes = _look(notebook, pod_exists, period_minutes, now, probe)
    if isinstance(looked, ReconcilePass):
        return looked
    paths = (_path(looked, "kernels"), _path(looked, "terminals"))
    if is_idle(looked.annotations, idle_minutes, now):
        culled = with_annotations(looked, {STOPPED: now.text()})
        return ReconcilePass("cull", culled.annotations, period_minutes * 60, paths, writes)
    return ReconcilePass("keep", looked.annotations, period_minutes * 60, paths, writes)


def _look(
    notebook: Notebook | None,
    pod_exists: bool,
    period_minutes: int,
    now: Stamp,
    probe: Callable[[Notebook], Annotations],
) -> tuple[ReconcilePass | Notebook, int]:
    """The common steps of both controllers: a pass that ended early, or the notebook as probed; and updates sent."""
    if notebook is None:
        return ReconcilePass("gone", None), 0
    if is_stopped(notebook.annotations) or not pod_exists:
        why: Decision = "already_stopped" if is_stopped(notebook.annotations) else "no_pod"
        return ReconcilePass(why, without_bookkeeping(notebook).annotations, writes=1), 0
    writes = 0
    if not {LAST_ACTIVITY, CHECKED_AT} <= (notebook.annotations or {}).keys():
        notebook = with_annotations(notebook, {LAST_ACTIVITY: now.text(), CHECKED_AT: now.text()})
        writes = 1
    if not is_due(notebook.annotations, period_minutes, now):
        early: Decision = "initialised" if writes else "too_soon"
        return ReconcilePass(early, notebook.annotations, period_minutes * 60, writes=writes), 0
    changes = {**probe(notebook), CHECKED_AT: now.text()}
    return with_annotations(notebook, changes), writes + 1


def _activity(kernels: Sequence[Kernel] | None, now: Stamp) -> Annotations:
    """The annotations changed by the kernels: none if they are unknown or absent, or one has an unreadable time."""
    if not kernels:
        return {}
    if not all_idle([kernel.execution_state for kernel in kernels]):
        return {LAST_ACTIVITY: now.text()}
    newest = _newest(kernels)
    return {LAST_ACTIVITY: newest} if newest else {}


def _newest(entries: Sequence[Kernel]) -> str:
    """The newest stamp as an annotation; "" when there is none or one cannot be read."""
    stamps = [Stamp.parse(entry.last_activity) for entry in entries]
    known = [stamp for stamp in stamps if stamp is not None]
    if not known or len(known) < len(stamps):
        return ""
    # The first of equal instants, as a strict comparison finds it: its offset is the one written.
    return max(known, key=lambda stamp: stamp.ns).text()


def _forward(notebook: Notebook, changes: Annotations) -> Annotations:
    """``changes`` unless they move the stored activity backwards, or cannot be compared with it."""
    stored = Stamp.parse((notebook.annotations or {}).get(LAST_ACTIVITY, ""))
    stamp = Stamp.parse(changes.get(LAST_ACTIVITY, ""))
    if stored is None or stamp is None or stored.ns > stamp.ns:
        return {}
    return changes


def _cut(reply: Reply | None) -> Reply | None:
    return reply and msgspec.structs.replace(reply, body=reply.body[:FORK_BODY_BYTES])


def _path(notebook: Notebook, what: str) -> str:
    return f"/notebook/{notebook.namespace}/{notebook.name}/api/{what}"
