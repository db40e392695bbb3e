"""``bursar queue``: shows waiting workloads and their reasons, and lets a person reorder them or hold one back."""

from __future__ import annotations

import getpass
from typing import Annotated, Any

import sqlalchemy as sa
import typer

from bus.clock import SECOND_US, format_stamp
from bus.events.queues import MOST_PRIORITY, QueueOrdered
from bus.kube.crds.keys import key_text
from deploy.cli.filters import require
from deploy.cli.notes.position import footer, standing
from deploy.cli.options import Cluster, CommandContext, command
from deploy.cli.reactors import Author
from deploy.cli.rendering.answers import answer, field
from deploy.cli.rendering.layout import Cell
from deploy.cli.rendering.output import say, warn_of_names
from deploy.cli.rendering.tables import Column, Row
from deploy.cli.rendering.words import duration, line_ahead, moment
from deploy.errors import SettingsError
from deploy.hints import hint
from deploy.queries.quotas import only_cluster
from deploy.runtime.ledgers import reading
from deploy.settings.near import absent
from projections.quota_trees.queries import Select
from projections.waits import waits

_FIELDS = (
    "quota", "place", "namespace", "kind", "name", "uid", "priority", "created_at", "waited_s",
    "reason", "deficits", "starts_at", "is_stopped", "wanted",
)  # fmt: skip

Named = Annotated[
    str, typer.Argument(metavar="NAME", help="The waiting workload: NAMESPACE/NAME, or its uid.")
]
Reason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="The reason, recorded in the history.")
]


def register(app: typer.Typer) -> None:
    """Add the commands of ``queue``."""
    command(app, "show", question=True)(show)
    command(app, "move")(move)
    command(app, "hold")(hold)
    command(app, "release")(release)


def show(
    asked: CommandContext,
    quota: Annotated[
        str | None, typer.Argument(metavar="QUOTA", help="Only this quota's queue.")
    ] = None,
    cluster: Cluster = None,
) -> None:
    """Waiting workloads: place, missing amounts, latest start.

    PLACE is – where a person holds the workload, or its quota may not be used. WAITS FOR is the missing amount now, or the
    workloads ahead. STARTS BY is the latest start by the deadlines of running workloads; it is – where they have none. `bursar
    why` takes WORKLOAD.

    \b
    bursar queue show
    bursar queue show vision -o json
    """
    from deploy.queries.queues import queues

    with reading(asked.place) as connection:
        stands = standing(connection)
        name = cluster or only_cluster(connection, asked.place.cluster)
        now_us = stands.moment_s(name) * SECOND_US
        found = queues(_select(connection), name, now_us)
        if quota is not None and quota not in found:
            require(connection, {"quota": quota})
    rows = [
        _row(place, one, now_us)
        for place, every in found.items()
        for one in every
        if quota in (None, place)
    ]
    notes = footer(stands.sequence, stands.moment_s(name))
    notes += ["history of one workload: " + hint("why WORKLOAD")] if rows else []
    answer(asked, rows, fields=_FIELDS, columns=_COLUMNS, notes=notes)


def move(
    asked: CommandContext,
    name: Named,
    priority: Annotated[
        int | None,
        typer.Option(
            "--priority", min=-MOST_PRIORITY, max=MOST_PRIORITY,
            help="Replaces the priority of its class; without this option the class counts again.",
        ),
    ] = None,
    reason: Reason = "",
    author: Author = None,
    cluster: Cluster = None,
) -> None:  # fmt: skip
    """Change a waiting workload's place. The priority counts in the queue only.

    \b
    bursar queue move vision/train-7 --priority 1000 --reason "deadline of the paper"
    """
    _order(asked, name, "move", priority, reason, author, cluster)


def hold(
    asked: CommandContext,
    name: Named,
    reason: Reason = "",
    author: Author = None,
    cluster: Cluster = None,
) -> None:
    """Keep a waiting workload from starting. Later workloads may start before it. `bursar queue release` ends it.

    \b
    bursar queue hold vision/train-7
    """
    _order(asked, name, "hold", None, reason, author, cluster)


