"""The projections of this ledger, one line each, and everything that is a table."""

from projections import (
    activity,
    decisions,
    evidence,
    namespaces,
    nodes,
    pod_runs,
    quotas,
    usage,
    waits,
    workloads,
)
from projections.admissions import decisions as admissions
from projections.admissions import declared, held
from projections.budgets import current as current_budgets
from projections.budgets import entries as budget_entries
from projections.budgets import rows as budget_rows
from projections.engine import tables
from projections.engine.contract import METADATA, Projection

#: Folds of one row each. Pod runs and usage follow from them (:mod:`projections.engine.books`).
PROJECTIONS: tuple[Projection, ...] = (
    namespaces.projection,
    nodes.projection,
    workloads.projection,
    budget_entries.projection,
    quotas.projection,
    activity.projection,
    admissions.projection,
    held.projection,
    declared.projection,
    decisions.projection,
    waits.projection,
    evidence.projection,
)

#: Sums over all pods that are kept while folding: the table, and what one pod adds to it.
SUMS = (
    (usage.usage_hours, usage.hourly),
    (usage.usage_days, usage.daily),
    (budget_rows.budget_spends, budget_rows.shares),
)

#: Tables whose rows are a function of the history: rebuilt by replay, compared by digest.
ROW_TABLES = (
    *(projection.table for projection in PROJECTIONS),
    pod_runs.pod_runs,
    pod_runs.held_segments,
    pod_runs.pod_lists,
    pod_runs.pod_beats,
    current_budgets.budgets,
    *(table for table, _ in SUMS),
)

#: Version of all rules together; a checkpoint of another version means: rebuild from the archive.
VERSION = "-".join(
    str(version)
    for version in (
        *(projection.version for projection in PROJECTIONS),
        pod_runs.VERSION,
        usage.VERSION,
        budget_rows.VERSION,
        current_budgets.VERSION,
    )
)

__all__ = ["METADATA", "PROJECTIONS", "ROW_TABLES", "VERSION", "tables"]
