"""The quota keys charged for a workload's time.

A quota's key is ``limits.RESOURCE`` or ``requests.RESOURCE``, with a type behind a dot: ``limits.cpu.A4``. Work
with a type label spends on the typed key and on every dot-boundary prefix of it in the quota; work without one on
the plain key alone. The ledger charges one amount for each resource, so both words mean the same account there: the
account ``cpu.A4`` pays for ``limits.cpu.A4`` and ``requests.cpu.A4``. :mod:`projections.quota_trees.keys` has the
keys of *charged* amounts.

Source: docs/quotas.md (keys, labels, charging).
"""

from __future__ import annotations

import re

_KEY = re.compile(
    r"(?:limits|requests)\.(?:(?P<plain>cpu|memory)|(?:[^/]+/)?(?P<gpu>gpu))(?:\.(?P<type>.+))?"
)


def account_of(key: str) -> str | None:
    """The ledger's account for a quota's key (without ``cash/``); None if the ledger has none.

    ``limits.nvidia.com/gpu.A30`` → ``gpu.A30``: cards of all vendors are one resource, as everywhere in the ledger.
    """
    parts = _KEY.fullmatch(key)
    return parts and account(parts["plain"] or parts["gpu"], parts["type"] or "")


def account(resource: str, type_: str) -> str:
    """The account of a resource and a type ("" = none)."""
    return f"{resource}.{type_}" if type_ else resource


def is_paid_from(budget: str, spent_on: str) -> bool:
    """Whether spending on one account counts against the budget of another: itself, or a prefix of it."""
    return spent_on == budget or spent_on.startswith(f"{budget}.")
