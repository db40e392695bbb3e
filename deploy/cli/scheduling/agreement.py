"""``bursar schedule agreement``: the scheduler's shadow choices, compared with the pods' real nodes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import sqlalchemy as sa
import typer

from deploy.cli import times
from deploy.cli.notes.position import footer, standing
from deploy.cli.options import Cluster, CommandContext, command
from deploy.cli.rendering.answers import answer, count, field
from deploy.runtime.ledgers import reading

_QUERY = (
    "SELECT cluster, profile, substr(decided_at, 1, 10) AS day, COALESCE(agreement, outcome) AS found, COUNT(*) AS pods"
    " FROM v1_bind_decisions WHERE is_shadow = 1 AND outcome <> 'overtaken' AND decided_s >= :since_s"
    " GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"
)
#: Possible results of a pod, the best first; those before ``waiting`` are on a node.
_FOUND = ("same", "equal", "lower", "unrecorded", "refused", "unplaced", "waiting", "gone")
_FIELDS = ("cluster", "profile", "day", "pods", *_FOUND)


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    command(app, "agreement", question=True)(agreement)


def agreement(
    asked: CommandContext,
    start: times.From = None,
    tz: times.Zone = "UTC",
    cluster: Cluster = None,
) -> None:
    """Shadow placements, compared with each pod's actual node.

    One line for each profile and day of decisions (UTC); the newest decision of each pod counts. SAME: the chosen node. EQUAL:
    another node with an equal score. LOWER: a node that fitted and scored less. REST: a node outside of the ten best ones,
    which are recorded. REFUSED: a node that did not fit. NONE: the shadow found no node. `v1_bind_decisions` has every
    decision.

    \b
    bursar schedule agreement --from 7d
    bursar sql "SELECT name, node, bound_node FROM v1_bind_decisions WHERE agreement = 'refused'"
    """
    zone = times.zone_of(tz)
    with reading(asked.place) as connection:
        stands = standing(connection)
        since_s = times.second_of(start, zone, "--from", stands.moment_s(cluster)) or 0
        found = connection.execute(sa.text(_QUERY), {"since_s": since_s}).mappings().all()
    counts: dict[tuple[str, str, str], Counter[str]] = {}
    for one in found:
        if cluster in (None, one["cluster"]):
            key = one["cluster"], one["profile"], one["day"]
            counts.setdefault(key, Counter())[one["found"]] += one["pods"]
    rows = [_row(*key, count) for key, count in counts.items()]
    notes = [_placed(sum(counts.values(), Counter[str]()))] if rows else []
    notes += footer(stands.sequence, stands.observed_s)
    answer(asked, rows, fields=_FIELDS, columns=_COLUMNS, notes=notes)


def _row(cluster: str, profile: str, day: str, count: Counter[str]) -> dict[str, Any]:
    known = {name: count[name] for name in _FOUND}
    return {"cluster": cluster, "profile": profile, "day": day, "pods": count.total()} | known


def _placed(count: Counter[str]) -> str:
    placed = sum(count[name] for name in _FOUND[: _FOUND.index("waiting")])
    good = count["same"] + count["equal"]
    share = f", {100 * good / placed:.1f} %" if placed else ""
    return f"{good:,} of {placed:,} pods with a node{share}, are on the chosen one or an equally good one"


_COLUMNS = (
    field("CLUSTER", wide=True),
    field("PROFILE"),
    field("DAY"),
    count("PODS", "pods"),
    count("SAME", "same"),
    count("EQUAL", "equal"),
    count("LOWER", "lower"),
    count("REST", "unrecorded"),
    count("REFUSED", "refused"),
    count("NONE", "unplaced"),
    count("WAITS", "waiting", drop=1),
    count("GONE", "gone", drop=2),
)
