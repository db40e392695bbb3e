"""The contract of a scheduling plugin: a frozen struct with its policy's fields, and its hooks.

A hook evaluates many nodes at once and returns masks and integer scores. A plugin reads the cycle and changes nothing but
its own entry of ``cycle.data``. It has no clock and no randomness: its answer is a function of pod and columns.

Only PreBind, Bind and PostBind act. They run in the process that acts, once the decision is in the history. Later decisions
depend on them only through their changes in the cluster.

Source: Kubernetes, "Scheduling Framework"; docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar, Protocol, TypeGuard, TypeVar, runtime_checkable

import msgspec

from bus.events.constraints import HeldCpus
from projections.cluster import Pod
from reactors.scheduling.columns.table import Bools, Ints, Rows
from reactors.scheduling.framework.bind import Outcomes, Prepared
from reactors.scheduling.framework.bind_cycle import BindCycle
from reactors.scheduling.framework.context import PluginContext
from reactors.scheduling.queueing.hints import Hint

#: The distance of a node in need of one changed text.
ONE_CHANGE = 1000
#: Range of a score after its normalization.
LOWEST, HIGHEST = 0, 100


class Code(Enum):
    """The result of a hook for a pod."""

    SUCCESS = "success"
    ERROR = "error"
    UNSCHEDULABLE = "unschedulable"
    #: No preemption would help.
    UNRESOLVABLE = "unschedulable and unresolvable"
    WAIT = "wait"
    #: The plugin does not apply to this pod.
    SKIP = "skip"


class Status(msgspec.Struct, frozen=True):
    """The answer of a hook about a pod without nodes. ``nodes``: the only nodes allowed by a PreFilter."""

    code: Code
    reason: str = ""
    nodes: Bools | None = None


SKIP = Status(Code.SKIP)


class Refused(msgspec.Struct, frozen=True):
    """Nodes refused by a Filter for one reason, as a mask over the rows of the call."""

    reason: str
    nodes: Bools
    #: Nodes on which evictions would not help either.
    unresolvable: Bools | None = None


class Cycle:
    """One pod and the context during its placement, with the plugins' data between their hooks."""

    __slots__ = ("columns", "context", "data", "pod", "request")

    def __init__(self, pod: Pod, context: PluginContext) -> None:
        self.pod, self.context, self.columns = pod, context, context.columns
        self.request: Ints = self.columns.resources.request(pod)
        #: By plugin.
        self.data: dict[str, Any] = {}


def scaled(scores: Ints, *, is_reversed: bool = False) -> Ints:
    """Scores from 0 as parts of the largest, 0 to 100; reversed if less is better."""
    largest = int(scores.max(initial=0))
    if largest:
        scores = scores * HIGHEST // largest
    return HIGHEST - scores if is_reversed else scores


class Plugin(Protocol):
    """The fields of every plugin."""

    name: ClassVar[str]
    #: Its answer for a node depends only on the pod's key and that node's row, and is cached until the row changes.
    is_local: ClassVar[bool]


P = TypeVar("P", bound=Plugin)
_EXTENDS: dict[tuple[type, type], bool] = {}


def extends(one: Plugin, point: type[P]) -> TypeGuard[P]:
    """Whether a plugin has an extension point. Each class is checked once: a protocol check is slow."""
    asked = type(one), point
    if asked not in _EXTENDS:
        _EXTENDS[asked] = isinstance(one, point)
    return _EXTENDS[asked]


@runtime_checkable
class Keys(Plugin, Protocol):
    """A local plugin with more input than a pod's requests and constraints and the node's row."""

    def key(self, cycle: Cycle) -> Hashable:
        """The other input values: equal keys give equal answers."""


@runtime_checkable
class PreEnqueue(Plugin, Protocol):
    """Checks a pod before it may wait for a node."""

    def pre_enqueue(self, pod: Pod, context: PluginContext) -> str:
        """The reason why it may not; "" = it may."""


@runtime_checkable
class QueueSort(Plugin, Protocol):
    """Sorts waiting pods; a profile has exactly one."""

    def sort_key(self, pod: Pod, added_us: int) -> tuple[object, ...]:
        """The smaller is next. No two pods are equal."""


@runtime_checkable
class Helped(Plugin, Protocol):
    """A filter naming the changes possibly helpful to a refused pod. For any other filter, every change could help."""

    helped_by: ClassVar[frozenset[Hint]]


