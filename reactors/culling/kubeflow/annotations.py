"""The three annotations of a Notebook that the culler reads and writes.

Source: docs/culling.md; culling_controller.go lines 50 to 52.
"""

from __future__ import annotations

import msgspec

from bus.go_time import MINUTE_NS, YEAR_ONE, Stamp
from bus.kube.crds.culling import CHECKED_AT, LAST_ACTIVITY, STOPPED

Annotations = dict[str, str]


class Notebook(msgspec.Struct, frozen=True):
    """A Notebook object. ``annotations`` None = the object has no annotation map."""

    namespace: str
    name: str
    annotations: Annotations | None = None


def is_stopped(annotations: Annotations | None) -> bool:
    """Whether the stop key is there, with any value, even an empty one."""
    return annotations is not None and STOPPED in annotations


def stop(notebook: Notebook, now: Stamp) -> Notebook:
    """The notebook with the stop key set to ``now``."""
    return with_annotations(notebook, {STOPPED: now.text()})


def is_idle(annotations: Annotations | None, idle_minutes: int, now: Stamp) -> bool:
    """Whether ``now`` is past the stored activity by more than the limit; exactly at it is not.

    False as well when it is stopped, or when the stored activity is absent or unreadable.
    """
    if annotations is None or is_stopped(annotations):
        return False
    stored = Stamp.parse(annotations.get(LAST_ACTIVITY, ""))
    return stored is not None and now.ns > stored.ns + idle_minutes * MINUTE_NS


def is_due(annotations: Annotations | None, period_minutes: int, now: Stamp) -> bool:
    """Whether more than a period went by since the stored check; an unreadable stamp is year 1, hence due."""
    if annotations is None or CHECKED_AT not in annotations:
        return False
    stored = Stamp.parse(annotations[CHECKED_AT]) or YEAR_ONE
    return stored.ns + period_minutes * MINUTE_NS < now.ns


def with_annotations(notebook: Notebook, changes: Annotations) -> Notebook:
    """The notebook with these annotations set."""
    return msgspec.structs.replace(
        notebook, annotations={**(notebook.annotations or {}), **changes}
    )


def without_bookkeeping(notebook: Notebook) -> Notebook:
    """The notebook without the culler's two stamps; a missing map stays missing."""
    if notebook.annotations is None:
        return notebook
    kept = {k: v for k, v in notebook.annotations.items() if k not in (LAST_ACTIVITY, CHECKED_AT)}
    return msgspec.structs.replace(notebook, annotations=kept)
