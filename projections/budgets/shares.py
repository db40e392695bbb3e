"""A budget of several clusters is the sum of its shares: the budgets of one quota, key and period, one in each
cluster.

Each cluster holds its own share, whatever becomes of its link to the others, so a lost link never overspends the
sum. Two credits move an unneeded amount to another cluster, the subtraction first.

Source: docs/quotas.md, "A budget for many clusters".
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class BudgetShare(msgspec.Struct, frozen=True):
    """One cluster's part of a budget in unit·seconds, as in ``v1_budget``. ``is_known``: its cluster is connected now."""

    cluster: str
    spent: int
    committed: int
    left: int
    is_known: bool


def moves(shares: Iterable[BudgetShare], hour: int) -> dict[str, int]:
    """The credit of each share, in unit·seconds, so all last equally long at this period's rate of spending.

    ``hour``: unit·seconds of an hour of the key; only whole ones are moved. The credits sum to 0. Amounts still
    needed by running work stay, and a disconnected cluster is left out: its spending since then is unknown. Empty
    if nothing is left, nothing was spent yet, or fewer than two shares are known.
    """
    known = [share for share in shares if share.is_known]
    left, spent = sum(share.left for share in known), sum(share.spent for share in known)
    if len(known) < 2 or left <= 0 or spent <= 0:
        return {}
    lacks = {share.cluster: left * share.spent // spent - share.left for share in known}
    taken = {
        share.cluster: min(-lacks[share.cluster], max(share.left - share.committed, 0)) // hour
        for share in known
        if lacks[share.cluster] < 0
    }
    given = _divided(sum(taken.values()), {name: lack for name, lack in lacks.items() if lack > 0})
    whole = {name: -hours for name, hours in taken.items()} | given
    return {name: hours * hour for name, hours in sorted(whole.items()) if hours}


def _divided(hours: int, lacks: dict[str, int]) -> dict[str, int]:
    """Whole hours in proportion to each one's lack; the remaining ones go to the largest cut-off fractions."""
    whole = sum(lacks.values())
    given = {name: hours * lack // whole for name, lack in lacks.items()}
    over = hours - sum(given.values())
    cut = sorted(lacks, key=lambda name: (-(hours * lacks[name] % whole), name))
    return {name: given[name] + (name in cut[:over]) for name in lacks}
