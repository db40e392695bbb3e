"""Another policy of evictions on recorded history: the pods to evict to enforce the quotas.

The live reactor decides in shadow: an evicted pod counts as gone until its quota is within its limit. So the charges of quotas,
the spending of budgets and the waiting workloads are as on record. Pure but for its own state.

Source: docs/lab.md; docs/queues.md.
"""

from reactors.lab.evictions.outcome import EvictionChange, EvictionGroup, outcome
from reactors.lab.evictions.trial import EvictionTrial

__all__ = ["EvictionChange", "EvictionGroup", "EvictionTrial", "outcome"]
