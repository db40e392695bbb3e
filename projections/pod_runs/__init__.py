"""Who held what, from when to when? Pods by uid, their held segments, their waiting and their unknown time.

``shape`` has the rows, ``fold`` what is observed of one pod, ``derive`` the run that follows, ``lists`` what complete
lists say of pods that were not seen to end, ``derivation`` which runs a ledger derives again, and when.

Source: docs/accounting.md, the heart of the ledger.
"""

from projections.pod_runs.derive import UNASSIGNED, Absence, derive
from projections.pod_runs.fold import fold, is_same_run
from projections.pod_runs.shape import (
    Above,
    Pod,
    PodRun,
    Run,
    Segment,
    codec,
    held_segments,
    pod_beats,
    pod_lists,
    pod_runs,
    segment_columns,
    stored,
)

__all__ = [
    "UNASSIGNED",
    "Above",
    "Absence",
    "Pod",
    "PodRun",
    "Run",
    "Segment",
    "codec",
    "derive",
    "fold",
    "held_segments",
    "is_same_run",
    "pod_beats",
    "pod_lists",
    "pod_runs",
    "segment_columns",
    "stored",
]
