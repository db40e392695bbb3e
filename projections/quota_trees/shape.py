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

#: After this a request that was admitted has landed in the cluster or never will: the API server's
#: request deadline, 60 s, and a margin for two clocks that differ (docs/reliability.md).
LANDED_US = 75 * SECOND_US


#: Most controllers of one object that are remembered, and what stands for all there are behind them.
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
    #: What it asked for last; less than the charge while a shrink waits to be seen.
    demand: dict[str, int]
    types: dict[str, str]
    #: Place in the journal, and time, of the last ask that was admitted; 0 while nobody asked.
    number: int
    asked_us: int
    #: When that one was admitted, no other ask here can have been on its way into the cluster, and the
    #: object cannot have been like that already: its sight proves that nothing is on its way.
    is_alone: bool
    #: All asks that can have been on their way say the same.
    is_same: bool
    is_adopted: bool = False
    #: resourceVersion that the last ask would change: seen later, the object shows that it landed or never will.
    version: str = ""
    #: The same of the asks that change what one replica asks for, or where it is charged: the newest of them.
    reshaped: str = ""
    #: Uids of the controllers that it named whenever it was admitted in its own right: those do not answer for it.
    #: All of them, as the last ask need not be the one that landed; :data:`ANY_OWNER` where there were too many.
    owners: tuple[str, ...] = ()
    #: Its object is deleted without its children, which took their part: what it was admitted with it asks for no more.
    is_leaving: bool = False


class Node(msgspec.Struct):
    """One quota of the tree.

    ``asked`` are changes that were admitted and may still land in the cluster, oldest first. Until
    they are settled the strictest of all limits counts for what is below, and the largest for the
    parent; a quota that was never seen has none to give.
    """

    name: str
    uid: str
    kind: str
    parent: str
    observed: QuotaSpec | None = None
    asked: tuple[QuotaSpec, ...] = ()
    asked_us: int = 0
    #: The last change is one to what it cannot have been before, and no other can have been on its way.
    is_alone: bool = True
    self_used: dict[str, int] = {}
    children: dict[str, dict[str, int]] = {}
    claims: dict[str, int] = {}
    grants: dict[str, Grant] = {}
    by_namespace: dict[str, dict[str, int]] = {}

    @property
    def is_elastic(self) -> bool:
        """Whether what it may use depends on what others ask for."""
        return self.observed is not None and (self.kind == ELASTIC or bool(self.observed.max))

    @property
    def spec(self) -> QuotaSpec:
        """The limits as last admitted; what is shown and compared."""
        return self.asked[-1] if self.asked else self.observed or QuotaSpec()

    def limit(self, key: str) -> int | None:
        """What is below may use this much; None = not limited."""
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
        """What it takes of its parent."""
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
        # What it may be already proves nothing when it is seen.
        self.is_alone = (is_late or not self.asked) and spec not in self._specs()
        if self.asked[-1:] != (spec,):
            self.asked = (*self.asked, spec)
        self.asked_us = time_us
        if self.observed is None:
            self.uid = uid

    def used(self, key: str) -> int:
        """What its workloads hold and its children claim."""
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