@runtime_checkable
class Reserve(Plugin, Protocol):
    """Keeps a part of a node for a pod from the choice of the node on."""

    def reserve(self, cycle: Cycle, row: int) -> str:
        """The reason of a failure; "" = it is reserved."""

    def unreserve(self, cycle: Cycle) -> None:
        """Take back the reserved part; possibly nothing was reserved."""


class Permission(msgspec.Struct, frozen=True):
    """The answer of a Permit: SUCCESS or SKIP, WAIT for so long at most, or another code for a refusal."""

    code: Code
    reason: str = ""
    timeout_us: int = 0


@runtime_checkable
class Permit(Plugin, Protocol):
    """Lets a pod with a reserved node be bound, has it wait with its room, or refuses it."""

    def permit(self, cycle: Cycle, row: int) -> Permission:
        """Whether it may be bound."""

    def permits(self, cycle: Cycle) -> Sequence[str]:
        """The pods waiting for this plugin and allowed to bind, too, now that the cycle's pod may."""

    def forbids(self, cycle: Cycle) -> Sequence[str]:
        """The pods to stop waiting for this plugin, as the cycle's pod has no node."""


class Alike(msgspec.Struct, frozen=True):
    """Equal pods, and the number of such pods with room on each node (``Filtering.room``)."""

    count: int
    room: Ints


@runtime_checkable
class Together(Plugin, Protocol):
    """Has sets of pods placed in one pass or not at all, each set within some nodes on request."""

    def together(self, pod: Pod, context: PluginContext) -> Sequence[str]:
        """Names of the sets placed together with a pod; () = it is placed by itself."""

    def members(self, names: Sequence[str], context: PluginContext) -> Sequence[str]:
        """The pods of these sets, also those with a node."""

    def are_apart(self, names: Sequence[str], context: PluginContext) -> bool:
        """Whether each of these sets is placed by itself, as one of them needs a domain."""

    def must_be_near(self, name: str, context: PluginContext) -> bool:
        """Whether all pods of a set need nodes of one domain."""

    def domains(
        self, name: str, kinds: Callable[[], Sequence[Alike]], context: PluginContext
    ) -> tuple[Sequence[Bools | None], str]:
        """(sets of nodes for the pods of a set, the best first, None = all nodes; the reason if there is none).

        ``kinds``: its waiting pods.
        """

    def lacking(self, name: str, context: PluginContext) -> int:
        """The number of further pods needed on nodes by a set."""

    def missing(self, names: Sequence[str], placed: Collection[str], context: PluginContext) -> str:
        """The reason if these sets have too few placed pods, ``placed`` included; "" = they have enough."""


@runtime_checkable
class CardChooser(Plugin, Protocol):
    """Chooses the GPU cards of a pod on its chosen node."""

    def cards(self, cycle: Cycle, row: int) -> tuple[int, ...]:
        """The cards; () = the plugin does not apply to this pod."""


class Packs(Protocol):
    """Chooses the card of a share among the cards with room for it."""

    def card(self, cycle: Cycle, row: int, fitting: Sequence[int]) -> int:
        """One of ``fitting``; -1 = the plugin does not apply to this pod."""


#: Keys in the data of a cycle: the packing plugin, and the mark of a plugin with a closer check of parts of cards.
PACKER, DEVICES = "packer", "devices"


@runtime_checkable
class Cpus(Plugin, Protocol):
    """Chooses the CPUs of a pod on its chosen node, and its parts of NUMA nodes."""

    def cpus(self, cycle: Cycle, row: int) -> HeldCpus | None:
        """The CPUs of the pod; None = the plugin does not apply to it."""


@runtime_checkable
class Annotates(Plugin, Protocol):
    """Adds annotations to a pod in its binding."""

    def annotations(self, cycle: Cycle, row: int, cards: Sequence[int]) -> Mapping[str, str]:
        """Name to text."""


@runtime_checkable
class PreBind(Plugin, Protocol):
    """Prepares the binding of a pod. It is called again, also by other processes, until it is done."""

    async def pre_bind(self, cycle: BindCycle) -> Prepared:
        """Whether it is done, waits, or cannot be done: then the pod gives up its node and waits again."""


@runtime_checkable
class Bind(Plugin, Protocol):
    """Binds pods to nodes. Of several such plugins the first to accept a pod binds it."""

    async def bind_pod(self, cycle: BindCycle) -> Outcomes | None:
        """The outcomes; None = this plugin does not bind this pod, and nothing was done."""


