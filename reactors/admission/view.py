"""The cluster as far as admission has to know it: what was seen of workloads, namespaces and quotas.

A fold over the history, held in memory. What an event may have changed is marked, so that the
keeper compares it with the journals; newer versions replace older ones whatever their order.

Source: ``house.md`` sections 3.2, 5.
"""

from __future__ import annotations

from collections import deque
from typing import ClassVar

import msgspec

from bus.envelope import Event
from bus.events import VOCABULARY, namespaces, nodes, pods, quotas, workloads
from bus.events.admissions import AdmissionDecided, AdmissionReleased, QuotaSpec
from bus.events.observations import ObjectsListed
from bus.events.pods import Owner
from bus.events.vocabulary import Fact, read
from bus.kinds import Ask
from projections import histories
from projections.admissions import Node
from projections.admissions.shape import BUSINESS, ELASTIC
from projections.attribution import Rule
from projections.quotas import rule_of
from reactors.admission.coverage import POD, Charges, Coverage, demand_of, names_owner
from reactors.admission.elastics import ElasticQuotas
from reactors.admission.keep import Seen, SeenQuota
from reactors.admission.lives import DEPTH
from reactors.admission.mapping import LABEL, Place, counted, place, types_of
from reactors.admission.objects import Object, covers, object_of
from reactors.admission.owners import is_covering

#: Deleted objects that are remembered, so that a late observation does not bring one back.
GONE_KEPT = 10_000


