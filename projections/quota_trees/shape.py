"""Values of a quota tree: its nodes, and their charges by object.

Source: docs/quotas.md; docs/architecture.md.
"""

from __future__ import annotations

import msgspec

from bus.clock import SECOND_US
from bus.events.admissions import Meter, QuotaSpec

#: The kinds of quotas, as their objects name them.
BUSINESS = "BizGroupResourceQuota"
ELASTIC = "ElasticQuota"

#: After this an admitted request has landed in the cluster or never will: the API server's request deadline, 60 s,
#: and a margin for two different clocks (docs/reliability.md).
LANDED_US = 75 * SECOND_US


#: Most remembered controllers of one object, and the mark for any further ones.
MOST_OWNERS = 8
ANY_OWNER = "*"


class Grant(msgspec.Struct, frozen=True):
    """The charge of one quota for one object (uid)."""

    quota: str
    uid: str
    kind: str
    namespace: str
    name: str
    charge: dict[str, int]
    #: Its last request; less than the charge while a shrink waits for its observation.
    demand: dict[str, int]
    types: dict[str, str]
    #: Place in the journal, and time, of the last admitted request; 0 without one.
    number: int
    asked_us: int
    #: At its admission, no other request here can have been on its way into the cluster, and the object cannot have
    #: been like that already: its observation proves that none is on its way.
    is_alone: bool
    #: All requests possibly on their way are equal.
    is_same: bool
    is_adopted: bool = False
    #: resourceVersion before the last request: a later one of the object proves its landing or its failure.
    version: str = ""
    #: The same for requests with changes of one replica's demand, or of the charged quota: the newest of them.
    reshaped: str = ""
    #: Uids of the controllers named at its admissions in its own right: those do not answer for it. All of them, as
    #: any request may have landed; :data:`ANY_OWNER` for too many.
    owners: tuple[str, ...] = ()
    #: Its object is deleted without its children; they took their part: it no longer requests its admitted demand.
    is_leaving: bool = False


class TreeNode(msgspec.Struct):
    """One quota of the tree.

    ``asked`` are admitted changes still able to land in the cluster, oldest first. Until they are settled the
    strictest of all limits counts for everything below, and the largest for the parent; an unobserved quota has
    none to give.
    """

    name: str
    uid: str
    kind: str
    parent: str
    observed: QuotaSpec | None = None
    asked: tuple[QuotaSpec, ...] = ()
    asked_us: int = 0
    #: The last change leads to a state impossible before, and no other can have been on its way.
    is_alone: bool = True
    self_used: dict[str, int] = {}
    children: dict[str, dict[str, int]] = {}
    claims: dict[str, int] = {}
    grants: dict[str, Grant] = {}
    by_namespace: dict[str, dict[str, int]] = {}

    @property
    def is_elastic(self) -> bool:
        """Whether its share depends on the requests of others."""
        return self.observed is not None and (self.kind == ELASTIC or bool(self.observed.max))

    @property
    def spec(self) -> QuotaSpec:
        """The limits as last admitted; shown and compared."""
        return self.asked[-1] if self.asked else self.observed or QuotaSpec()

    def limit(self, key: str) -> int | None:
        """The limit for everything below; None = not limited."""
        if self.observed is None:
            return 0
        if not self.asked:
            return self.observed.hard.get(key)
        limits = (spec.hard.get(key) for spec in (self.observed, *self.asked))
        return min((limit for limit in limits if limit is not None), default=None)

    def cash(self, key: str) -> int:
        """The budget of a key: the smallest of those observed and asked."""
        return min((s.cash[key] for s in self._specs() if key in s.cash), default=0)

    def limited(self) -> dict[str, int]:
        """Every limited key and its limit."""
        if self.observed is not None and not self.asked:
            return self.observed.hard
        keys = {key for spec in self._specs() for key in spec.hard}
        return {key: self.limit(key) or 0 for key in sorted(keys)}

    def claimed(self) -> dict[str, int]:
        """Its claim on its parent."""
        found: dict[str, int] = {}
        for spec in self._specs():
            for key, amount in spec.hard.items():
                found[key] = max(found.get(key, 0), amount)
        return found

    def _specs(self) -> tuple[QuotaSpec, ...]:
        return (self.observed, *self.asked) if self.observed else self.asked

    def ask(self, uid: str, spec: QuotaSpec, time_us: int) -> None:
        """A change was admitted."""
        is_late = time_us > self.asked_us + LANDED_US
        # A possible earlier state proves nothing when it is observed.
        self.is_alone = (is_late or not self.asked) and spec not in self._specs()
        if self.asked[-1:] != (spec,):
            self.asked = (*self.asked, spec)
        self.asked_us = time_us
        if self.observed is None:
            self.uid = uid

    def used(self, key: str) -> int:
        """The charges of its workloads and the claims of its children."""
        return self.self_used.get(key, 0) + self.claims.get(key, 0)

    def claim(self, child: str, amounts: dict[str, int] | None) -> None:
        """Let a child claim these amounts from now on; None: it is gone."""
        for key, amount in self.children.pop(child, {}).items():
            self.claims[key] -= amount
        if amounts is not None:
            self.children[child] = amounts
            for key, amount in amounts.items():
                self.claims[key] = self.claims.get(key, 0) + amount


def spent(meter: Meter | None, cash: int, at_s: int) -> tuple[int, int]:
    """(spent, limit) at a second, of a budget with this ``cash``."""
    if meter is None:
        return 0, cash
    if meter.resets_s and at_s >= meter.resets_s:
        return meter.rate * (at_s - meter.resets_s), cash
    limit = cash + meter.credits if meter.is_granted else 0
    return meter.spent + meter.rate * max(at_s - meter.at_s, 0), limit
