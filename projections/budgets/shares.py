"""A budget that spans clusters is the sum of its shares: the budgets of one quota, key and period, one in each cluster.

Each cluster holds its own share, whatever becomes of its link to the others, so the sum is never overspent because nobody could
ask. What one cluster does not need can be moved to another by two credits, the one that takes first.

Source: docs/quotas.md, "A budget for many clusters".
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class Share(msgspec.Struct, frozen=True):
    """One cluster's part of a budget in unit·seconds, as ``v1_budget`` has it. ``is_known``: its cluster is heard of now."""

    cluster: str
    spent: int
    committed: int
    left: int
    is_known: bool


def moves(shares: Iterable[Share], hour: int) -> dict[str, int]:
    """What to credit to each share, in unit·seconds, so that all last equally long if they are spent as in this period so far.

    ``hour``: unit·seconds of an hour of the key; only whole ones are moved. The credits sum to 0. Nothing is taken that running
    work may still spend, and nothing is moved to or from a cluster that is not heard of: what it spent since is unknown. Empty
    where nothing is left, nothing was spent yet, or fewer than two shares are known.
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
    """Whole hours in proportion to what each lacks; those that are left over go where most of one is cut off."""
    whole = sum(lacks.values())
    given = {name: hours * lack // whole for name, lack in lacks.items()}
    over = hours - sum(given.values())
    cut = sorted(lacks, key=lambda name: (-(hours * lacks[name] % whole), name))
    return {name: given[name] + (name in cut[:over]) for name in lacks}