class View:
    """What was seen of one cluster. ``changed`` and ``changed_quotas`` are emptied by who works them off."""

    #: The facts that change it. The entries of a group of decisions are given to it one by one.
    reads: ClassVar[tuple[type[Fact], ...]] = (
        workloads.WorkloadObserved, workloads.WorkloadVanished, pods.PodObserved, pods.PodVanished,
        quotas.QuotaObserved, quotas.QuotaVanished, namespaces.NamespaceObserved,
        nodes.NodeObserved, nodes.NodeVanished, ObjectsListed, pods.PodsListed, AdmissionDecided,
        AdmissionReleased,
    )  # fmt: skip
    _types: ClassVar[frozenset[str]] = frozenset(fact.wire_type for fact in reads)

    def __init__(
        self, cluster: str, charges: Charges | None = None, *, requires_namespaces: bool = False
    ) -> None:
        """``charges``: the journals, where it matters what lives below owners; they must have taken each event before."""
        self.cluster = cluster
        self.objects: dict[str, Object] = {}
        self.names: dict[tuple[str, str, str], str] = {}
        self.quotas: dict[tuple[str, str], SeenQuota] = {}
        self.elastics = ElasticQuotas()
        #: Of business quotas by name, as they were seen last, also of those that are gone.
        self._rules: dict[str, Rule] = {}
        #: See :func:`reactors.admission.mapping.place`.
        self.requires_namespaces = requires_namespaces
        self.namespaces: dict[str, dict[str, str]] = {}
        #: Deleted objects, the newest of them.
        self.gone: dict[str, Seen] = {}
        self._going: deque[str] = deque()
        self.changed: set[str] = set()
        self.changed_quotas: set[tuple[str, str]] = set()
        self.nodes: dict[str, nodes.NodeObserved] = {}
        #: By uid.
        self.node_names: dict[str, str] = {}
        self.has_new_capacity = False
        self._versions: dict[tuple[str, str], tuple[str, int]] = {}
        self.coverage = Coverage(self, charges)

    def take(self, event: Event) -> None:
        """Fold one event; those of other kinds and clusters change nothing."""
        if event.type not in self._types or event.cluster != self.cluster or event.defect:
            return
        if event.type == AdmissionDecided.wire_type and not names_owner(event):
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
        elif isinstance(fact, AdmissionDecided):
            self.coverage.decided(fact, event.time_us)
        elif isinstance(fact, AdmissionReleased):
            for release in fact.releases:
                self.coverage.charged(release.uid)

    def unmark(self) -> None:
        """Take all marks away, where nobody works them off."""
        self.changed.clear()
        self.changed_quotas.clear()

    def _observed(self, fact: workloads.WorkloadObserved, time_us: int) -> None:
        if self._takes(fact.uid, fact.resource_version, time_us):
            self._keep(object_of(fact, time_us))

    def _pod(self, fact: pods.PodObserved | pods.PodVanished, time_us: int) -> None:
        """A pod that nobody answers for is a workload itself; of others only what lives is counted."""
        if isinstance(fact, pods.PodVanished):
            self.coverage.lives.end_pod(fact.uid)
            if not is_covering(fact.owner) or self.coverage.is_known(fact.uid):
                self.lose(fact.uid, POD, fact.namespace, fact.name, time_us)
            return
        has_ended = fact.phase in ("Succeeded", "Failed")
        if not self.coverage.pod(fact, has_ended=has_ended, time_us=time_us):
            self.drop(fact.uid)
            return
        version = fact.resource_version
        if not self._takes(fact.uid, version, time_us):
            return
        demand = {} if has_ended else demand_of(fact)
        self._keep(
            Object(
                fact.uid, POD, fact.namespace, fact.name, version, time_us, fact.owner,
                fact.labels, Ask(demand, 0 if has_ended else 1, labels=fact.labels),
            )
        )  # fmt: skip

    def drop(self, uid: str) -> None:
        """An owner answers for a pod: it is no workload itself. What it holds is to be given back."""
        found = self.objects.pop(uid, None)
        if found is None:
            return
        self.coverage.lost(found)
        if self.names.get((POD, found.namespace, found.name)) == uid:
            del self.names[(POD, found.namespace, found.name)]
        self.changed.add(uid)

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
        self.coverage.seen(found)

    def _vanished(self, fact: workloads.WorkloadVanished, time_us: int) -> None:
        self.lose(fact.uid, fact.kind, fact.namespace, fact.name, time_us)

    def _listed(self, kind: str, fact: ObjectsListed | pods.PodsListed, listed_us: int) -> None:
        """A complete list: who is not in it is gone; what was last seen of who is in it was so then, too."""
        present = set(fact.uids)
        if kind == ELASTIC:
            self._elastics_listed(fact, present, listed_us)
        if kind == POD:
            self.coverage.lives.listed(fact.first, fact.until, present, listed_us)
        for uid, found in list(self.objects.items()):
            if found.kind != kind or not covers(fact, uid):
                continue
            if uid in present:
                if found.listed_us < listed_us:
                    self.objects[uid] = msgspec.structs.replace(found, listed_us=listed_us)
            # What was seen since the list was asked for may be younger than it.
            elif found.seen_us < listed_us:
                self.lose(uid, kind, found.namespace, found.name, listed_us, listed_us=listed_us)

    def _elastics_listed(
        self, fact: ObjectsListed | pods.PodsListed, present: set[str], listed_us: int
    ) -> None:
        for known in self.elastics:
            if covers(fact, known.uid) and known.uid not in present and known.seen_us < listed_us:
                self._put(msgspec.structs.replace(known, spec=None, seen_us=listed_us))

    def quota_listed(self, node: Node, listed_us: int, *, is_there: bool) -> None:
        """A complete list shows the object of a quota that has changes on their way, or does not."""
        name = (node.kind, node.name)
        known = self.quotas.get(name)
        if known is not None and (known.uid != node.uid or known.seen_us >= listed_us):
            return  # Another object of this name stands, or it was seen since.
        if known is None:
            known = SeenQuota(node.name, node.uid, node.kind, node.parent, None, listed_us)
        else:
            spec = known.spec if is_there else None
            known = msgspec.structs.replace(known, spec=spec, seen_us=listed_us)
        self._put(known)

    def lose(
        self, uid: str, kind: str, namespace: str, name: str, time_us: int, *, listed_us: int = 0
    ) -> None:
        """An object was deleted, or a complete list that was asked for at ``listed_us`` is without it."""
        found = self.objects.pop(uid, None)
        if found is not None:
            self.coverage.lost(found)
        if self.names.get((kind, namespace, name)) == uid:
            del self.names[(kind, namespace, name)]
        if uid not in self.gone:
            self._going.append(uid)
            if len(self._going) > GONE_KEPT:
                self._forget(self._going.popleft())
        self.gone[uid] = Seen(
            uid, kind, namespace, name, "", {}, {}, time_us, True, listed_us=listed_us
        )
        self.changed.add(uid)
        self.coverage.lives.leave(uid)

    def _forget(self, uid: str) -> None:
        if self.coverage.lives.has(uid):
            # Its pods still end, and their end gives back what it holds.
            self._going.append(uid)
        else:
            self.gone.pop(uid, None)

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
            self.node_names[fact.uid] = fact.name
            self.coverage.arrived(fact.uid)
            self.has_new_capacity |= before is None or before.allocatable != fact.allocatable
        elif before is not None and before.uid == fact.uid:
            del self.nodes[fact.name]
            self.node_names.pop(fact.uid, None)
            self.has_new_capacity = True

    def _quota(self, fact: quotas.QuotaObserved | quotas.QuotaVanished, time_us: int) -> None:
        if not self._is_newer(fact.kind, fact.uid, fact.resource_version, time_us):
            return
        name = (fact.kind, fact.name)
        known = self.quotas.get(name)
        if isinstance(fact, quotas.QuotaVanished):
            is_other = known is not None and known.uid != fact.uid
            parent = known.parent if known and not is_other else ""
            gone = SeenQuota(
                fact.name, fact.uid, fact.kind, parent, None, time_us, namespace=fact.namespace
            )
            if fact.kind == ELASTIC or not is_other:
                self._put(gone)
            self.changed_quotas.add(name)
        else:
            if fact.kind == BUSINESS:
                self._rule(fact)
            self._put(
                SeenQuota(
                    fact.name, fact.uid, fact.kind, fact.parent, spec_of(fact), time_us, fact.tree,
                    fact.namespace, fact.created or "",
                )
            )  # fmt: skip

    def _rule(self, fact: quotas.QuotaObserved) -> None:
        rule = rule_of(fact)
        if self._rules.get(fact.name) != rule:
            self._rules[fact.name] = rule
            self.changed.update(self.objects)

    def _put(self, seen: SeenQuota) -> None:
        """Take a quota in, or its end, as the one of its name; of two elastic ones only one counts."""
        if seen.kind == ELASTIC:
            seen, has_moved = self.elastics.take(seen)
            if has_moved:
                self.changed.update(self.objects)
        name = (seen.kind, seen.name)
        self.quotas[name] = seen
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
        """The quota that an object with these labels in a namespace asks for, and whether it may."""
        # Who names a business quota is not asked which elastic one serves the namespace.
        serving = None if labels.get(LABEL) else self.elastics.place(namespace)
        return place(
            labels, namespace, self.namespaces.get(namespace, {}), self._rules.get,
            serving, requires_namespaces=self.requires_namespaces,
        )  # fmt: skip

    def counted(self, labels: dict[str, str], namespace: str) -> Place | None:
        """The quota that an object is charged to which exists, whatever it names."""
        return counted(self.place(labels, namespace))

    def seen(self, uid: str) -> tuple[Place | None, Seen] | None:
        """One object as evidence for the journals, and its quota; None where it was never seen, or is not known well enough.

        What its owner answers for asks for nothing itself.
        """
        live = self.coverage.lives.total(uid)
        if (gone := self.gone.get(uid)) is not None:
            return None, msgspec.structs.replace(gone, live=live) if live else gone
        found = self.objects.get(uid)
        if found is None:
            above = self.coverage.lives.above(uid)
            if not above:
                return None
            version, listed_us = self.coverage.lives.shown(uid)
            return None, Seen(
                uid, POD, "", "", "", {}, {}, 0, version=version, listed_us=listed_us,
                holder=self.coverage.holder(above),
            )  # fmt: skip
        is_covered = self.coverage.covered(found)
        if is_covered is None:
            return None
        where = None if is_covered else self.counted(found.labels, found.namespace)
        return where, Seen(
            uid, found.kind, found.namespace, found.name, where.quota if where else "",
            found.ask.demand, types_of(found.labels), found.seen_us, is_held=found.ask.held,
            version=found.version, listed_us=found.listed_us, live=live,
            holder=self.coverage.holder(uid) if is_covered else None,
        )  # fmt: skip


def spec_of(fact: quotas.QuotaObserved) -> QuotaSpec:
    """What a quota's object limits, as its tree's journal says it."""
    return QuotaSpec(
        hard=fact.hard, cash=fact.cash, min=fact.min, max=fact.max,
        weight=fact.weight if fact.weight is not None else fact.max,
        lends=fact.lends, is_parent=fact.is_parent, exhaustion=fact.budget.exhaustion,
        namespaces=fact.serves.namespaces if fact.serves else fact.namespaces, problem=fact.problem, queue=fact.queue,
        charges_requests=fact.charges_requests,
    )  # fmt: skip
