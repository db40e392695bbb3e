"""Reviews of objects below an owner: the responsible owner, and the charge that it needs. Pure but for its state.

Source: ``docs/admission.md`` ("Objects below an owner").
"""

from __future__ import annotations

import msgspec

from bus.clock import Clock
from bus.events.admissions import Child
from bus.events.pods import Owner
from bus.kube import kinds
from projections.cluster import POD
from projections.quota_trees.keys import added, charged, ending, largest, less, missing, summed
from reactors.admission.coverage.chains import DEPTH
from reactors.admission.coverage.lives import Undo
from reactors.admission.coverage.objects import counts_of
from reactors.admission.coverage.owners import Controllers, collects, controller_of
from reactors.admission.deciding.mapping import QuotaRef, types_of
from reactors.admission.reviewing.governing import is_governed
from reactors.admission.reviewing.reading import Stored, reshapes
from reactors.admission.state.state import AdmissionState
from reactors.webhook.review import Answer, Review


class Holder(msgspec.Struct, frozen=True):
    """The object charged for all objects below it."""

    uid: str
    kind: str
    namespace: str
    name: str
    demand: dict[str, int]
    types: dict[str, str]
    #: None = it belongs to no quota.
    where: QuotaRef | None


class Below(msgspec.Struct, frozen=True):
    """A reviewed object below an owner, as it would be."""

    owner: Owner
    child: Child
    #: The counted amounts of the stored object before the change; None = it is new, or a scale without them.
    before: dict[str, int] | None = None
    #: Its change of one replica's request must be in the journal, as scales are calculated from it.
    reshapes: bool = False

    @property
    def is_pod(self) -> bool:
        """Whether it runs itself."""
        return self.child.kind == POD


