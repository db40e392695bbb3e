"""Holdings of pods over time: pods by uid, their held segments, their waiting and their unknown time.

``shape`` defines the rows. ``fold`` applies one observation to a pod's row. ``derive`` computes the run from that
row, and ``ends`` its end. ``lists`` closes pods missing in the second of two complete lists. ``derivation`` chooses
the runs to derive in a batch.

Source: docs/accounting.md, the heart of the ledger.
"""

from projections.attribution import UNASSIGNED
from projections.pod_runs.blocks import blocks, is_one_day, longer
from projections.pod_runs.derive import NOBODY, derive, idle_for
from projections.pod_runs.fold import fold, is_same_run
from projections.pod_runs.shape import (
    Above,
    Idle,
    PodHistory,
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
    "Idle",
    "PodHistory",
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
    "pod_runs",
    "segment_columns",
    "stored",
]
