"""The state of admission beside the cluster's: the objects with their own charge, and the quotas.

Possibly changed objects are marked, so the reconciler compares them with the journals.

Source: docs/architecture.md.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from bus.envelope import Event
from bus.events import VOCABULARY, devices, namespaces, nodes, pods, quotas, workloads
from bus.events.admissions import AdmissionDecided, AdmissionReleased, QuotaSpec
from bus.events.observations import ObjectsListed
from bus.events.pods import PodsListed
from bus.events.priorities import PriorityClassObserved, PriorityClassVanished
from bus.events.runtimes import TrainingRuntimeObserved, TrainingRuntimeVanished
from bus.events.vocabulary import Fact, read
from bus.kube.kinds.runtime_use import CLUSTER_KIND, NAMESPACED_KIND
from projections.attribution import AttributionRule
from projections.cluster import POD, Change, ClusterState, Gone, Pod, Workload, rows
from projections.cluster.devices import ClaimTemplate, DeviceClaim, DeviceClass, DeviceSlice
from projections.engine.parts import Part
from projections.quota_trees import TreeNode
from projections.quota_trees.shape import BUSINESS, ELASTIC
from projections.quotas import rule_of
from reactors.admission.coverage.coverage import Charges, Coverage, SavedCoverage, names_owner
from reactors.admission.coverage.objects import ChargedObjects, Object
from reactors.admission.deciding.elastics import ElasticQuotas, SavedQuotas
from reactors.admission.deciding.mapping import LABEL, QuotaRef, counted, place
from reactors.admission.deciding.reconcile import SeenQuota

#: Facts behind the requests of objects, beside the objects themselves: their devices, and their training runtime.
ASKING_FACTS = (
    devices.ResourceClaimObserved, devices.ResourceClaimVanished, devices.ResourceClaimTemplateObserved,
    devices.ResourceClaimTemplateVanished, devices.ResourceSliceObserved, devices.ResourceSliceVanished,
    devices.DeviceClassObserved, devices.DeviceClassVanished, TrainingRuntimeObserved, TrainingRuntimeVanished,
)  # fmt: skip
#: Kinds without a charge to release at their deletion; a claim that is a workload goes as one.
_UNCHARGED = frozenset(
    {
        *(one.kind for one in (rows.PriorityClass, DeviceClass, DeviceSlice, ClaimTemplate)),
        NAMESPACED_KIND,
        CLUSTER_KIND,
    }
)

#: Most remembered deleted owners; beyond it, those without live pods below them are forgotten.
GONE_KEPT = 10_000


class SavedAdmission(msgspec.Struct):
    """The state of admission in a snapshot; the state of the cluster is saved beside it."""

    cluster: str
    _own: set[str]
    quotas: dict[tuple[str, str], SeenQuota]
    elastics: SavedQuotas
    _rules: dict[str, AttributionRule]
    _ending: dict[str, Gone]
    coverage: SavedCoverage


class AdmissionState(Part):
    """The observed state of one cluster. The reconciler empties ``changed`` and ``changed_quotas``."""

    Saved = SavedAdmission
    #: Marks belong to their reader: a new process checks everything.
    derived = frozenset(
        {
            "_folds", "state", "objects", "requires_namespaces", "changed", "changed_quotas", "has_new_capacity",
        }
    )  # fmt: skip

    #: The facts that decide the quota of an object.
    places: ClassVar[tuple[type[Fact], ...]] = (
        quotas.QuotaObserved, quotas.QuotaVanished, namespaces.NamespaceObserved,
    )  # fmt: skip
    #: The facts that change it. The entries of a group of decisions are given to it one by one.
    reads: ClassVar[tuple[type[Fact], ...]] = (
        *places, workloads.WorkloadObserved, workloads.WorkloadVanished, pods.PodObserved,
        pods.PodVanished, nodes.NodeObserved, nodes.NodeVanished, ObjectsListed, pods.PodsListed, AdmissionDecided,
        AdmissionReleased, PriorityClassObserved, PriorityClassVanished, *ASKING_FACTS,
    )  # fmt: skip
    _types: ClassVar[frozenset[str]] = frozenset(fact.wire_type for fact in reads)

    def __init__(
        self,
        cluster: str,
        charges: Charges | None = None,
        *,
        requires_namespaces: bool = False,
        state: ClusterState | None = None,
    ) -> None:
        """``charges``: the journals, if the pods below owners count; they must have folded each event before.

        ``state``: folded by its owner, each event before this one; None: this one has its own.
        """
        self.cluster = cluster
        self._folds = state is None
        self.state = state if state is not None else ClusterState()
        #: Pods without a covering owner, or with an uncertain one: workloads themselves.
        self._own: set[str] = set()
        self.objects = ChargedObjects(self.state, self._own)
        self.quotas: dict[tuple[str, str], SeenQuota] = {}
        self.elastics = ElasticQuotas()
        #: Of business quotas by name, as last observed, also of deleted ones.
        self._rules: dict[str, AttributionRule] = {}
        #: See :func:`reactors.admission.deciding.mapping.place`.
        self.requires_namespaces = requires_namespaces
        #: Deleted owners with ending pods below: the end of these releases the owner's charge.
        self._ending: dict[str, Gone] = {}
        self.changed: set[str] = set()
        self.changed_quotas: set[tuple[str, str]] = set()
        self.has_new_capacity = False
        self.coverage = Coverage(self, charges)

    def restore(self, saved: SavedAdmission) -> None:
        """Load a snapshot into a new state beside the restored state of the cluster."""
        super().restore(saved)
        self.has_new_capacity = True

    def apply(self, event: Event) -> None:
        """Fold one event; those of other kinds and clusters change nothing."""
        if event.type not in self._types or event.cluster != self.cluster or event.defect:
            return
        if event.type == AdmissionDecided.wire_type and not names_owner(event):
            return
        fact = read(event, VOCABULARY)
        if self._folds:
            self.state.apply(fact, event)
        for change in self.state.changes(event):
            self.follow(change, is_list=isinstance(fact, PodsListed))
        if isinstance(fact, PodsListed):
            lives, exists = self.coverage.lives, self.state.pods.__contains__
            lives.listed(fact.first, fact.until, set(fact.uids), event.time_us, exists)
            lives.awaited.listed(self.state.listed_us(POD))
        elif isinstance(fact, AdmissionDecided):
            self.coverage.decided(fact, event.time_us)
        elif isinstance(fact, AdmissionReleased):
            for release in fact.releases:
                self.coverage.charged(release.uid)

    def unmark(self) -> None:
        """Remove all marks, in a process without a reconciler."""
        self.changed.clear()
        self.changed_quotas.clear()

    def follow(self, change: Change, *, is_list: bool = False) -> None:
        """The state of the cluster changed; ``is_list``: a complete list of pods says so."""
        before, after, gone = change.before, change.after, change.gone
        if isinstance(before or after, Workload):
            self.coverage.changes(change)
        if isinstance(after, Workload):
            self._ending.pop(after.uid, None)
            self.changed.add(after.uid)
            self.coverage.seen(after)
        elif isinstance(after, Pod):
            self._pod(after)
        elif isinstance(after, rows.Namespace):
            self._namespace(before, after)
        elif isinstance(after, rows.Node):
            self.coverage.arrived(after.uid)
            is_same = isinstance(before, rows.Node) and before.allocatable == after.allocatable
            self.has_new_capacity |= not is_same
        elif isinstance(after, rows.Quota):
            self._quota(after)
        elif isinstance(after or before, DeviceSlice | DeviceClass):
            self.has_new_capacity = True
        elif gone is None or gone.kind in _UNCHARGED or isinstance(before, DeviceClaim):
            return
        elif gone.kind == rows.Node.kind:
            self.has_new_capacity = True
        elif gone.kind in (BUSINESS, ELASTIC):
            self._quota_gone(gone, before)
        elif gone.kind == POD:
            self._pod_gone(gone, before, is_list=is_list)
        else:
            if isinstance(before, Workload):
                self.coverage.gone(before)
            self._lose(gone)

    def _pod(self, pod: Pod) -> None:
        """Fold a pod. Without a covering owner it is a workload itself; of others only live amounts count."""
        if not self.coverage.pod(pod):
            self.drop(pod.uid)
            return
        self._own.add(pod.uid)
        self.changed.add(pod.uid)
        self.coverage.seen(pod)

    def _pod_gone(
        self, gone: Gone, before: rows.Row | rows.Namespace | None, *, is_list: bool
    ) -> None:
        lives, uid = self.coverage.lives, gone.uid
        if not is_list:
            # A fresh admission outlives a list.
            lives.drop_pod(uid)
        is_own = uid in self._own
        self._own.discard(uid)
        if is_own and isinstance(before, Pod):
            self.coverage.lost(before)
        if is_own or self.coverage.is_reviewed(uid) or not isinstance(before, Pod):
            self._lose(gone)

    def _lose(self, gone: Gone) -> None:
        """An object was deleted, or a complete list is without it."""
        self.changed.add(gone.uid)
        if self.coverage.left(gone.uid):
            self._ending[gone.uid] = gone
            if len(self._ending) > GONE_KEPT:
                self._ending = {u: g for u, g in self._ending.items() if self.coverage.lives.has(u)}

    def drop(self, uid: str) -> None:
        """Fold that an owner covers a pod: it is no workload itself. Its own charge is to be released."""
        if uid not in self._own:
            return
        self._own.discard(uid)
        if (pod := self.state.pods.get(uid)) is not None:
            self.coverage.lost(pod)
        self.changed.add(uid)

    def quota_listed(self, node: TreeNode, listed_us: int, *, is_there: bool) -> None:
        """Fold a complete list with or without the object of a quota with unfinished changes."""
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

    def _namespace(self, before: rows.Row | rows.Namespace | None, after: rows.Namespace) -> None:
        if not isinstance(before, rows.Namespace) or before.labels != after.labels:
            inside = self.state.index.in_namespace[after.name]
            self.changed.update(uid for uid in inside if uid in self.objects)
            self.changed.update(
                u for u, gone in self._ending.items() if gone.namespace == after.name
            )

    def _quota(self, quota: rows.Quota) -> None:
        fact = quota.fact
        if fact.kind == BUSINESS:
            self._rule(fact)
        self._put(
            SeenQuota(
                fact.name, fact.uid, fact.kind, fact.parent, spec_of(fact), quota.seen_us, fact.tree,
                fact.namespace, fact.created or "",
            )
        )  # fmt: skip

    def _quota_gone(self, gone: Gone, before: rows.Row | rows.Namespace | None) -> None:
        if gone.kind == BUSINESS and gone.listed_us:
            # The reconciler records it, since it knows the changes that may still land.
            return
        name = (gone.kind, gone.name)
        known = self.quotas.get(name)
        is_other = known is not None and known.uid != gone.uid
        parent = known.parent if known and not is_other else ""
        if gone.kind == ELASTIC or not is_other:
            tree = before.fact.tree if isinstance(before, rows.Quota) and gone.listed_us else ""
            self._put(
                SeenQuota(gone.name, gone.uid, gone.kind, parent, None, gone.at_us, tree, gone.namespace)
            )  # fmt: skip
        self.changed_quotas.add(name)

    def _rule(self, fact: quotas.QuotaObserved) -> None:
        rule = rule_of(fact)
        # An invalid one has no readable namespaces: the earlier ones stay, as in the ledger.
        if rule is not None and self._rules.get(fact.name) != rule:
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

    # questions

    def named(self, kind: str, namespace: str, name: str) -> Object | None:
        """An object by its name."""
        return self.objects.get(self.state.named(kind, namespace, name))

    def gone(self, uid: str) -> Gone | None:
        """A deleted object; None if it is unknown."""
        return self.state.gone(uid) or self._ending.get(uid)

    def labels_of(self, namespace: str) -> dict[str, str] | None:
        """The labels of a namespace; None where it was not seen."""
        found = self.state.namespaces.get(namespace)
        return found.labels if found is not None else None

    def place(self, labels: dict[str, str], namespace: str) -> QuotaRef | None:
        """The quota requested by an object with these labels in a namespace, with its refusal, if it has no right to it."""
        # With a business quota in the labels, the namespace's elastic quota does not matter.
        serving = None if labels.get(LABEL) else self.elastics.place(namespace)
        return place(
            labels, namespace, self.labels_of(namespace), self._rules.get,
            serving, requires_namespaces=self.requires_namespaces,
        )  # fmt: skip

    def counted(self, labels: dict[str, str], namespace: str) -> QuotaRef | None:
        """The charged quota of an existing object, for any named quota."""
        return counted(self.place(labels, namespace))


def spec_of(fact: quotas.QuotaObserved) -> QuotaSpec:
    """The limits in a quota's object, in the form of its tree's journal."""
    return QuotaSpec(
        hard=fact.hard, cash=fact.cash, min=fact.min, max=fact.max,
        weight=fact.weight if fact.weight is not None else fact.max,
        lends=fact.lends, is_parent=fact.is_parent, exhaustion=fact.budget.exhaustion,
        namespaces=fact.serves.namespaces if fact.serves else fact.namespaces,
        selector=fact.serves.selector if fact.serves else (), problem=fact.problem, queue=fact.queue,
        charges_requests=fact.charges_requests,
    )  # fmt: skip
