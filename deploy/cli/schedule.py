"""``bursar schedule``: where a pod would go, and why nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from deploy.cli.notes.position import footer, standing
from deploy.cli.options import CommandContext, command
from deploy.cli.program.exits import Exit
from deploy.cli.quotas.options import Cluster
from deploy.cli.rendering.answers import answer, field
from deploy.cli.rendering.layout import Cell
from deploy.cli.rendering.output import say
from deploy.cli.rendering.tables import Column, Row
from deploy.commands.manifest_files import manifests
from deploy.errors import SettingsError
from deploy.runtime.ledgers import reading

if TYPE_CHECKING:
    from deploy.queries.scheduling import Tried

_FIELDS = ("pod", "node", "nodes", "feasible", "refused", "message", "top", "changes")


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    command(app, "check")(check)


def check(
    asked: CommandContext,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Pods, YAML or JSON; - reads stdin.")],
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="For pods that name none.")
    ] = "default",
    cluster: Cluster = None,
) -> None:
    """Which node would these pods get now, and if none, what is the smallest change with which one would take them?

    Decided by the scheduler's own plugins on the cluster as the ledger holds it; nothing is bound and nothing recorded. The
    pods of a file count one after the other. Each change that is shown is enough by itself. Ends with code 9 where a pod
    would find no node.

    \b
    bursar schedule check pod.yaml
    bursar schedule check pod.yaml -o json    # top nodes with the score of each plugin
    """
    from deploy.queries.scheduling import cluster_state, only_cluster, tried

    found = manifests(file)
    strangers = sorted({str(one["kind"]) for one in found} - {"Pod"})
    if strangers:
        raise SettingsError(f"{file}: only pods are placed, no {', '.join(strangers)}")
    with reading(asked.place) as connection:
        stands = standing(connection)
        name = cluster or only_cluster(stands.moments, asked.place.cluster)
        state = cluster_state(lambda query: [tuple(row) for row in connection.execute(query)], name)
    done = tried(
        state,
        found,
        namespace=namespace,
        labels=asked.settings.labels.policy(),
        sequence=stands.sequence,
    )
    rows = [_row(one) for one in done]
    notes = [row["message"] for row in rows if row["message"]]
    notes += footer(stands.sequence, stands.moments.get(name, 0))
    answer(asked, rows, fields=_FIELDS, columns=_COLUMNS, notes=notes)
    nowhere = sum(not one.found.node for one in done)
    if nowhere:
        say(f"{nowhere:,} of {len(done):,} pods would find no node")
        raise typer.Exit(Exit.NOT_ADMITTED)


def _row(one: Tried) -> dict[str, Any]:
    found = one.found
    return {
        "pod": f"{one.pod.namespace}/{one.pod.name}",
        "node": found.node or None,
        "nodes": found.nodes,
        "feasible": found.feasible,
        "refused": found.refused,
        "message": found.message,
        "top": [{"node": at.node, "score": at.score, "scores": at.scores} for at in found.top],
        "changes": found.changes,
    }


def _refused(row: Row) -> Cell | None:
    parts = [
        f"{plugin} {nodes}"
        for plugin, reasons in row["refused"].items()
        for nodes in (max(reasons.values()),)
    ]
    return Cell(", ".join(parts), "words") if parts else None


def _best(row: Row) -> Cell | None:
    parts = [f"{one['node']} {one['score']}" for one in row["top"][:3]]
    return Cell(", ".join(parts), "words") if parts else None


_COLUMNS = (
    field("POD", show=Cell),
    field("NODE"),
    Column("FIT", lambda row: f"{row['feasible']:,} of {row['nodes']:,}"),
    Column("REFUSED BY", _refused),
    Column("BEST", _best, drop=1),
    Column("OR ELSE", lambda row: Cell("; or ".join(row["changes"]) or "–", "words")),
)
