"""Quotas with other limits, budgets, places or queues on the journals that were recorded.

Every review is decided again by the rules that answer live, on the tree as it would be, and queues are worked off by the rules that
work them off live. What was admitted on record and is refused is left out of the tree, with all that was said of it later. What was
refused and is let in holds its charge for as long as the rule says. What was given back on record is given back. What waits in a
queue is there from when it was seen so on record; started, it runs as long as it did there. Pure but for its own state.

- *later*: what is let in runs as long as its namesake did that was admitted later, which then is not asked for any more, else as
  long as the median of its quota's. What is refused is asked for again whenever something is given back; then it runs as long as
  it did.
- *median*: as later, but all that is let in runs for the median of its quota's.
- *never*, which saves the most: what is let in counts nothing, and keeps others out as long as any in its quota ran; what is
  refused is not asked for again.
- *longest*, which saves the least: what is let in counts as long as any in its quota ran, and keeps nobody out; what is refused is
  asked for again.

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
