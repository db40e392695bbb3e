"""The cluster as far as admission has to know it: what was seen of workloads, namespaces and quotas.

A fold over the history, held in memory. What an event may have changed is marked, so that the
keeper compares it with the journals; newer versions replace older ones whatever their order.

Source: ``house.md`` sections 3.2, 5.
"""

from __future__ import annotations

from collections import deque

import msgspec

from bus.amounts import NANO, PodResources, effective_request
from bus.clock import parse_stamp
from bus.envelope import Event
from bus.errors import EnvelopeError, QuantityError, TimestampError
from bus.events import VOCABULARY, namespaces, nodes, pods, quotas, workloads
from bus.events.admissions import QuotaSpec
from bus.events.observations import ObjectsListed
from bus.events.pods import Owner
from bus.events.vocabulary import read
from bus.kinds import GOVERNED, Ask
from projections import histories
from projections.admissions import Node
from projections.admissions.shape import BUSINESS
from reactors.admission.keep import Seen, SeenQuota
from reactors.admission.mapping import SYSTEM_OWNERS, Place, place, types_of

_OBSERVED = {
    fact.wire_type
    for fact in (
        workloads.WorkloadObserved,
        workloads.WorkloadVanished,
        pods.PodObserved,
        pods.PodVanished,
        quotas.QuotaObserved,
        quotas.QuotaVanished,
        namespaces.NamespaceObserved,
        nodes.NodeObserved,
        nodes.NodeVanished,
        ObjectsListed,
        pods.PodsListed,
    )
}

#: Kinds that answer for what they control.
COVERING = frozenset(kind.kind for kind in GOVERNED if kind.covers)

POD = "Pod"

#: Deleted objects that are remembered, so that a late observation does not bring one back.
GONE_KEPT = 10_000

#: Longest chain of controllers that is followed (``reliability.md`` A26).
DEPTH = 8


class Object(msgspec.Struct, frozen=True):
    """A workload as its newest observation says."""

    uid: str
    kind: str
    namespace: str
    name: str
    version: str
    seen_us: int
    owner: Owner | None = None
    labels: dict[str, str] = {}
    ask: Ask = Ask()
    created_us: int = 0
    #: The newest complete list that showed it so.
    listed_us: int = 0


