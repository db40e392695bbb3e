"""Who held what, from when to when? Pods by uid, their held segments, their waiting and their unknown time.

``shape`` has the rows, ``fold`` what is observed of one pod, ``derive`` the run that follows, ``ends`` when it ended,
``lists`` what complete lists say of pods that were not seen to end, ``derivation`` which runs a ledger derives again, and when.

Source: docs/accounting.md, the heart of the ledger.
"""

from projections.pod_runs.blocks import blocks, is_one_day, longer
from projections.pod_runs.derive import NOBODY, UNASSIGNED, derive, idle_for
from projections.pod_runs.ends import Absence
from projections.pod_runs.fold import fold, is_same_run
from projections.pod_runs.list_rows import pod_beats, pod_lists
from projections.pod_runs.shape import (
    Above,
    Idle,
    Pod,
    PodRun,
    Run,
    Segment,
    codec,
    held_segments,
    pod_runs,
    segment_columns,
    stored,
)

__all__ = [
    "NOBODY",
    "UNASSIGNED",
    "Above",
    "Absence",
    "Idle",
    "Pod",
    "PodRun",
    "Run",
    "Segment",
    "blocks",
    "codec",
    "derive",
    "fold",
    "held_segments",
    "idle_for",
    "is_one_day",
    "is_same_run",
    "longer",
    "pod_beats",
    "pod_lists",
    "pod_runs",
    "segment_columns",
    "stored",
]
