"""Coverage by owners: the objects covered by an owner, and the live pods below it. Pure but for its state.

An object is covered by its controller if that was observed with this uid, kind and namespace, unless the object was admitted
in its own right. Kinds are listed one after the other. So an object with an unobserved controller waits :data:`RESOLVE_US`
for it. Then it is charged itself, and returns the charge if the controller is observed later.

Source: ``docs/admission.md`` ("Objects below an owner").
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import msgspec

from bus.clock import SECOND_US
from bus.envelope import Event
from bus.events.admissions import AdmissionDecided, Child
from bus.events.pods import Owner
from bus.kube.kinds import is_open
from projections import timelines
from projections.cluster import POD, Change, ClusterState, Pod, Workload
from projections.cluster.objects import Gone
from projections.engine.parts import Part
from projections.quota_trees.shape import LANDED_US, Grant, TreeNode
from reactors.admission.coverage.chains import DEPTH
from reactors.admission.coverage.lives import LiveSums, SavedLives, Undo
from reactors.admission.coverage.named import Named, SavedNamed, named
from reactors.admission.coverage.objects import (
    ChargedObjects,
    Object,
    counts_of,
    counts_of_pod,
    fallen,
)
from reactors.admission.coverage.owners import NODE, is_covering
from reactors.admission.coverage.reshaped import Reshaped, SavedReshaped

#: So long an object waits for its controller to be seen.
RESOLVE_US = 15 * SECOND_US


class Charges(Protocol):
    """The charges in the journals."""

    def grants(self, uid: str) -> Iterator[tuple[TreeNode, Grant]]:
        """The charges for an object, by quota."""
        ...

    def charges_in(self, namespace: str) -> bool:
        """Whether anything is held for an object of a namespace."""
        ...


#: Deleted objects with a charge of their own despite a named controller; of very many the oldest are forgotten.
GONE_KEPT = 10_000


class CoverageView(Protocol):
    """The observed cluster, as far as coverage reads it: :class:`reactors.admission.state.state.AdmissionState`."""

    objects: ChargedObjects
    #: Objects for the reconciler to check.
    changed: set[str]
    state: ClusterState

    def gone(self, uid: str) -> Gone | None:
        """The deleted object, if it is still remembered."""
        ...

    def drop(self, uid: str) -> None:
        """Forget an object that only its coverage kept."""
        ...


class SavedCoverage(msgspec.Struct):
    """The coverage in a snapshot."""

    lives: SavedLives
    _waiting: dict[str, set[str]]
    _since_us: dict[str, int]
    _let_go: dict[str, tuple[str, str, int]]
    _own_gone: dict[str, None]
    named: SavedNamed
    reshaped: SavedReshaped


class Coverage(Part):
    """Part of a view, and reads its objects; ``charges`` None: the pods below owners are not counted."""

    Saved = SavedCoverage
    derived = frozenset({"_view", "charges"})

    def __init__(self, view: CoverageView, charges: Charges | None) -> None:
        self._view = view
        self.charges = charges
        self.lives = LiveSums(self.parent_of, view.changed.add)
        #: By the uid of an unobserved controller: the objects that wait for it.
        self._waiting: dict[str, set[str]] = {}
        #: Since when each waits, oldest first.
        self._since_us: dict[str, int] = {}
        #: By uid: (owner, version, until when) of objects orphaned by a deleted owner, and not observed since.
        self._let_go: dict[str, tuple[str, str, int]] = {}
        #: Deleted objects with a charge of their own despite a named controller.
        self._own_gone: dict[str, None] = {}
        self.named = Named()
        self.reshaped = Reshaped()

    # observations

    def seen(self, found: Object) -> None:
        """An object was seen, and kept by the view."""
        if self.charges is None:
            return
        _landed(self._let_go, found)
        if is_covering(found.owner) and self.answers(found.owner, found.namespace) is None:
            self._wait(found.uid, found.owner, found.seen_us)
        if found.kind != POD:
            ask = counts_of(found.kind, found.ask) if is_covering(found.owner) else {}
            self.lives.see(found.uid, ask, found.version)
            self.arrived(found.uid)

    def decided(self, fact: AdmissionDecided, time_us: int) -> None:
        """Fold a stored decision: a child that raised its owner's charge may land, whichever process reviewed it."""
        if fact.left is not None:
            self._let_go.pop(fact.uid, None)
            self._let_go[fact.uid] = (fact.left.uid, fact.resource_version, time_us + LANDED_US)
        if fact.owner and fact.verdict == "admitted" and fact.left is None:
            self.named.add(fact.uid, fact.owner)
        self.charged(fact.uid)
        if fact.left is not None and fact.kind == POD:
            # It counts for itself before it is seen without its owner.
            self.lives.drop_pod(fact.uid)
        if fact.child is not None and fact.verdict == "admitted" and self.charges is not None:
            self.expect(fact.child, time_us)
            if fact.reshapes:
                self.reshaped.add(fact.child, time_us)

    def expect(self, child: Child, now_us: int) -> Undo:
        """Count an admitted child; returns a function to undo it."""
        put = self.lives.expect_pod if child.kind == POD else self.lives.expect
        return put(child.uid, child.owner, child.counts, child.version, now_us)

    def charged(self, uid: str) -> None:
        """A journal says something new of an object: it may be charged in its own right now, or not any more."""
        if (found := self._view.objects.get(uid)) is not None and is_covering(found.owner):
            self.lives.relink(uid)

    def pod(self, pod: Pod) -> bool:
        """Fold an observed pod. Returns whether it is a workload itself: it has no responsible owner, or none is known yet."""
        owner, uid = pod.owner, pod.uid
        _landed(self._let_go, pod)
        if owner is None or not (is_covering(owner) or owner.kind == NODE):
            self.lives.drop_pod(uid)
            return True
        if self.charges is None:
            return False
        answers = self.answers(owner, pod.namespace, pod.name)
        if answers is False or self.is_own(uid, POD, owner):
            self.lives.drop_pod(uid)
            return True
        if pod.is_ended:
            self.lives.drop_pod(uid)
        elif owner.kind != NODE:
            self.lives.see_pod(
                uid,
                owner.uid,
                counts_of_pod(pod),
                pod.version,
                pod.seen_us,
                is_ending=pod.is_terminating,
            )
        if answers is None:
            self._wait(uid, owner, pod.seen_us)
        return answers is None

    def _wait(self, uid: str, owner: Owner, time_us: int) -> None:
        waiting = self._waiting.setdefault(owner.uid, set())
        if uid not in waiting:
            waiting.add(uid)
            self._since_us[uid] = time_us

    def arrived(self, uid: str) -> None:
        """Fold an observed object: objects that wait for it have a controller now, or an invented reference."""
        for child in sorted(self._waiting.pop(uid, ())):
            self._since_us.pop(child, None)
            found = self._view.objects.get(child)
            if found is None:
                continue
            if found.kind != POD:
                self.lives.relink(child)
            elif self.covered(found):
                self._view.drop(child)
            else:
                self.lives.drop_pod(child)
            self._view.changed.add(child)

    def changes(self, change: Change) -> None:
        """Fold a changed or deleted workload. Without a watch of pods, its missing pods are unknown."""
        asked, since_us = fallen(change)
        if asked and self.charges is not None and self._view.state.listed_us(POD):
            self.lives.awaited.rest(change.uid, asked, since_us)

    def gone(self, found: Workload) -> None:
        """Fold a deleted workload. The pods below it still count at their place, or for its owner."""
        self.reshaped.forget(found.uid)
        self.lost(found)
        if found.owner is None:
            self.named.forget(found.uid)
            return
        if self.is_own(found.uid, found.kind, found.owner) or _is_given_away(self.charges, found):
            self._own_gone[found.uid] = None
            if len(self._own_gone) > GONE_KEPT:
                del self._own_gone[next(iter(self._own_gone))]

    def left(self, uid: str) -> bool:
        """Fold the deletion of an object, or its absence from a list. Returns whether pods remain below it."""
        self.lives.relink(uid)
        self.lives.leave(uid)
        if not (has := self.lives.has(uid)):
            self.named.forget(uid)
        return has

    def lost(self, found: Object) -> None:
        """An object is gone, or is not kept any more."""
        self._since_us.pop(found.uid, None)
        if found.owner is not None and (waiting := self._waiting.get(found.owner.uid)):
            waiting.discard(found.uid)
            if not waiting:
                del self._waiting[found.owner.uid]

    def expire(self, now_us: int) -> None:
        """Mark objects that waited long enough for their controller, and drop expectations that cannot land any more."""
        self.lives.expire(now_us)
        self.reshaped.expire(now_us, self._view.objects)
        while self._let_go:
            uid = next(iter(self._let_go))
            if self._let_go[uid][2] > now_us:
                break
            del self._let_go[uid]
            self.charged(uid)
            self._view.changed.add(uid)
        while self._since_us:
            uid = next(iter(self._since_us))
            if self._since_us[uid] + RESOLVE_US > now_us:
                break
            del self._since_us[uid]
            self._view.changed.add(uid)

    # questions

    def covered(self, found: Object | Gone) -> bool | None:
        """Whether its controller covers an object; None while the controller is unknown."""
        owner = found.owner
        if owner is None or not (is_covering(owner) or owner.kind == NODE):
            return False
        if self.is_own(found.uid, found.kind, owner):
            return False
        answers = self.answers(owner, found.namespace, found.name)
        if answers is None:
            return None if found.uid in self._since_us else False
        return answers

    def parent_of(self, uid: str) -> str:
        """The uid of the controller that covers an object, or will once it is observed; "" for none."""
        found = self._view.objects.get(uid) or self._view.gone(uid)
        if found is None or (isinstance(found, Gone) and not found.was_seen):
            # Reviewed and not seen yet: as it was said then.
            return self.lives.above(uid)
        owner = found.owner
        if owner is None or not is_covering(owner) or self.is_own(uid, found.kind, owner):
            return ""
        return "" if self.answers(owner, found.namespace) is False else owner.uid

    def holder(self, uid: str) -> str:
        """The uid of the object charged for ``uid`` and the objects below it; "" while its chain is not observed to the end."""
        for _ in range(DEPTH):
            if not self.is_known(uid):
                return ""
            above = self.parent_of(uid)
            # An object admitted in its own right is charged itself until its owner is observed.
            waits = uid in self._since_us and self.grant(uid) is None
            if not above or not (self.is_known(above) or waits):
                return uid
            uid = above
        return ""

    def is_placed(self, uid: str) -> bool:
        """Whether the owner of an object is known: the chain of its owners was observed to its end."""
        top = uid if uid in self._view.objects else self.lives.above(uid)
        return uid not in self._since_us and bool(self.holder(top))

    def is_known(self, uid: str) -> bool:
        """Whether an object was seen, or reviewed a moment ago."""
        is_seen = uid in self._view.objects or self._view.gone(uid) is not None
        return is_seen or self.is_reviewed(uid)

    def grant(self, uid: str) -> tuple[TreeNode, Grant] | None:
        """The charge for an object that may not have been observed yet."""
        return next(self.charges.grants(uid), None) if self.charges is not None else None

    def is_reviewed(self, uid: str) -> bool:
        """Whether something is held for an object, or about to be."""
        return self.grant(uid) is not None or self.lives.is_expected(uid)

    def is_own(self, uid: str, kind: str, owner: Owner) -> bool:
        """Whether an object is charged itself, although it names this controller: it was admitted so, or it is the top.

        An object without a controller may be adopted later by one, and then that controller makes one object less.
        """
        if self.charges is None:
            return False
        if not _ends(self._view, uid, owner):
            return True
        if (let_go := self._let_go.get(uid)) is not None and let_go[0] == owner.uid:
            return True
        if is_open(owner.kind, kind):
            return False
        is_gone = uid in self._own_gone and uid not in self._view.objects
        if is_gone or self.named.has(uid, owner.uid):
            return True
        return any(named(one, owner.uid) for _, one in self.charges.grants(uid))

    def answers(self, owner: Owner, namespace: str, name: str = "") -> bool | None:
        """Whether there is such a controller; None if its uid is unknown."""
        if owner.kind == NODE:
            # A mirror pod carries the name of its node. A user's copy of it is charged by its review.
            node = self._view.state.nodes.get(owner.uid)
            return None if node is None else name.endswith(f"-{node.name}")
        known = self._view.objects.get(owner.uid) or self._view.gone(owner.uid)
        if known is not None:
            return (known.kind, known.namespace) == (owner.kind, namespace)
        if (granted := self.grant(owner.uid)) is not None:
            return (granted[1].kind, granted[1].namespace) == (owner.kind, namespace)
        return True if self.lives.is_expected(owner.uid) else None


