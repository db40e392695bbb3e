"""Quotas with other limits, budgets, parents or queues on the recorded journals.

The live rules answer every review again, on the tree under trial, and work off its queues. A workload admitted on record and
refused under trial is left out of the tree, with all its later entries. A workload refused on record and admitted under trial
holds its charge for the time given by the rule. Charges released on record are released. A queued workload waits from its recorded
time; once started, it runs as long as on record. Pure but for its own state.

- *later*: a workload admitted only under trial takes the run time of its namesake's later admission. That later request is
  dropped. Without one, the workload runs for the median of its quota. A refused workload is requested again at each release; then
  it runs as long as on record.
- *median*: as later, but every admitted workload runs for the median of its quota.
- *never* is the upper bound of the savings. An admitted workload adds no hours, but blocks others as long as the longest run in
  its quota. A refused workload is not requested again.
- *longest* is the lower bound of the savings. An admitted workload counts as long as the longest run in its quota, and blocks no
  other; a refused workload is requested again.

Source: docs/lab.md; docs/quotas.md.
"""

from reactors.lab.quotas.outcome import QuotaGroup, outcomes, played
from reactors.lab.quotas.shape import (
    QUOTA_RULES,
    Arrived,
    Changed,
    Entry,
    Limits,
    Proposed,
    Reordered,
    Withdrawn,
)

__all__ = [
    "QUOTA_RULES", "Arrived", "Changed", "Entry", "Limits", "Proposed", "QuotaGroup", "Reordered", "Withdrawn",
    "outcomes", "played",
]  # fmt: skip