def release(
    asked: CommandContext,
    name: Named,
    reason: Reason = "",
    author: Author = None,
    cluster: Cluster = None,
) -> None:
    """End a `bursar queue hold`. The workload may start again.

    \b
    bursar queue release vision/train-7
    """
    _order(asked, name, "release", None, reason, author, cluster)


def _order(
    asked: CommandContext, name: str, action: str, priority: int | None, reason: str, author: str | None,
    cluster: str | None,
) -> None:  # fmt: skip
    from deploy.queries.queues import order
    from deploy.runtime.bootstrap import run

    with reading(asked.place) as connection:
        cluster = cluster or only_cluster(connection, asked.place.cluster)
        uid = _waiting(connection, cluster, name)
    warn_of_names(reason, asked.settings.labels.user_key)
    fact = QueueOrdered(
        uid=uid,
        action=action,
        priority=priority,
        author=asked.settings.labels.author(author or getpass.getuser()),
        reason=reason,
    )
    sequence = run(order(asked.settings, cluster, fact))
    say(
        f"{action} {name}: recorded as event {sequence:,}; takes effect at the next pass of the queue"
    )


def _waiting(connection: sa.Connection, cluster: str, name: str) -> str:
    """The uid of the waiting workload of this name. Raises
    AbsentObjectError, or SettingsError for several: Job and RayJob, say."""
    columns = waits.c
    namespace, _, last = name.rpartition("/")
    named = sa.and_(columns.namespace == namespace, columns.name == last)
    query = sa.select(columns.uid, columns.kind).where(
        columns.cluster == cluster, columns.waiting == 1, sa.or_(columns.uid == name, named)
    )
    found = connection.execute(query.order_by(columns.kind, columns.uid)).all()
    if not found:
        every_ = sa.select(columns.namespace, columns.name).where(
            columns.cluster == cluster, columns.waiting == 1
        )
        waiting = [f"{row.namespace}/{row.name}" for row in connection.execute(every_)]
        raise absent("waiting workload", name, waiting)
    if len(found) > 1:
        every = ", ".join(f"{row.kind} {row.uid}" for row in found)
        raise SettingsError(
            f"{len(found)} waiting workloads have the name {name[:80]!r}; give a uid: {every}"
        )
    return str(found[0].uid)


def _row(quota: str, one: Any, now_us: int) -> dict[str, Any]:
    waiting, request = one.waiting, one.waiting.request
    return {
        "quota": quota,
        "place": one.place or None,
        "namespace": request.namespace,
        "kind": request.kind,
        "name": request.name,
        "uid": request.uid,
        "priority": waiting.priority,
        "created_at": format_stamp(waiting.created_us),
        "waited_s": max(now_us - waiting.created_us, 0) // SECOND_US,
        "reason": "held" if waiting.is_stopped else one.answer.reason,
        "deficits": [
            {"key": d.key, "asked": d.asked, "used": d.used, "limit": d.limit}
            for d in one.answer.deficits
        ],
        "starts_at": None if one.starts_us is None else format_stamp(one.starts_us),
        "is_stopped": waiting.is_stopped,
        "wanted": request.demand,
    }


def _waits_for(row: Row) -> Cell:
    missing = [
        f"{key_text(d['key'], d['used'] + d['asked'] - d['limit'])} of {d['key']}"
        for d in row["deficits"]
    ]
    return Cell(", ".join(missing) or _wait(row), "words")


def _wait(row: Row) -> str:
    fits = row["reason"] in ("fits", "fewer")
    return line_ahead(row["place"]) if fits and row["place"] else str(row["reason"])


_COLUMNS = (
    field("QUOTA"),
    field("PLACE"),
    Column("WORKLOAD", lambda row: f"{row['namespace']}/{row['name']}"),
    field("PRIORITY", drop=1),
    field("WAITED", "waited_s", show=duration),
    Column("WAITS FOR", _waits_for),
    field("STARTS BY", "starts_at", show=moment, drop=2),
    field("KIND", wide=True),
    field("CREATED", "created_at", show=moment, wide=True),
    field("UID", wide=True),
)


def _select(connection: sa.Connection) -> Select:
    return lambda query: [tuple(row) for row in connection.execute(query)]