def names_owner(event: Event) -> bool:
    """Whether a decision may concern an owner or objects below one. Most do not, and need not be decoded for that."""
    # In texts quotes are escaped, so these stand only where a field has them.
    return b'"owner":' in event.body or b'"child":' in event.body or b'"left":' in event.body


def _landed(let_go: dict[str, tuple[str, str, int]], found: Object) -> None:
    """An update is reviewed for one version, and lands on that one or is reviewed again: this one did, or never will."""
    known = let_go.get(found.uid)
    if known is not None and timelines.precedes(known[1], 0, found.version, 0):
        del let_go[found.uid]


def _is_given_away(charges: Charges | None, found: Workload) -> bool:
    """Whether an admitted update gives it to another controller, and may be stored by now without an observation."""
    return charges is not None and any(
        g.number
        and g.owners
        and g.version
        and not timelines.precedes(g.version, 0, found.version, 0)
        for _, g in charges.grants(found.uid)
    )


def _ends(view: CoverageView, uid: str, owner: Owner) -> bool:
    """Whether the chain of controllers above an object ends above it, as far as it is known: users write the references,
    and may write circles."""
    chain: Owner | None = owner
    passed: list[str] = []
    while chain is not None and chain.uid not in passed:
        above = view.objects.get(chain.uid) or view.gone(chain.uid)
        if chain.uid == uid or len(passed) == DEPTH:
            return False
        if above is None:
            break
        passed.append(chain.uid)
        chain = above.owner
    return True
