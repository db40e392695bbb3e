"""Another policy of the scheduler on recorded history: the node and the time of each pod under it.

Pods arrive as they did. Each is placed by the rules that place it live, on the nodes as they were, beside those that hold
something there under trial. How long it then runs is not on record; three rules say it:

- *likely*: what ended by itself takes as long as it did; what somebody ended ends when it did. Who never got a node on record
  runs for the median of its namespace's.
- *as_long*: everything takes as long as it did.
- *gave_up*: as likely, but who never got a node on record ends when it did there.

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
