"""The model of the ledger: every projection, derivation, sum and view, one line each. The top of this layer.

Whatever runs a ledger is given :data:`MODEL`; the engine knows no projection.
"""

from projections import (
    activity,
    bind_decisions,
    decisions,
    evidence,
    namespaces,
    nodes,
    quotas,
    report_days,
    reservations,
    usage,
    waits,
    workloads,
)
from projections.budgets import current as current_budgets
from projections.budgets import entries as budget_entries
from projections.budgets import rows as budget_rows
from projections.devices import claims, slices, supply
from projections.engine import tables as _machinery  # noqa: F401 (archive and checkpoint are declared there)
from projections.engine.contract import METADATA
from projections.engine.model import Model
from projections.inventory import card_supply
from projections.pod_runs import derivation as pod_runs
from projections.quota_trees import decisions as admissions
from projections.quota_trees import declared, held, own
from projections.views import VIEWS

#: Folds of one row each.
_PROJECTIONS = (
    namespaces.projection,
    nodes.projection,
    workloads.projection,
    budget_entries.projection,
    quotas.projection,
    activity.projection,
    admissions.projection,
    held.projection,
    own.projection,
    declared.projection,
    decisions.projection,
    bind_decisions.projection,
    waits.projection,
    evidence.projection,
    claims.projection,
    supply.projection,
    slices.projection,
    reservations.projection,
)

#: The current budgets go first: an observation with uncomputable budgets changes nothing else.
_DERIVATIONS = (current_budgets.derivation, pod_runs.derivation, card_supply.derivation)

#: Sums over all rows of a derivation.
_SUMS = (usage.sums, budget_rows.sums, report_days.sums)

MODEL = Model(
    projections=_PROJECTIONS,
    derivations=_DERIVATIONS,
    sums=_SUMS,
    tables=(
        *(projection.table for projection in _PROJECTIONS),
        *pod_runs.derivation.tables,
        *current_budgets.derivation.tables,
        *card_supply.derivation.tables,
        *(table for one in _SUMS for table, _ in one.tables),
    ),
    views=VIEWS,
)

__all__ = ["METADATA", "MODEL"]