class Children:
    """Reads a view, and notes admitted objects in it."""

    def __init__(self, view: AdmissionState, clock: Clock, controllers: Controllers) -> None:
        self._view = view
        self._clock = clock
        self.controllers = controllers

    def below(
        self,
        review: Review,
        kind: kinds.Kind,
        uid: str,
        name: str,
        owner: Owner,
        ask: kinds.Ask,
        before: Stored,
    ) -> Below | None:
        """The object as its owner's, in place of its request ``before``; None if it is charged in its own right."""
        if not self._is_owners(review, kind.kind, uid, owner):
            return None
        metadata = (review.object or {}).get("metadata") or {}
        version = str(metadata.get("resourceVersion", "")) if review.operation == "UPDATE" else ""
        child = Child(kind.kind, name, uid, version, owner.uid, counts_of(kind.kind, ask))
        counts = None
        if review.operation == "UPDATE" and isinstance(before, kinds.Ask):
            counts = counts_of(kind.kind, before)
        return Below(owner, child, counts, reshapes(kind, ask, before))

    def _is_owners(self, review: Review, kind: str, uid: str, owner: Owner) -> bool:
        coverage = self._view.coverage
        answers = coverage.answers(owner, review.namespace)
        if answers is False or coverage.is_own(uid, kind, owner):
            return False
        if self.controllers.wrote(review):
            return True
        is_there = review.operation == "UPDATE" and _is_same(review, owner)
        return bool(answers) and (kinds.is_open(owner.kind, kind) or is_there)

    def rises(self, below: Below) -> bool:
        """Whether it would count more below this owner than its last observation there, or than its stored object."""
        uid, lives = below.child.uid, self._view.coverage.lives
        if not below.child.version:
            return True
        if self.adopts(below):
            # An adopted object brings the pods below it along.
            return below.is_pod or bool(below.child.counts or lives.node(uid).total)
        if below.is_pod:
            known = lives.pod(uid)
        else:
            found = self._view.objects.get(uid)
            known = counts_of(found.kind, found.ask) if found else None
        return any(
            one is None or any(n > one.get(key, 0) for key, n in below.child.counts.items())
            for one in (known, known if below.before is None else below.before)
        )

    def adopts(self, below: Below) -> bool:
        """Whether a controller adopts an object that it did not make, or that was not observed below it."""
        child, coverage = below.child, self._view.coverage
        return bool(child.version) and below.owner.uid not in (
            coverage.lives.above(child.uid), coverage.parent_of(child.uid)
        )  # fmt: skip

    def holder(self, uid: str) -> Holder | None:
        """The object charged for everything below ``uid``; None if that was not observed, or was deleted."""
        if self._is_gone(uid):
            return None
        uid = self._view.coverage.holder(uid)
        found = self._view.objects.get(uid)
        if found is not None:
            labels, namespace = found.labels, found.namespace
            # The place of its charge; without a right to a quota it gets no more.
            where = self._view.counted(labels, namespace) or self._view.place(labels, namespace)
            return Holder(
                uid, found.kind, found.namespace, found.name, found.ask.demand,
                types_of(found.labels), where,
            )  # fmt: skip
        granted = self._view.coverage.grant(uid)
        if granted is None:
            return None
        node, grant = granted
        return Holder(
            uid, grant.kind, grant.namespace, grant.name, grant.demand, grant.types,
            QuotaRef(node.kind, node.name, "", node.name),
        )  # fmt: skip

    def unheld(self, below: Below, holder: Holder | None, review: Review) -> Answer | None:
        """The refusal of an object below an owner without a charged holder, or below an unobserved one; None if it may pass.

        A deleted owner refuses it. An unobserved owner refuses it, unless a
        controller creates the object: a created object counts for the owner once that is observed. An adopted one may have been
        charged to another quota, and may be larger than the owner's own pods.
        """
        is_seen = below.owner.uid in self._view.objects
        if holder is not None and (is_seen or not self.adopts(below)):
            return None
        if not is_governed(self._view, review):
            return None
        what = f"{below.owner.kind} {below.owner.name!r}"
        if self._is_gone(below.owner.uid):
            message = f"{what}, or what stands above it, is gone (owner-gone)"
            return Answer(False, "owner-gone", message, code=409)
        if self.controllers.wrote(review) and not self.adopts(below):
            return None
        message = f"{what} was not seen yet: try again in a moment (owner-unseen)"
        return Answer(False, "owner-unseen", message, code=409)

    def _is_gone(self, uid: str) -> bool:
        """Whether an object, or one of its owners, was deleted."""
        for _ in range(DEPTH):
            if not uid or self._view.gone(uid) is not None:
                break
            uid = self._view.coverage.parent_of(uid)
        return self._view.gone(uid) is not None

    def expect(self, below: Below) -> Undo:
        """Count it from now on; returns a function to undo it."""
        now_us = self._clock.now_us()
        self._view.coverage.expire(now_us)
        return self._view.coverage.expect(below.child, now_us)

    def reshape(self, below: Below) -> None:
        """Note that the request of one replica may change from now on."""
        if below.reshapes:
            self._view.coverage.reshaped.add(below.child, self._clock.now_us())

    def is_asked(self, below: Below, review: Review) -> bool:
        """Whether the owner's charge is decided for it at any size: a controller makes only requested pods, but
        adopts any number, and users make any change.
        """
        is_users = bool(below.child.version) and not self.controllers.wrote(review)
        return is_users or below.reshapes or self.adopts(below)

    def asks(
        self, below: Below, holder: Holder, held: dict[str, int], review: Review
    ) -> tuple[dict[str, int], Undo]:
        """The needed charge of the holder with the child counted from now on, and a function to undo the count.

        ``held``: its charge. Other processes may admit pods at this moment that use all of it. So a child that is adopted, or
        changed by a user, is charged in addition. If the holder's own controller adopts a pod, it makes one pod less,
        and only the difference in size is charged in addition.
        """
        rises, is_added = self.rises(below), self.is_asked(below, review)
        # An operator under any account need not make one less after an adoption by its object.
        is_open = kinds.is_open(below.owner.kind, below.child.kind)
        is_own = self.adopts(below) and below.owner.uid == holder.uid and not is_open
        before, over = self._weight(holder), summed(self._oversize(below), holder.types)
        undo = self.expect(below)
        if not rises:
            return {}, undo
        need = self.need(below, holder)
        if not is_added:
            return need, undo
        wants = charged(holder.demand, holder.types)
        base = largest(wants, held) if is_own else held
        grows = over if is_own else largest(less(self._weight(holder), before), over)
        return dict(largest(need, added(base, grows))), undo

    def _weight(self, holder: Holder) -> dict[str, int]:
        return summed(self._view.coverage.lives.node(holder.uid).below, holder.types)

    def _oversize(self, below: Below) -> dict[str, int]:
        """The request of a pod beyond that of its controller's other pods, and beyond its own earlier admission."""
        maker = self._view.objects.get(below.owner.uid)
        makes = maker is not None and maker.ask.per_replica is not None and maker.ask.demand
        if maker is None or not (below.is_pod and makes):
            return {}
        one = counts_of(maker.kind, kinds.scaled(maker.ask, 1))
        known = self._view.coverage.lives.pod(below.child.uid)
        before = {} if self.adopts(below) else largest(below.before or {}, known or {})
        return less(less(below.child.counts, one), less(before, one))

    def need(self, below: Below, holder: Holder) -> dict[str, int]:
        """The needed charge of the holder: for a pod the live pods, for a controller its whole request."""
        lives = self._view.coverage.lives
        sums = lives.node(holder.uid).pods if below.is_pod else lives.node(holder.uid).below
        return summed(sums, holder.types)

    def most(self, below: Below, holder: Holder) -> dict[str, int] | None:
        """The most live pods below the holder, with unobserved ones admitted by other processes; None if unknown.

        Controllers make no more pods than their objects request, beside ending ones. A charge
        above the objects' requests falls as soon as the reconciler sees it unused, so no pod passes by it without an entry.
        """
        lives, types, maker = self._view.coverage.lives, holder.types, below.owner.uid
        wants = charged(holder.demand, types)
        if not below.is_pod:
            need = self.need(below, holder)
            return None if less(need, wants) else need
        asked = wants if maker == holder.uid else summed(lives.node(maker).asked, types)
        there = lives.node(maker).pods
        one, number = summed(below.child.counts, types), lives.node(maker).children
        if any(n > number * one.get(key, 0) for key, n in summed(there, types).items()):
            # An adopted pod is larger than the controller's own.
            return None
        if less(summed(there, types), asked):
            return None
        total = largest(wants, summed(lives.node(holder.uid).below, types))
        ends = summed(ending(lives.node(holder.uid).pods), types)
        return {key: n + ends.get(key, 0) for key, n in total.items()}

    def orphaned(self, review: Review, kind: str, uid: str) -> Holder | None:
        """The owner whose children the garbage collector orphans before its deletion.

        Only if that owner is charged itself: if its own owner stays, it is made again with all its pods.
        """
        old = (review.old_object or {}).get("metadata") or {}
        owner = kinds.governing_owner(old) if review.operation == "UPDATE" else None
        if owner is None or not (self.controllers.wrote(review) and collects(review)):
            return None
        if self._view.coverage.is_own(uid, kind, owner):
            return None
        holder = self.holder(owner.uid)
        return holder if holder is not None and holder.uid == owner.uid else None

    def weighs(self, kind: str, uid: str, ask: kinds.Ask, before: Stored = None) -> dict[str, int]:
        """The least charge of an object. It covers the pods below the object, and the pods that may still come there.

        ``before``: the object's earlier request, by which its controller may still create pods.
        """
        node, awaited = self._view.coverage.lives.node(uid), {}
        if isinstance(before, kinds.Ask) and self._view.state.listed_us(POD):
            awaited = dict(largest(node.awaited, missing(counts_of(kind, before), node.total)))
        return summed(added(node.total, awaited) if awaited else node.below, types_of(ask.labels))


def _is_same(review: Review, owner: Owner) -> bool:
    """Whether the object has had this controller before."""
    old = (review.old_object or {}).get("metadata") or {}
    return controller_of(old) == (owner.kind, owner.uid)
