"""The right of a pod to start by its quota: admission's state of the workload charged for it. Pure but for its state.

It is kept while a profile names the plugin Quota. It begins with the existing objects at the start of the policy and with the
charges in the journals, and follows the history from there. So it is a fold, like all input of passes.

Source: docs/scheduling.md; docs/admission.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from bus.envelope import Event
from bus.events.admissions import (
    AdmissionDecided,
    AdmissionReleased,
    AdmissionsGrouped,
    Deficit,
    entries,
)
from bus.events.clock import ClockTicked
from bus.events.vocabulary import Fact
from projections.cluster import POD, Change, ClusterState, Pod, Workload
from projections.cluster.rows import Namespace, Quota, Row
from projections.quota_trees import Grant, TreeNode, TreeOverlay, charged
from projections.quota_trees.forest import QuotaTrees
from projections.quota_trees.keys import largest, summed
from projections.quota_trees.shape import ELASTIC
from reactors import reclaim
from reactors.admission.deciding.decide import barred, over
from reactors.admission.deciding.reconcile import LastSeen
from reactors.admission.state.evidence import evidence
from reactors.admission.state.state import AdmissionState, SavedAdmission
from reactors.reclaim import preemption

#: Stands for all answers of quotas, among the changed nodes and claims: these never have this name.
QUOTAS = "quotas/"


class Excess(msgspec.Struct, frozen=True):
    """The reason why a pod may not start. ``deficits``: the excess of its quota; () for another reason."""

    reason: str
    node: TreeNode | None = None
    deficits: tuple[Deficit, ...] = ()

    def is_over_without(self, uids: Iterable[str]) -> bool:
        """Whether the quota would be over its limit even without these pods; only pods with a charge of their own count."""
        assert self.node is not None
        grants = [self.node.grants[uid] for uid in uids if uid in self.node.grants]
        return any(
            one.used - sum(grant.charge.get(one.key, 0) for grant in grants) > one.limit
            for one in self.deficits
        )


class Moved(msgspec.Struct, frozen=True):
    """Possible results of an event: another answer, and a helpful one; ``whom``: the objects concerned, None = any.

    ``ends``: a pod ended, and its workload's charge may be enough for the remaining pods. ``is_tick``: pods not allowed to be
    tried are checked again.
    """

    has_moved: bool
    helps: bool
    ends: bool
    is_tick: bool
    whom: set[str] | None


class QuotaState:
    """Answers about pods by their quotas; ``trees`` are folded by another part, before this reads an event."""

    def __init__(self, cluster: ClusterState, trees: QuotaTrees) -> None:
        self._cluster = cluster
        self._trees = trees
        # It reads the events of the replica's one cluster.
        self.seen = AdmissionState("", trees, state=cluster)

    def begin(self, cluster: str) -> None:
        """Read the existing objects, as if all were observed now, in the order of uids."""
        seen, state = self.seen, self._cluster
        seen.cluster = cluster
        for uid in (*state.workloads, *state.pods):
            for _, grant in self._trees.grants(uid):
                for owner in grant.owners:
                    seen.coverage.named.add(uid, owner)
        kinds: Sequence[Mapping[str, Row]] = (state.quotas, state.workloads, state.pods)
        for rows in kinds:
            for uid, row in sorted(rows.items()):
                seen.follow(Change(row.kind, uid, None, row))
        seen.unmark()

    def restore(self, saved: SavedAdmission) -> None:
        """Restore a saved state into a new one, after the states of the cluster and its trees."""
        self.seen.restore(saved)
        self.seen.unmark()

    def apply(self, fact: Fact, event: Event) -> Moved:
        """Fold one event; returns its possible results."""
        for one in entries(event):
            self.seen.apply(one)
        is_tick, is_entry = isinstance(fact, ClockTicked), isinstance(fact, QuotaTrees.entries)
        if is_tick:
            self.seen.coverage.expire(event.time_us)
        has_moved = is_entry or bool(self.seen.changed or self.seen.changed_quotas)
        changes = self._cluster.changes(event)
        rows = [one.before or one.after for one in changes]
        ends = any(isinstance(one.before, Pod) and _is_over(one.after) for one in changes)
        helps = is_entry or (is_tick and has_moved) or any(
            isinstance(one, Workload | Namespace | Quota) for one in rows
        )  # fmt: skip
        whom = None
        if not is_tick and not any(isinstance(one, Namespace | Quota) for one in rows):
            whom = _named(fact, {one.uid for one in rows if isinstance(one, Workload)})
        whom = None if whom is None else whom | self.seen.changed
        self.seen.unmark()
        return Moved(has_moved or helps, helps, ends, is_tick, whom)

    def below(self, whom: set[str] | None, waiting: Collection[str]) -> list[str]:
        """The waiting pods charged through one of these objects, in the order of uids; None = any."""
        if whom is None:
            return sorted(waiting)
        found, left, owned = set[str](), list(whom), self._cluster.index.owned
        while left:
            uid = left.pop()
            if uid not in found:
                found.add(uid)
                left += owned[uid]
        return sorted(uid for uid in found if uid in waiting)

    # questions

    def excess(self, pod: Pod) -> Excess | None:
        """The reason why a pod may not start; None = it may, by its quota or without one."""
        holder = self._holder(pod)
        known = evidence(self.seen, holder) if holder else None
        if known is None:
            return Excess("it is not known yet which workload it belongs to")
        where, seen = known
        title = "the pod" if seen.kind == POD else f"{seen.kind} {seen.namespace}/{seen.name}"
        found = self.seen.objects.get(holder)
        named = self.seen.place(found.labels, found.namespace) if found is not None else where
        if named is None:
            return None
        node = self._node(named.kind, named.charged) if named.charged else None
        grant = node.grants.get(holder) if node is not None else None
        if grant is None or grant.is_adopted:
            # It was neither requested nor admitted.
            if named.refusal or (node is not None and barred(node, seen.namespace)):
                return Excess(f"{title} may not stand in quota {named.quota}")
            if node is None or node.observed is None:
                return Excess(f"quota {named.quota} is not there")
        if seen.is_held:
            return Excess(f"{title} waits in the queue of quota {named.quota}")
        return self._short(seen, node, grant, title) if node is not None else None

    def _short(
        self, seen: LastSeen, node: TreeNode, grant: Grant | None, title: str
    ) -> Excess | None:
        """Whether a workload is charged with less than its demand, or was charged without fitting."""
        wanted = largest(charged(seen.demand, seen.types), summed(seen.live, seen.types))
        charge: Mapping[str, int] = grant.charge if grant is not None else {}
        tree = self._trees.trees[self._trees.places[(node.kind, node.name)]]
        if any(amount > charge.get(key, 0) for key, amount in wanted.items()):
            if charge:
                return Excess(f"{title} has more than quota {node.name} admitted")
            own = (seen.kind, seen.namespace, seen.name)
            is_refused = any((one.kind, one.namespace, one.name) == own for one in tree.refused)
            verb = "was refused by" if is_refused else "is not admitted by"
            return Excess(f"{title} {verb} quota {node.name}")
        if grant is None or not grant.is_adopted:
            return None
        found = over(TreeOverlay(tree), node, dict.fromkeys(charge, 0))
        if not found:
            return None
        limits = ", ".join(f"{one.key} {one.used} of {one.limit}" for one in found)
        return Excess(f"quota {node.name} holds too much: {limits}", node, found)

    def makes_room(self, found: Excess, pod: Pod, nominated: Iterable[Pod]) -> bool:
        """Whether room is being made in the quota of a pod.

        A less important pod of it is ending, or has ended and is still charged, or another pod of it waits for victims.
        """
        assert found.node is not None
        going = []
        for uid, grant in found.node.grants.items():
            if grant.kind != POD or not grant.charge:
                continue
            other = self._cluster.pods.get(uid)
            if other is None and self.seen.gone(uid) is not None:
                return True
            if other is not None and (other.is_terminating or other.is_ended):
                going.append(_as_reclaimed(other, found.node.name))
        is_eligible = preemption.is_eligible(
            _as_reclaimed(pod, found.node.name), policy_never=False, nominated=True,
            unresolvable=False, terminating=going,
        )  # fmt: skip
        own = self.quota(pod)
        return not is_eligible or any(
            one.uid != pod.uid and self.quota(one) == own for one in nominated
        )

    def can_preempt(self, pod: Pod, quota: str | None, victim: Pod) -> bool:
        """Whether a pod of ``quota`` may take the room of another: one of the same quota and less important.

        Pods with an unknown quota are never victims.
        """
        other = self.quota(victim) if victim.priority < pod.priority else None
        if quota is None or other is None:
            return False
        return preemption.can_preempt(_as_reclaimed(pod, quota), _as_reclaimed(victim, other))

    def quota(self, pod: Pod) -> str | None:
        """The quota charged for a pod; "" = none, None = unknown."""
        holder = self._holder(pod)
        known = evidence(self.seen, holder) if holder else None
        if known is None:
            return None
        where = known[0]
        if where is None:
            return ""
        # Quotas of two kinds may have one name; the rules identify an elastic one by its own.
        return where.quota if where.kind == ELASTIC else where.full_name

    def _holder(self, pod: Pod) -> str:
        """The uid of the object charged for a pod; "" = unknown."""
        is_covered = self.seen.coverage.covered(pod)
        if is_covered and pod.owner is not None:
            return self.seen.coverage.holder(pod.owner.uid)
        return "" if is_covered is None else pod.uid

    def _node(self, kind: str, quota: str) -> TreeNode | None:
        tree = self._trees.trees.get(self._trees.places.get((kind, quota), ""))
        found = tree.nodes.get(quota) if tree is not None else None
        return found if found is not None and found.kind == kind else None


def _as_reclaimed(pod: Pod, quota: str) -> reclaim.Pod:
    return reclaim.Pod(
        pod.name, pod.namespace, quota, pod.priority, pod.started_us,
        preemptible=preemption.is_preemptible(pod.labels),
    )  # fmt: skip


def _is_over(after: object) -> bool:
    return after is None or (isinstance(after, Pod) and after.is_ended)


def _named(fact: Fact, changed: set[str]) -> set[str] | None:
    """The objects of a journal's entry, and the changed ones; None for an entry about a quota."""
    if isinstance(fact, AdmissionsGrouped):
        return changed | {one.uid for one in fact.decisions}
    if isinstance(fact, AdmissionDecided):
        return changed | {fact.uid}
    if isinstance(fact, AdmissionReleased):
        return changed | {one.uid for one in fact.releases}
    return None if isinstance(fact, QuotaTrees.entries) else changed
