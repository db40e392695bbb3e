"""The runtime of quotas: the division of a parent's total of one resource among its children.

Pure. Each child gets its floor, or only its request if it is smaller and the child lends; the rest is divided by
weight among children with a request above their floor, until all have their request or nothing is left. If the
floors alone exceed the total they are not cut: runtimes then sum to more than the total, unless mins are scaled
before (`scaling`).

Rounding: `largest_remainder` distributes every unit, exactly, with ties by name; `half_up` is the rule of
Koordinator v1.0 (each share rounded by itself on doubles, so units are lost or invented) and is kept for comparison
only. Source: Koordinator `runtime_quota_calculator.go`; docs/quotas.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple


class ChildShare(NamedTuple):
    """One child's input to the division of one resource.

    `floor` is the larger of its (scaled) min and its guarantee; `request` is already cut to max.
    """

    name: str
    floor: int
    request: int
    weight: int
    lends: bool = True


def floor(least: int, guaranteed: int = 0) -> int:
    """A child's certain amount if it requests it, whatever the others request: its min or its guarantee."""
    return max(least, guaranteed)


Rounding = Callable[[int, int, Sequence[ChildShare]], list[int]]
"""From a pool, the sum of the weights (both above zero) and the borrowers to the share of each."""


def largest_remainder(pool: int, weights: int, borrowers: Sequence[ChildShare]) -> list[int]:
    """Shares by weight with the pool as their sum.

    The units left by whole division go one each to the largest remainders, the first name first among equals.
    """
    parts = [divmod(one.weight * pool, weights) if one.weight > 0 else (0, 0) for one in borrowers]
    shares = [share for share, _ in parts]
    left = pool - sum(shares)
    if left:
        # Fewer units are left than there are remainders above zero, so a weight of zero gets none.
        order = sorted(
            (-rest, one.name, n)
            for n, ((_, rest), one) in enumerate(zip(parts, borrowers, strict=True))
        )
        for _, _, number in order[:left]:
            shares[number] += 1
    return shares


def runtimes(
    total: int, claims: Iterable[ChildShare], rounding: Rounding = largest_remainder
) -> dict[str, int]:
    """The runtime of each claimant by name, whatever the order of the claims.

    With `largest_remainder` they sum to at most the total, unless the floors exceed it. Each round ends when a
    borrower has its whole request, so there are at most as many as borrowers.
    """
    result: dict[str, int] = {}
    borrowers: list[ChildShare] = []
    pool = total
    for claim in claims:
        name, least, request, _, lends = claim
        if request > least:
            borrowers.append(claim)
            given = least
        else:
            given = request if lends else least
        result[name] = given
        pool -= given
    while pool > 0 and borrowers:
        weights = sum(one.weight for one in borrowers if one.weight > 0)
        if not weights:
            break
        shares = rounding(pool, weights, borrowers)
        pool, unsatisfied = 0, []
        for claim, share in zip(borrowers, shares, strict=True):
            now = result[claim.name] + share
            if now < claim.request:
                result[claim.name] = now
                unsatisfied.append(claim)
            else:
                result[claim.name] = claim.request
                pool += now - claim.request
        borrowers = unsatisfied
    return result
