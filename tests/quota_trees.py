"""Quota trees for tests: each step is decided by the product's own functions and stored at once.

Times are whole seconds; one key, ``limits.cpu``, unless a test says more.
"""

from bus.clock import SECOND_US
from bus.events.admissions import Meter, QuotaDeclared, QuotaSpec, TreeMetered
from projections.quota_trees import Tree, TreeOverlay
from projections.quota_trees.shape import BUSINESS
from reactors.admission.deciding.decide import Request, decide
from reactors.admission.deciding.declare import Proposal, declare
from reactors.admission.deciding.reconcile import (
    Absent,
    LastSeen,
    SeenQuota,
    declared,
    settle,
    shows,
)

CPU = "limits.cpu"


def amounts(hard):
    """A number means that much of :data:`CPU`."""
    return {CPU: hard} if isinstance(hard, int) else hard


def spec_of(hard, **fields):
    """Limits of a quota."""
    return QuotaSpec(hard=amounts(hard), **fields)


def request(uid="w", demand=1, quota="q", **fields):
    """An object asks for something."""
    fields = {"kind": "Deployment", "namespace": "ns", "name": uid} | fields
    return Request(quota=quota, uid=uid, demand=amounts(demand), **fields)


class Books:
    """A tree and what its keeper remembers of it."""

    def __init__(self):
        self.tree = Tree("biz/q")
        self.confirmed = {}

    def store(self, *facts, at=0):
        """Append facts that were decided on the tree as it is."""
        draft = TreeOverlay(self.tree)
        for fact in facts:
            draft.add(fact, at * SECOND_US)
        start = self.tree.sequence + 1
        draft.store(range(start, start + len(facts)))

    def ask(self, uid="w", demand=1, quota="q", at=0, **fields):
        """A webhook decides and stores; the answer."""
        answer = decide(
            TreeOverlay(self.tree), request(uid, demand, quota, **fields), at * SECOND_US
        )
        self.store(answer, at=at)
        return answer

    def propose(self, name, hard, parent="", operation="CREATE", at=0, old_parent="", **fields):
        """A webhook decides about a quota and stores; the answer. ``hard`` None: delete it."""
        spec = None if hard is None else spec_of(hard, **fields)
        uid = f"uid-{name}"
        proposal = Proposal(operation, name, uid, parent, spec, old_parent=old_parent or parent)
        answer = declare(TreeOverlay(self.tree), proposal, at * SECOND_US)
        self.store(answer, at=at)
        return answer

    def show_quota(self, name="q", hard=10, parent="", at=0, uid=None, **fields):
        """The keeper sees a quota's object (``hard`` None: its end); what it says, or None."""
        spec = None if hard is None else spec_of(hard, **fields)
        seen = SeenQuota(name, uid or f"uid-{name}", BUSINESS, parent, spec, at * SECOND_US)
        fact = declared(TreeOverlay(self.tree), seen)
        if fact is not None:
            self.store(fact, at=at)
        return fact

    def show(self, uid="w", demand=1, quota="q", at=0, is_gone=False, types=None):
        """The keeper sees an object; what it says."""
        seen = LastSeen(
            uid, "Deployment", "ns", uid, quota, amounts(demand), types or {},
            at * SECOND_US, is_gone,
        )  # fmt: skip
        for name in self.tree.holders.get(uid, ()):
            grant = self.tree.nodes[name].grants[uid]
            if shows(grant, seen):
                self.confirmed[(name, uid)] = grant.number
        facts = settle(TreeOverlay(self.tree), seen, self.confirmed)
        self.store(*facts, at=at)
        return facts

    def miss(self, uid="w", at=0):
        """A complete list asked for then has no such object; what the keeper says."""
        facts = settle(TreeOverlay(self.tree), Absent(uid, at * SECOND_US), self.confirmed)
        self.store(*facts, at=at)
        return facts

    def meter(self, key=CPU, spent=0, rate=0, quota="q", at=0, **fields):
        """A budget was metered."""
        meters = (Meter(quota, key, spent, rate, at, **fields),)
        self.store(TreeMetered(number=self.tree.number + 1, meters=meters), at=at)

    def used(self, quota="q", key=CPU):
        """What is used of a key."""
        return self.tree.nodes[quota].used(key)


def observed(tree, name, hard, parent="", **fields):
    """The fact that a quota stands with these limits."""
    return QuotaDeclared(
        number=tree.number + 1, quota=name, uid=f"uid-{name}", kind=BUSINESS, parent=parent,
        stage="observed", verdict="adopted", reason="seen", spec=spec_of(hard, **fields),
    )  # fmt: skip


def said(answer):
    """Verdict and reason."""
    return answer.verdict, answer.reason
