"""Another policy of evictions on recorded history: which pods would have had to go so that their quotas are held to.

The reactor that runs live decides in shadow, where who would have gone counts as gone until its quota has nothing to give back.
So what quotas hold, what budgets have spent, and who waits is as on record. Pure but for its own state.

Source: docs/lab.md; docs/queues.md.
"""

from reactors.lab.evictions.outcome import EvictionChange, EvictionGroup, outcome
from reactors.lab.evictions.trial import EvictionTrial

__all__ = ["EvictionChange", "EvictionGroup", "EvictionTrial", "outcome"]
