"""Public SQL views: their names and meanings stay, described column by column.

Tables may change and are filled again by replay; a ``v1_`` view only ever gains columns, at its end. One text here serves
both databases: where SQLite and PostgreSQL differ (stamps, hexadecimal, bytes as text) a small function
writes the right expression. ``python -m projections.views > docs/views.md`` writes the page for readers; a test keeps
page and views equal.

Two time bases: columns ``…_s`` are whole seconds UTC since 1970, ``…_at`` the same as text. Open intervals are
valued up to *their cluster's moment*, the newest observation of that cluster (``v1_evidence``), never to a command,
a tick or the clock of the database. So a view of the same history has the same result at any time.

Source: docs/architecture.md (stable names for people), docs/accounting.md.
"""

from projections.views.activity import ACTIVITY
from projections.views.admissions import ADMISSIONS
from projections.views.budgets import BUDGETS
from projections.views.culling import CULLING
from projections.views.decisions import DECISIONS
from projections.views.devices import DEVICES
from projections.views.history import HISTORY, LEDGER
from projections.views.jobs import JOBS
from projections.views.quotas import QUOTAS
from projections.views.reservations import RESERVATIONS
from projections.views.rows import ROWS
from projections.views.shape import Column, View
from projections.views.usage import USAGE
from projections.views.waits import WAITS

#: Every view, each after those it reads.
VIEWS = (
    LEDGER,
    *USAGE,
    *ROWS,
    *DEVICES,
    *RESERVATIONS,
    *QUOTAS,
    *ADMISSIONS,
    *BUDGETS,
    *ACTIVITY,
    *DECISIONS,
    *JOBS,
    *CULLING,
    *WAITS,
    *HISTORY,
)


def page() -> str:
    """The page ``docs/views.md``, Markdown."""
    parts = [
        "# Views\n\nWhat you may ask with SQL, by `bursar sql` or any client, on SQLite and PostgreSQL alike."
        " Names and meanings stay;\na view only ever gains columns, at its end."
        " Columns `…_s` are whole seconds UTC since 1970, `…_at` the same as text.\n"
        "What is still open is valued up to the newest observation of its cluster (`v1_evidence`); what came after is"
        " unknown.\nThis page is written by `python -m projections.views`.\n"
    ]
    for view in VIEWS:
        parts.append(f"\n## {view.name}\n\n{view.meaning}\n\n| column | meaning |\n|---|---|\n")
        parts += [f"| `{column.name}` | {column.meaning} |\n" for column in view.columns]
    return "".join(parts)


__all__ = ["VIEWS", "Column", "View", "page"]