class View:
    """What was seen of one cluster. ``changed`` and ``changed_quotas`` are emptied by who works them off."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.objects: dict[str, Object] = {}
        self.names: dict[tuple[str, str, str], str] = {}
        self.quotas: dict[tuple[str, str], SeenQuota] = {}
        self.namespaces: dict[str, dict[str, str]] = {}
        #: Deleted objects, the newest of them.
        self.gone: dict[str, Seen] = {}
        self._going: deque[str] = deque()
        self.changed: set[str] = set()
        self.changed_quotas: set[tuple[str, str]] = set()
        self.nodes: dict[str, nodes.NodeObserved] = {}
        self.has_new_capacity = False
        self._versions: dict[tuple[str, str], tuple[str, int]] = {}

    def take(self, event: Event) -> None:
        """Fold one event; those of other kinds and clusters change nothing."""
        if event.type not in _OBSERVED or event.cluster != self.cluster or event.defect:
            return
        fact = read(event, VOCABULARY)
        if isinstance(fact, workloads.WorkloadObserved):
            self._observed(fact, event.time_us)
        elif isinstance(fact, workloads.WorkloadVanished):
            self._vanished(fact, event.time_us)
        elif isinstance(fact, pods.PodObserved | pods.PodVanished):
            self._pod(fact, event.time_us)
        elif isinstance(fact, namespaces.NamespaceObserved):
            self._namespace(fact, event.time_us)
        elif isinstance(fact, quotas.QuotaObserved | quotas.QuotaVanished):
            self._quota(fact, event.time_us)
        elif isinstance(fact, nodes.NodeObserved | nodes.NodeVanished):
            self._node(fact, event.time_us)
        elif isinstance(fact, ObjectsListed):
            self._listed(fact.kind, fact, event.time_us)
        elif isinstance(fact, pods.PodsListed):
            self._listed(POD, fact, event.time_us)

    def unmark(self) -> None:
        """Take all marks away, where nobody works them off."""
        self.changed.clear()
        self.changed_quotas.clear()

    def _observed(self, fact: workloads.WorkloadObserved, time_us: int) -> None:
        if self._takes(fact.uid, fact.resource_version, time_us):
            self._keep(
                Object(
                    fact.uid, fact.kind, fact.namespace, fact.name, fact.resource_version,
                    time_us, fact.owner, fact.labels, _ask(fact), _created_us(fact, time_us),
                )
            )  # fmt: skip

    def _pod(self, fact: pods.PodObserved | pods.PodVanished, time_us: int) -> None:
        """A pod that nobody answers for is a workload itself; others are not kept."""
        if fact.owner is not None and fact.owner.kind in COVERING | SYSTEM_OWNERS:
            return
        if isinstance(fact, pods.PodVanished):
            self.lose(fact.uid, POD, fact.namespace, fact.name, time_us)
            return
        version = fact.resource_version
        if not self._takes(fact.uid, version, time_us):
            return
        ended = fact.phase in ("Succeeded", "Failed")
        ask = Ask({} if ended else demand_of(fact), 0 if ended else 1, labels=fact.labels)
        self._keep(
            Object(
                fact.uid, POD, fact.namespace, fact.name, version, time_us, fact.owner,
                fact.labels, ask,
            )
        )  # fmt: skip

    def _takes(self, uid: str, version: str, time_us: int) -> bool:
        """Whether an observation is the newest of an object that is not gone.

        Only a deletion is certain. A list may have been wrong: what is seen after it is there.
        """
        gone = self.gone.get(uid)
        if gone is not None:
            if not 0 < gone.listed_us < time_us:
                return False
            del self.gone[uid]
        before = self.objects.get(uid)
        return before is None or histories.precedes(
            before.version, before.seen_us, version, time_us
        )

    def _keep(self, found: Object) -> None:
        self.objects[found.uid] = found
        self.names[(found.kind, found.namespace, found.name)] = found.uid
        self.changed.add(found.uid)

    def _vanished(self, fact: workloads.WorkloadVanished, time_us: int) -> None:
        self.lose(fact.uid, fact.kind, fact.namespace, fact.name, time_us)

    def _listed(self, kind: str, fact: ObjectsListed | pods.PodsListed, listed_us: int) -> None:
        """A complete list: who is not in it is gone; what was last seen of who is in it was so then, too."""
        present = set(fact.uids)
        for uid, found in list(self.objects.items()):
            if found.kind != kind or not covers(fact, uid):
                continue
            if uid in present:
                if found.listed_us < listed_us:
                    self.objects[uid] = msgspec.structs.replace(found, listed_us=listed_us)
            # What was seen since the list was asked for may be younger than it.
            elif found.seen_us < listed_us:
                self.lose(uid, kind, found.namespace, found.name, listed_us, listed_us=listed_us)

    def quota_listed(self, node: Node, listed_us: int, *, is_there: bool) -> None:
        """A complete list shows the object of a quota that has changes on their way, or does not."""
        name = (node.kind, node.name)
        known = self.quotas.get(name)
        if known is not None and (known.uid != node.uid or known.seen_us >= listed_us):
            return  # Another object of this name stands, or it was seen since.
        if known is None or not is_there:
            known = SeenQuota(node.name, node.uid, node.kind, node.parent, None, listed_us)
        else:
            known = msgspec.structs.replace(known, seen_us=listed_us)
        self.quotas[name] = known
        self.changed_quotas.add(name)

    def lose(
        self, uid: str, kind: str, namespace: str, name: str, time_us: int, *, listed_us: int = 0
    ) -> None:
        """An object was deleted, or a complete list that was asked for at ``listed_us`` is without it."""
        self.objects.pop(uid, None)
        if self.names.get((kind, namespace, name)) == uid:
            del self.names[(kind, namespace, name)]
        if uid not in self.gone:
            self._going.append(uid)
            if len(self._going) > GONE_KEPT:
                self.gone.pop(self._going.popleft(), None)
        self.gone[uid] = Seen(
            uid, kind, namespace, name, "", {}, {}, time_us, True, listed_us=listed_us
        )
        self.changed.add(uid)

    def _namespace(self, fact: namespaces.NamespaceObserved, time_us: int) -> None:
        if not self._is_newer("namespace", fact.name, fact.resource_version, time_us):
            return
        before = self.namespaces.get(fact.name)
        self.namespaces[fact.name] = fact.labels
        if before is not None and before != fact.labels:
            self.changed.update(o.uid for o in self.objects.values() if o.namespace == fact.name)

    def _node(self, fact: nodes.NodeObserved | nodes.NodeVanished, time_us: int) -> None:
        if not self._is_newer("node", fact.uid, fact.resource_version, time_us):
            return
        before = self.nodes.get(fact.name)
        if isinstance(fact, nodes.NodeObserved):
            self.nodes[fact.name] = fact
            self.has_new_capacity |= before is None or before.allocatable != fact.allocatable
        elif before is not None and before.uid == fact.uid:
            del self.nodes[fact.name]
            self.has_new_capacity = True

    def _quota(self, fact: quotas.QuotaObserved | quotas.QuotaVanished, time_us: int) -> None:
        if not self._is_newer(fact.kind, fact.uid, fact.resource_version, time_us):
            return
        name = (fact.kind, fact.name)
        known = self.quotas.get(name)
        if isinstance(fact, quotas.QuotaVanished):
            if known is None or known.uid == fact.uid:
                parent = known.parent if known else ""
                self.quotas[name] = SeenQuota(fact.name, fact.uid, fact.kind, parent, None, time_us)
        else:
            self.quotas[name] = SeenQuota(
                fact.name, fact.uid, fact.kind, fact.parent, spec_of(fact), time_us, fact.tree
            )
        self.changed_quotas.add(name)

    def _is_newer(self, kind: str, key: str, version: str, time_us: int) -> bool:
        known = self._versions.get((kind, key))
        if known is not None and not histories.precedes(*known, version, time_us):
            return False
        self._versions[(kind, key)] = (version, time_us)
        return True

    # questions

    def named(self, kind: str, namespace: str, name: str) -> Object | None:
        """An object by its name."""
        return self.objects.get(self.names.get((kind, namespace, name), ""))

    def top(self, owner: Owner | None) -> Object | None:
        """The end of the chain of controllers that begins at ``owner``; None where it was not seen to its end."""
        found = None
        for _ in range(DEPTH):
            if owner is None:
                return found
            found = self.objects.get(owner.uid)
            if found is None:
                return None
            owner = found.owner
        return found

    def place(self, labels: dict[str, str], namespace: str) -> Place | None:
        """The quota of an object with these labels in a namespace."""
        return place(labels, self.namespaces.get(namespace, {}), self._parent)

    def _parent(self, quota: str) -> str | None:
        seen = self.quotas.get((BUSINESS, quota))
        return seen.parent if seen is not None and seen.spec is not None else None

    def seen(self, uid: str) -> tuple[Place | None, Seen] | None:
        """One object as evidence for the journals, and its quota; None where it was never seen.

        What has a controller of a governed kind asks for nothing itself.
        """
        if (gone := self.gone.get(uid)) is not None:
            return None, gone
        found = self.objects.get(uid)
        if found is None:
            return None
        where = None
        if found.owner is None or found.owner.kind not in COVERING:
            where = self.place(found.labels, found.namespace)
        return where, Seen(
            uid, found.kind, found.namespace, found.name, where.quota if where else "",
            found.ask.demand, types_of(found.labels), found.seen_us, is_held=found.ask.held,
            version=found.version, listed_us=found.listed_us,
        )  # fmt: skip


def covers(fact: ObjectsListed | pods.PodsListed, uid: str) -> bool:
    """Whether this part of a list would show an object ``uid``."""
    return fact.first <= uid and (not fact.until or uid < fact.until)


def demand_of(fact: pods.PodObserved) -> dict[str, int]:
    """What a pod asks for, as far as its facts say: its requests, and limits that are at least as high.

    Raises EnvelopeError where the resources cannot be read.
    """
    try:
        resources = msgspec.json.decode(fact.resources, type=PodResources)
        found = effective_request(resources)
    except (msgspec.DecodeError, QuantityError) as error:
        raise EnvelopeError("the pod's resources do not fit", reason=str(error)) from error
    demand = {}
    for name, nano in sorted(found.items()):
        amount = -(-nano // (NANO // 1000 if name == "cpu" else NANO))
        if amount:
            demand[f"requests.{name}"] = demand[f"limits.{name}"] = amount
    return demand


def _ask(fact: workloads.WorkloadObserved) -> Ask:
    return Ask(
        fact.demand or {}, fact.pods, fact.deadline_s, fact.suspended, fact.labels,
        fact.priority_class, fact.per_replica, fact.replicas, fact.wanted, fact.held,
    )  # fmt: skip


def _created_us(fact: workloads.WorkloadObserved, time_us: int) -> int:
    """When it was made, by its own stamp; where that cannot be read, when it was seen."""
    try:
        return parse_stamp(fact.created or "")
    except TimestampError:
        return time_us


def spec_of(fact: quotas.QuotaObserved) -> QuotaSpec:
    """What a quota's object limits, as its tree's journal says it."""
    return QuotaSpec(
        hard=fact.hard, cash=fact.cash, min=fact.min, max=fact.max,
        weight=fact.weight if fact.weight is not None else fact.max,
        lends=fact.lends, is_parent=fact.is_parent, exhaustion=fact.budget.exhaustion,
        namespaces=fact.namespaces, problem=fact.problem, queue=fact.queue,
    )  # fmt: skip
