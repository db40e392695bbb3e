"""Values of gangs: the needs of a gang, and its state in a snapshot.

Source: docs/scheduling.md, "Gangs".
"""

from __future__ import annotations

import msgspec

from bus.clock import SECOND_US

#: The default wait of pods for the rest of a gang that is not strict.
WAIT_US = 600 * SECOND_US


class Needs(msgspec.Struct, frozen=True, omit_defaults=True):
    """The needs of a gang. ``least`` None = each of its pods starts by itself."""

    least: int | None
    total: int = 0
    is_strict: bool = True
    wait_us: int = WAIT_US
    #: The gangs starting together, this one among them; () = it starts alone.
    groups: tuple[str, ...] = ()
    #: The label of nodes with one value for all its pods; "" = any nodes.
    topology: str = ""
    #: Its pods are victims of preemption all together or not at all.
    goes_whole: bool = False


class Gang(msgspec.Struct):
    """A gang. Its pods exist, do not end, and wait for this scheduler or are on nodes."""

    key: str
    pods: dict[str, None] = {}
    bound: set[str] = set()
    #: Pods with a node by a pass, and those of them waiting for the others.
    assumed: set[str] = set()
    waiting: set[str] = set()
    #: Pods ended after being on nodes, while they exist.
    ended: set[str] = set()
    #: The terms of its first pod, without a PodGroup.
    light: Needs | None = None
    #: It had enough pods on nodes, also one after the other: later ones start by themselves.
    is_complete: bool = False
    #: The reason why its pods may not be tried; "" = they may.
    reason: str = ""

    def ends(self, uid: str) -> bool:
        """Drop a pod from the gang; whether it was part of it before."""
        self.ended.add(uid)
        for part in (self.bound, self.assumed, self.waiting):
            part.discard(uid)
        wanted = uid in self.pods
        self.pods.pop(uid, None)
        return wanted


class GangCycle(msgspec.Struct):
    """The state of a gang by Koordinator 1.0: the number of its cycle, and whether all attempts in it succeeded."""

    number: int = 1
    is_valid: bool = True
    #: The number of its pods tried in this cycle; and by pod the cycle of its last attempt.
    count: int = 0
    tried: dict[str, int] = {}


class SavedGangs(msgspec.Struct):
    """The part of a snapshot for :class:`reactors.scheduling.gangs.state.Gangs`, beyond the state of the cluster."""

    light: dict[str, Needs]
    complete: list[str]
    lost: list[str]
    #: {} without a plugin for counts.
    cycles: dict[str, GangCycle]
