"""Plain values of the scheduler's own state: waiting, placed and nominated pods, evictions, and passes.

The state is folded of them (:mod:`reactors.scheduling.state`), the columns count them, and a snapshot holds them.
"""

from __future__ import annotations

import msgspec

from bus.clock import SECOND_US
from bus.events.constraints import DeviceTerms, HeldCpus
from bus.events.decisions import Victim
from projections.cluster import Pod

#: So long a bind may be unconfirmed; then whoever binds reads the pod. A shadow waits as long for the real scheduler.
CONFIRMED_US = 300 * SECOND_US
#: Longest that a pod waits at Permit.
LONGEST_WAIT_US = 900 * SECOND_US


class Dealt(msgspec.Struct, frozen=True, gc=False):
    """The cards and CPUs of a node that a decision gave to a pod.

    ``is_said``: of the cards its annotation alone says so, which tenants may write. ``terms``: what the pod wanted of its devices
    then.
    """

    node: str
    cards: tuple[int, ...]
    is_said: bool = False
    cpus: HeldCpus | None = None
    terms: DeviceTerms | None = None


class Assumed(msgspec.Struct):
    """A pod that a pass gave a node, until it is observed there, gone, or not bound after all.

    It is asked to be bound under the uid and ``decision``. At ``deadline_us``, a time of the history, nobody has confirmed it: a
    shadow ends by itself, and of another one the API server is asked. Time alone gives no room back, as a bind may be late.
    """

    uid: str
    profile: str
    node: str
    #: Sequence and id of its pass, and the time of that, or when it was let be bound.
    passed: int
    decision: str
    at_us: int
    is_shadow: bool
    cards: tuple[int, ...]
    #: Its place in the queue, if it must wait again.
    added_us: int
    number: int
    attempts: int
    #: Plugins that do not let it be bound yet, and until when each lets it wait, a time of the history.
    waits: dict[str, int] = {}
    cpus: HeldCpus | None = None
    #: A node that comes back under its name is another one.
    node_uid: str = ""

    @property
    def deadline_us(self) -> int:
        """When it should have been confirmed."""
        return self.at_us + CONFIRMED_US


class Nominated(msgspec.Struct):
    """A pod for which less important ones have to go, by a pass: its sequence and id."""

    uid: str
    profile: str
    node: str
    victims: tuple[Victim, ...]
    passed: int
    decision: str
    #: Recorded only: nobody goes, and no room is held.
    is_shadow: bool
    #: When it began, or when somebody went for it last.
    at_us: int
    #: Somebody was evicted for it.
    is_making_room: bool = False
    #: The gang, or the first of a group, that gets its nodes together: its nominations end together, too. "" = it is by itself.
    group: str = ""


class Evicting(msgspec.Struct, frozen=True):
    """An eviction that was decided, by the id of the decision. ``is_over``: nothing more comes of it, a shadow, or it was done."""

    decision: str
    is_over: bool = False


class Rested(msgspec.Struct, frozen=True):
    """How often an eviction of a pod was refused, and until when no search chooses it."""

    times: int
    until_us: int


class WaitingPod(msgspec.Struct):
    """A pod that waits: :class:`reactors.scheduling.queueing.queue.Queued` without what follows from the pod."""

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
    """Kinds of pods and how many there were of each: the snapshot of :class:`reactors.scheduling.columns.arrivals.Arrivals`."""

    count: int
    learn_at: int
    kinds: list[tuple[tuple[int, int, int, tuple[str, ...]], int]]
    #: The number of the newest lesson, and its kinds.
    lesson: int
    learned: list[tuple[tuple[int, int, int, tuple[str, ...]], int]]


class Mark(msgspec.Struct, frozen=True):
    """Which pass it is that takes effect: its sequence and id, the event on which it was decided, and its time."""

    passed: int
    decision: str
    after: int
    at_us: int
    is_shadow: bool = False


def holds(pod: Pod) -> bool:
    """Whether a pod has a part of a node: a scheduler counts it until it is gone or has ended."""
    return bool(pod.node) and not pod.is_ended
