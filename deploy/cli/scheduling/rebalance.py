"""``bursar simulate rebalance``: the pods that would move to other nodes, and the ones that would stay."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bus.clock import SECOND_US
from deploy.cli.culling import selecting
from deploy.cli.notes.position import footer, standing
from deploy.cli.options import Cluster, CommandContext, command
from deploy.cli.rendering.answers import answer, field
from deploy.cli.rendering.layout import Cell
from deploy.cli.rendering.tables import Column, Row
from deploy.cli.rendering.units import MILLI_HOUR
from deploy.cli.rendering.words import duration, words
from deploy.runtime.ledgers import reading

if TYPE_CHECKING:
    from reactors.rebalancing.shape import Move, RefusedMove

_FIELDS = (
    "verdict", "namespace", "pod", "uid", "workload", "source", "destination", "plugin", "reason", "gain", "ran_s",
    "gpu_milli_s", "refused_by", "refusal",
)  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    command(app, "rebalance", question=True)(rebalance)


def rebalance(
    asked: CommandContext,
    policy: Annotated[
        Path | None,
        typer.Option(
            "--policy",
            metavar="FILE",
            help="A file with a section rebalancing; without it the defaults hold.",
        ),
    ] = None,
    moves: Annotated[
        bool, typer.Option("--moves", help="Planned moves only, no refused pods.")
    ] = False,
    cluster: Cluster = None,
) -> None:
    """Pods that one round of rebalancing would move, and where to.

    Each proposed pod that stays has its refusal. Decided on the ledger's state; nothing is evicted and nothing recorded. Each
    planned move counts for the next one. TO is the node that the scheduler gives to the pod. A pod is refused where no other
    node fits, or where the scheduler would put it back. A pod stays where it has the annotation
    bursar.io/do-not-move: "true". docs/rebalancing.md has the plugins.

    \b
    rebalancing:
      policy:
        plugins: [LowNodeLoad, RemovePodsViolatingNodeTaints]
        most_moves: 10
        low_node_load:
          pools: [{low: {cpu: 40}, high: {cpu: 70}}]

    \b
    bursar simulate rebalance
    bursar simulate rebalance --policy moves.yaml --moves
    bursar simulate rebalance --at 2026-03-01T10:00Z -o json
    """
    from deploy.queries.lab_rebalancing import earlier_us, proposed_rebalancing, simulated_round
    from deploy.queries.scheduling import only_cluster
    from projections.engine.past import sequence_before

    wanted = proposed_rebalancing(policy)
    with reading(asked.place) as connection:
        stands = standing(connection)
        name = cluster or only_cluster(stands.moments, asked.place.cluster)
        at_us = stands.moment_s(name) * SECOND_US
        begin_us = earlier_us(wanted, at_us)
        first = sequence_before(connection, begin_us) if begin_us < at_us else stands.sequence
        found = simulated_round(selecting(connection), name, wanted, first, stands.sequence, at_us)
    rows = [_move(one) for one in found.moves]
    if not moves:
        rows += [_refused(one) for one in found.refused]
    notes = [_total(found.moves, len(found.refused)), *found.notes]
    notes += footer(stands.sequence, stands.moment_s(name))
    answer(asked, rows, fields=_FIELDS, columns=_COLUMNS, notes=notes)


def _move(one: Move) -> dict[str, Any]:
    return {
        "verdict": "move", **_pod(one), "workload": one.workload, "destination": one.destination, "gain": one.gain,
        "ran_s": one.ran_s, "gpu_milli_s": one.gpu_milli_s, "refused_by": None, "refusal": None,
    }  # fmt: skip


def _refused(one: RefusedMove) -> dict[str, Any]:
    return {
        "verdict": "stay", **_pod(one), "workload": None, "destination": None, "gain": None, "ran_s": None,
        "gpu_milli_s": None, "refused_by": one.refusal.code, "refusal": one.refusal.message,
    }  # fmt: skip


def _pod(one: Move | RefusedMove) -> dict[str, Any]:
    return {
        "namespace": one.pod.namespace, "pod": one.pod.name, "uid": one.pod.uid, "source": one.source,
        "plugin": one.plugin, "reason": one.reason,
    }  # fmt: skip


def _total(moves: tuple[Move, ...], refused: int) -> str:
    hours = sum(one.gpu_milli_s for one in moves) / MILLI_HOUR
    return (
        f"{len(moves):,} moves planned, {refused:,} proposals refused;"
        f" the moved pods ran for {hours:,.1f} GPU-hours since their start"
    )


def _why(row: Row) -> Cell:
    """The gain of a move, else why the pod stays."""
    return Cell(row["refusal"] or row["gain"] or "–", "words")


_COLUMNS = (
    field("VERDICT"),
    Column("POD", lambda row: f"{row['namespace']}/{row['pod']}"),
    field("FROM", "source"),
    field("TO", "destination"),
    field("PLUGIN", drop=2),
    field("REASON", show=words, drop=1),
    Column("GAIN OR REFUSAL", _why),
    field("RAN", "ran_s", show=duration, wide=True),
    field("WORKLOAD", wide=True),
    field("REFUSED BY", "refused_by", wide=True),
    field("UID", wide=True),
)
