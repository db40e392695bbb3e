"""The held, waiting and unknown time of each group in a period.

Every aggregate printed by Bursar. A pod's segments are clipped to [from, to), cut at the hours or days of a time
zone, and summed by group in exact integers; so the sum over any grouping is the sum of the segments, and a row of
``bursar report`` is the sum of the rows of ``bursar acct`` behind it (:mod:`projections.accounts`).

Rules where the segments alone do not decide:

- Waiting is assigned to the group of the first holding, unknown time to that of the last. A pod without any holding
  is grouped by its labels and its namespace at its creation; one never bound has no node and no model.
- A pod is counted once in each group it touches: by waiting, holding or unknown time, or by having been created there.
  It has held there when a segment touches the group, or when it was bound and gone in the same second.
- Events at or after ``as_of_s`` are ignored, as in ``accounts``.

:func:`report` reads whole days from the sums of ended pods where they tell the groups apart (:mod:`projections.report_days`).
:func:`sums` answers for amounts alone, from the hourly and daily sums where they hold the same answer.

Source: docs/accounting.md.
"""

from projections.reports.days import ended_pods
from projections.reports.periods import periods
from projections.reports.shape import DIMENSIONS, LABEL, UTC, Question, ReportRow, Sums, check
from projections.reports.sums import report, sums

__all__ = [
    "DIMENSIONS",
    "LABEL",
    "UTC",
    "Question",
    "ReportRow",
    "Sums",
    "check",
    "ended_pods",
    "periods",
    "report",
    "sums",
]