@runtime_checkable
class PostBind(Plugin, Protocol):
    """Is notified of a pod's bind, perhaps more than once for one decision. It changes nothing.

    The notification is repeated if the pod was not observed on its node in time, after a restart or a pause before that, from a
    second acting process, and after a failure of a PostBind.
    """

    def post_bind(self, cycle: BindCycle) -> None:
        """The pod is on its node."""


@runtime_checkable
class Learns(Plugin, Protocol):
    """May use the arrived pods: these are then counted from the beginning."""

    @property
    def learns(self) -> bool:
        """Whether it uses them."""


@runtime_checkable
class CountsCycles(Plugin, Protocol):
    """May try each pod of a gang once a cycle; the cycles are counted then."""

    @property
    def counts_cycles(self) -> bool:
        """Whether it needs the counts."""


@runtime_checkable
class ReadsQuotas(Plugin, Protocol):
    """Reads ``context.quotas``, kept while a profile has such a plugin."""

    reads_quotas: ClassVar[bool]


@runtime_checkable
class ReadsReservations(Plugin, Protocol):
    """Reads ``context.reservations``, kept while a profile has such a plugin."""

    reads_reservations: ClassVar[bool]


@runtime_checkable
class PreFilter(Plugin, Protocol):
    """Checks the pod before any node."""

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """SKIP: its filter is not called. None = go on."""


@runtime_checkable
class Filter(Plugin, Protocol):
    """Refuses nodes."""

    def filter(self, cycle: Cycle, rows: Rows) -> Sequence[Refused]:
        """The refused nodes of ``rows``, with the reason; a node may be refused for several reasons."""


class Preemption(msgspec.Struct, frozen=True):
    """The result of a search for victims. ``node`` "" = preemption does not help, for the reason in ``message``."""

    node: str = ""
    #: The pods to evict, the most important first.
    victims: tuple[Pod, ...] = ()
    #: The number of them under a disruption budget.
    violating: int = 0
    #: The message in kube-scheduler's form.
    message: str = ""


class Sparing(msgspec.Struct, frozen=True):
    """Pods spared by a search for victims, in addition to equally important pods."""

    may_go: Callable[[Pod], bool] = lambda pod: True
    #: Also spare pods under a disruption budget: the Eviction API refuses them, and others would be evicted in vain.
    is_protected: bool = False


@runtime_checkable
class Spares(Plugin, Protocol):
    """Spares pods from preemption."""

    def sparing(self, cycle: Cycle, sparing: Sparing) -> Sparing | None:
        """Pods spared from preemption in this cycle, ``sparing`` included. None disables preemption for the pod."""


class Filters(Protocol):
    """All filters of a profile."""

    def first_refusals(self, cycle: Cycle, rows: Ints) -> Sequence[Refused]:
        """The first refusal of each of ``rows``, as masks over them. Fitting nodes are in no mask."""

    def is_local(self, cycle: Cycle) -> bool:
        """Whether the answer of all filters for a node depends on that node alone."""


@runtime_checkable
class PostFilter(Plugin, Protocol):
    """Searches for victims, for a pod without a fitting node."""

    def post_filter(
        self, cycle: Cycle, filters: Filters, sequence: int, sparing: Sparing
    ) -> Preemption:
        """The pods to evict, and their node. It changes nothing."""


@runtime_checkable
class Remedy(Plugin, Protocol):
    """A filter naming a change to make a node pass."""

    def distance(self, cycle: Cycle) -> Ints | int:
        """The distance of each refused node from passing, in thousandths of the change needed."""

    def remedy(self, cycle: Cycle, row: int) -> str:
        """The smallest change of pod or node for a refused node to pass; "" = another plugin names it."""


@runtime_checkable
class PreScore(Plugin, Protocol):
    """Checks the fitting nodes before they are scored."""

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status | None:
        """SKIP: its score is not called. None = go on."""


@runtime_checkable
class Score(Plugin, Protocol):
    """Scores nodes."""

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """A score for each of ``rows``, the higher the better. For a local plugin ``rows`` have passed all local filters."""


@runtime_checkable
class Normalize(Plugin, Protocol):
    """Brings its scores of the fitting nodes into 0 to 100; a plugin without it scores in that range."""

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:
        """The scores of all fitting nodes, in the order of rows."""
