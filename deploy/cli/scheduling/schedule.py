"""``bursar schedule``: the node for a pod, or the reason for none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from bus.clock import SECOND_US
from deploy.cli import times
from deploy.cli.notes.position import footer, standing
from deploy.cli.options import Cluster, CommandContext, command
from deploy.cli.program.exits import Exit
from deploy.cli.rendering.answers import answer, field
from deploy.cli.rendering.layout import Cell
from deploy.cli.rendering.output import say
from deploy.cli.rendering.tables import Column, Row
from deploy.cli.rendering.words import moment, words
from deploy.errors import SettingsError
from deploy.runtime.ledgers import reading

if TYPE_CHECKING:
    from deploy.queries.scheduling import TriedPod, Waits
    from projections.cluster import Pod
    from reactors.scheduling.framework.contract import Preemption

#: The schedulerName of Bursar's pods.
NAME = "bursar"

_QUEUE_FIELDS = ("pod", "uid", "gang", "priority", "since", "state", "node", "reason", "help", "until", "attempts")  # fmt: skip
_FIELDS = (
    "pod", "node", "nodes", "feasible", "refused", "refused_nodes", "message", "top", "changes", "preemption",
)  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    command(app, "check", of_cluster=True)(check)
    command(app, "queue", question=True)(queue)


def check(
    asked: CommandContext,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Pods, YAML or JSON; - reads stdin.")],
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="For pods that name none.")
    ] = "default",
    cluster: Cluster = None,
) -> None:
    """Which node would these pods get now? If none: the smallest changes that would place them.

    The scheduler's own plugins decide on the ledger's cluster. Nothing is bound and nothing is recorded. Pods of a file count
    one after the other. Each change alone is enough. Exit code 9 where a pod would find no node. Quotas are left out; see
    `bursar quota check`.

    \b
    bursar schedule check pod.yaml
    bursar schedule check pod.yaml -o json    # top nodes with the score of each plugin
    """
    from deploy.commands.manifest_files import manifests
    from deploy.queries.scheduling import known, only_cluster, reads_quotas, tried

    found = manifests(file)
    strangers = sorted({str(one["kind"]) for one in found} - {"Pod"})
    if strangers:
        raise SettingsError(f"{file}: only pods are placed, no {', '.join(strangers)}")
    with reading(asked.place) as connection:
        stands = standing(connection)
        name = cluster or only_cluster(stands.moments, asked.place.cluster)
        replica = known(lambda query: [tuple(row) for row in connection.execute(query)], name)
    done = tried(
        replica.cluster_state,
        found,
        namespace=namespace,
        labels=asked.settings.observed(),
        sequence=stands.sequence,
    )
    rows = [_row(one) for one in done]
    notes = [
        note for row in rows if row["message"] for note in (row["message"], _evicting(row)) if note
    ]
    if reads_quotas(replica):
        notes.append(
            "pods start by their quotas here: bursar quota check says what these would answer"
        )
    notes += footer(stands.sequence, stands.moment_s(name))
    answer(asked, rows, fields=_FIELDS, columns=_COLUMNS, notes=notes)
    nowhere = sum(not one.found.node for one in done)
    if nowhere:
        say(f"{nowhere:,} of {len(done):,} pods would find no node")
        raise typer.Exit(Exit.NOT_ADMITTED)


def queue(
    asked: CommandContext,
    scheduler: Annotated[
        str, typer.Option("--scheduler", help="Pods that name this scheduler.")
    ] = NAME,
    cluster: Cluster = None,
) -> None:
    """Pods that wait for a node, in the order of attempts. The node of each, or the refusals.

    The order is by priority, then by waiting time; each pod takes its room from later ones. STATE is `fits`, `gated` (it must
    not be tried yet) or `unschedulable`; HELP names the changes that could end these. Where Bursar schedules, STATE is also
    `assumed` (it has a node, and waits for its gang or its binding) or `backoff` (it waits after a failure, until UNTIL).

    \b
    bursar schedule queue
    bursar schedule queue --scheduler default-scheduler
    """
    from deploy.queries.scheduling import known, only_cluster, queued

    with reading(asked.place) as connection:
        stands = standing(connection)
        name = cluster or only_cluster(stands.moments, asked.place.cluster)
        replica = known(lambda query: [tuple(row) for row in connection.execute(query)], name)
    at_us = stands.moment_s(name) * SECOND_US
    rows = [
        _waits(one) for one in queued(replica, scheduler, sequence=stands.sequence, at_us=at_us)
    ]
    notes = footer(stands.sequence, stands.moment_s(name))
    answer(asked, rows, fields=_QUEUE_FIELDS, columns=_QUEUE_COLUMNS, notes=notes)


def _waits(one: Waits) -> dict[str, Any]:
    return _pod(one.pod) | {
        "gang": one.gang or None, "state": one.state, "node": one.node or None, "reason": one.reason, "help": list(one.help),
        "until": times.stamp(one.until_us // SECOND_US) if one.until_us else None, "attempts": one.attempts,
    }  # fmt: skip


def _pod(pod: Pod) -> dict[str, Any]:
    return {
        "pod": f"{pod.namespace}/{pod.name}",
        "uid": pod.uid,
        "priority": pod.priority,
        "since": times.stamp(pod.started_us // SECOND_US),
    }


def _row(one: TriedPod) -> dict[str, Any]:
    found = one.found
    return {
        "pod": f"{one.pod.namespace}/{one.pod.name}",
        "node": found.node or None,
        "nodes": found.nodes,
        "feasible": found.feasible,
        "refused": found.refused,
        "refused_nodes": found.refused_nodes,
        "message": found.message,
        "top": [{"node": at.node, "score": at.score, "scores": at.scores} for at in found.top],
        "changes": found.changes,
        "preemption": _preemption(found.preemption) if found.preemption else None,
    }


def _preemption(found: Preemption) -> dict[str, Any]:
    return {
        "node": found.node or None,
        "victims": [f"{one.namespace}/{one.name}" for one in found.victims],
        "violating": found.violating,
        "message": found.message,
    }


def _evicting(row: dict[str, Any]) -> str:
    found = row["preemption"]
    if found is None or found["node"] is None:
        return ""
    return f"{row['pod']} would find room on {found['node']} without {', '.join(found['victims'])}"


def _refused(row: Row) -> Cell | None:
    parts = [f"{plugin} {nodes}" for plugin, nodes in row["refused_nodes"].items()]
    return Cell(", ".join(parts), "words") if parts else None


def _best(row: Row) -> Cell | None:
    parts = [f"{one['node']} {one['score']}" for one in row["top"][:3]]
    return Cell(", ".join(parts), "words") if parts else None


def _help(row: Row) -> Cell | None:
    """The way out for a pod, as a sentence."""
    return Cell(", ".join(row["help"]), "words") if row["help"] else None


_QUEUE_COLUMNS = (
    field("POD", show=Cell),
    field("GANG", show=lambda text: Cell(text) if text else None, drop=4),
    field("PRIORITY", drop=3),
    field("SINCE", show=moment, drop=2),
    field("STATE", show=lambda text: Cell(text, "fixed")),
    field("NODE"),
    field("REASON", show=words),
    Column("HELP", _help, drop=1),
    field("UNTIL", show=moment, wide=True),
    field("ATTEMPTS", wide=True),
    field("UID", wide=True),
)
_COLUMNS = (
    field("POD", show=Cell),
    field("NODE"),
    Column("FIT", lambda row: f"{row['feasible']:,} of {row['nodes']:,}"),
    Column("REFUSED BY", _refused),
    Column("BEST", _best, drop=1),
    Column("OR ELSE", lambda row: Cell("; or ".join(row["changes"]) or "–", "words")),
)
