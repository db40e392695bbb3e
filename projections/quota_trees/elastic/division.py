"""One level of a tree of elastic quotas: the claims of one parent's children, and the division of the parent's
total.

A division remembers the total it was made from, and is dropped when a child changes. In memory, without IO.
Source: Koordinator `group_quota_manager.go`; docs/quotas.md.
"""

from __future__ import annotations

from typing import NamedTuple

from projections.quota_trees.elastic.runtime import ChildShare, floor, runtimes
from projections.quota_trees.elastic.scaling import scaled_mins
from projections.quota_trees.elastic.shape import ElasticQuota, Resources, shared_weight
from projections.quota_trees.elastic.tree import Mode


class Division(NamedTuple):
    """A divided total; `mins` only if they were scaled for it."""

    total: int
    mins: dict[str, int] | None
    runtimes: dict[str, int]


class _Claims(NamedTuple):
    """The claims of a parent's children for one resource before any scaling, and their mins."""

    by_name: dict[str, ChildShare]
    mins: dict[str, int]
    total_min: int


class QuotaNode:
    """A quota with the sums over it and all below; `up` is None beside the tree."""

    __slots__ = ("allocated", "asked", "held", "least", "limited", "quota", "up", "used", "weight")

    def __init__(self, quota: ElasticQuota, least: Resources) -> None:
        self.quota = quota
        self.weight = shared_weight(quota)
        self.least = least
        self.up: str | None = None
        self.asked: dict[str, int] = {}
        self.limited: dict[str, int] = {}
        self.used: dict[str, int] = {}
        self.held: dict[str, int] = {}
        self.allocated: dict[str, int] = {}

    def request(self, key: str) -> int:
        """The request of a resource by it and all below."""
        return max(self.asked.get(key, 0), self.least.get(key, 0))

    def limit(self, key: str) -> int:
        """The part of its request visible to its parent: at most its max."""
        request = self.request(key)
        return min(request, self.quota.max.get(key, request))

    def guaranteed(self, key: str) -> int:
        """Its guaranteed amount."""
        return max(self.allocated.get(key, 0), self.quota.min.get(key, 0))


class Group:
    """The children of one parent: their claims of each resource, and the last division."""

    __slots__ = ("_claims", "_divided", "_mode", "children")

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self.children: dict[str, QuotaNode] = {}
        self._claims: dict[str, _Claims] = {}
        self._divided: dict[str, Division] = {}

    def forget(self) -> None:
        """Claim and divide anew: a child came, went or changed."""
        self._claims.clear()
        self._divided.clear()

    def claim_anew(self, node: QuotaNode, key: str) -> None:
        """The claim of one child of a resource has changed."""
        self._divided.pop(key, None)
        claims = self._claims.get(key)
        if claims is not None:
            claims.by_name[node.quota.name] = self._claim(node, key)

    def division(self, key: str, total: int) -> Division:
        """How a total of a resource is divided now."""
        found = self._divided.get(key)
        if found is None or found.total != total:
            found = self._divided[key] = self._division(key, total)
        return found

    def _division(self, key: str, total: int) -> Division:
        claims = self._claims.get(key)
        if claims is None:
            claims = self._claims[key] = self._claimed(key)
        if not self._mode.scale_min or total >= claims.total_min:
            shares = runtimes(total, claims.by_name.values(), self._mode.rounding)
            return Division(total, None, shares)
        mins = scaled_mins(total, claims.mins)
        scaled = (self._claim(node, key, mins[name]) for name, node in self.children.items())
        return Division(total, mins, runtimes(total, scaled, self._mode.rounding))

    def _claimed(self, key: str) -> _Claims:
        by_name = {name: self._claim(node, key) for name, node in self.children.items()}
        mins = {name: node.quota.min.get(key, 0) for name, node in self.children.items()}
        return _Claims(by_name, mins, sum(mins.values()))

    def _claim(self, node: QuotaNode, key: str, scaled: int | None = None) -> ChildShare:
        guarantee, quota = self._mode.guarantee, node.quota
        least = quota.min.get(key, 0) if scaled is None else scaled
        return ChildShare(
            quota.name,
            floor(least, node.guaranteed(key)) if guarantee else least,
            node.limited.get(key, 0),
            node.weight.get(key, 0),
            quota.lends and not guarantee,
        )
