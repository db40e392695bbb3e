"""Another policy of the scheduler on recorded history: the node and the time of each pod under it.

Pods arrive as on record. The live rules place each of them on the nodes of that time, among the pods placed under trial. The
running time under trial is not on record; three rules give it:

- *likely*: a pod ended by itself takes as long as on record; a deleted pod ends at its recorded time. A pod without a node on
  record runs for the median of its namespace's.
- *as_long*: every pod takes as long as on record.
- *gave_up*: as likely, but a pod without a node on record ends at its recorded time.

Pure but for its own state.

Source: docs/lab.md; docs/scheduling.md.
"""

from reactors.lab.placements.lives import PodLife, PodLives
from reactors.lab.placements.outcome import PlacementChange, PlacementGroup, outcome
from reactors.lab.placements.trial import PlacementLab, PlacementsPlayed
from reactors.lab.placements.world import RULES, PlacementRule, Stay

__all__ = [
    "RULES",
    "PlacementChange",
    "PlacementGroup",
    "PlacementLab",
    "PlacementRule",
    "PlacementsPlayed",
    "PodLife",
    "PodLives",
    "Stay",
    "outcome",
]  # fmt: skip
