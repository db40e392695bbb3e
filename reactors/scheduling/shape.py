"""Plain values of the scheduler's state: waiting, placed and nominated pods, evictions, and passes.

The state is folded into them (:mod:`reactors.scheduling.state`), the columns count them, and a snapshot holds them.
"""

from __future__ import annotations

import msgspec

from bus.clock import SECOND_US
from bus.events.constraints import DeviceTerms, HeldCpus
from bus.events.decisions import Victim
from projections.cluster import Pod

#: The time for a bind's confirmation; then the binder reads the pod. A shadow waits as long for the real scheduler.
CONFIRMED_US = 300 * SECOND_US
#: Longest wait of a pod at Permit.
LONGEST_WAIT_US = 900 * SECOND_US


class Dealt(msgspec.Struct, frozen=True, gc=False):
    """The cards and CPUs of a node allocated to a pod by a decision.

    ``is_said``: the cards come from its annotation alone, writable for tenants. ``terms``: its device terms at that time.
    """

    node: str
    cards: tuple[int, ...]
    is_said: bool = False
    cpus: HeldCpus | None = None
    terms: DeviceTerms | None = None


class Assumed(msgspec.Struct):
    """A pod placed by a pass, until it is observed on its node, gone, or not bound after all.

    It is bound under the uid and ``decision``. ``deadline_us`` is the end of the wait for a confirmation, a time of the history: a
    shadow then ends by itself, and any other pod is read from the API server. Time alone releases no room, as a bind may be late.
    """

    uid: str
    profile: str
    node: str
    #: Sequence and id of its pass, and the pass's time, or the time of its permission to bind.
    passed: int
    decision: str
    at_us: int
    is_shadow: bool
    cards: tuple[int, ...]
    #: Its position in the queue for another wait.
    added_us: int
    number: int
    attempts: int
    #: Plugins still holding it back, with the end of each wait, a time of the history.
    waits: dict[str, int] = {}
    cpus: HeldCpus | None = None
    #: A new node of the same name is another one.
    node_uid: str = ""

    @property
    def deadline_us(self) -> int:
        """The end of the wait for its confirmation."""
        return self.at_us + CONFIRMED_US


class Nominated(msgspec.Struct):
    """A pod with less important victims, by a pass: its sequence and id."""

    uid: str
    profile: str
    node: str
    victims: tuple[Victim, ...]
    passed: int
    decision: str
    #: Recorded only: without evictions, and without held room.
    is_shadow: bool
    #: Its beginning, or its last eviction.
    at_us: int
    #: A victim was evicted for it.
    is_making_room: bool = False
    #: The gang, or the first of a group, placed together: its nominations end together, too. "" = it is by itself.
    group: str = ""


class Evicting(msgspec.Struct, frozen=True):
    """A decided eviction, by the id of the decision. ``is_over``: without further effect, as a shadow or as done."""

    decision: str
    is_over: bool = False


class Rested(msgspec.Struct, frozen=True):
    """The number of refused evictions of a pod, and the end of its pause as a victim."""

    times: int
    until_us: int


class WaitingPod(msgspec.Struct):
    """A waiting pod: :class:`reactors.scheduling.queueing.queue.Queued` without fields of the pod itself."""

    uid: str
    added_us: int
    number: int
    place: str
    attempts: int
    failed_us: int
    until_us: int
    refused_by: dict[str, tuple[str, ...]]
    helped_by: list[str]
    reason: str


class SavedArrivals(msgspec.Struct):
    """Kinds of pods and their numbers: the snapshot of :class:`reactors.scheduling.columns.arrivals.Arrivals`."""

    count: int
    learn_at: int
    kinds: list[tuple[tuple[int, int, int, tuple[str, ...]], int]]
    #: The number of the newest lesson, and its kinds.
    lesson: int
    learned: list[tuple[tuple[int, int, int, tuple[str, ...]], int]]


class Mark(msgspec.Struct, frozen=True):
    """The pass taking effect: its sequence and id, the event of its decision, and its time."""

    passed: int
    decision: str
    after: int
    at_us: int
    is_shadow: bool = False


def holds(pod: Pod) -> bool:
    """Whether a pod has a part of a node: a scheduler counts it until it is gone or has ended."""
    return bool(pod.node) and not pod.is_ended
