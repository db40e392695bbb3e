"""Values of gangs: the needs of a gang, and its state in a snapshot.

Source: docs/scheduling.md, "Gangs".
"""

from __future__ import annotations

import msgspec

from bus.clock import SECOND_US

#: So long pods of a gang that is not strict wait for the others, where it says nothing else.
WAIT_US = 600 * SECOND_US


class Needs(msgspec.Struct, frozen=True, omit_defaults=True):
    """The needs of a gang. ``least`` None = each of its pods starts by itself."""

    least: int | None
    total: int = 0
    is_strict: bool = True
    wait_us: int = WAIT_US
    #: The gangs that start together, this one among them; () = it starts alone.
    groups: tuple[str, ...] = ()
    #: The label of nodes of which all its pods get one value; "" = any nodes.
    topology: str = ""
    #: None of its pods goes for a more important one without the others.
    goes_whole: bool = False


class Gang(msgspec.Struct):
    """A gang. Its pods exist, do not end, and wait for this scheduler or are on nodes."""

    key: str
    pods: dict[str, None] = {}
    bound: set[str] = set()
    #: Pods that a pass gave a node, and those of them that wait for the others.
    assumed: set[str] = set()
    waiting: set[str] = set()
    #: Pods that were on nodes and have ended, while they are there.
    ended: set[str] = set()
    #: What the first of its pods said, where no PodGroup does.
    light: Needs | None = None
    #: It had as many pods on nodes as it needs, also one after the other: later ones start by themselves.
    is_complete: bool = False
    #: Why its pods may not be tried; "" = they may.
    reason: str = ""

    def ends(self, uid: str) -> bool:
        """A pod wants no node any more; whether it did before."""
        self.ended.add(uid)
        for part in (self.bound, self.assumed, self.waiting):
            part.discard(uid)
        wanted = uid in self.pods
        self.pods.pop(uid, None)
        return wanted


class GangCycle(msgspec.Struct):
    """Where a gang is by Koordinator 1.0: the number of its cycle, and whether none of its pods failed in it."""

    number: int = 1
    is_valid: bool = True
    #: How many of its pods were tried in this cycle; and by pod the cycle in which it was tried last.
    count: int = 0
    tried: dict[str, int] = {}


class SavedGangs(msgspec.Struct):
    """What a snapshot holds of :class:`reactors.scheduling.gangs.state.Gangs` beyond the state of the cluster."""

    light: dict[str, Needs]
    complete: list[str]
    lost: list[str]
    #: {} where no plugin counts them.
    cycles: dict[str, GangCycle]
