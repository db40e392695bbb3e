"""Options to filter pods of an answer: by team, user, namespace, workload, node, model, quota and labels."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import sqlalchemy as sa
import typer

from deploy.runtime import kept
from deploy.settings.near import absent
from projections.pod_runs import held_segments, pod_runs
from projections.quotas import quotas

Team = Annotated[str | None, typer.Option("--team", help="Only this team.")]
User = Annotated[str | None, typer.Option("--user", help="Only this user.")]
Namespace = Annotated[str | None, typer.Option("--namespace", "-n", help="Only this namespace.")]
AllNamespaces = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="All namespaces (the default).")
]
Workload = Annotated[
    str | None, typer.Option("--workload", metavar="KIND/NAME", help="Only this workload.")
]
Node = Annotated[str | None, typer.Option("--node", help="Only pods and cards of this node.")]
Model = Annotated[str | None, typer.Option("--model", help="Only on nodes of this GPU model.")]
Quota = Annotated[str | None, typer.Option("--quota", help="Only workloads of this quota.")]
Label = Annotated[
    list[str] | None,
    typer.Option(
        "--label", "-l", metavar="KEY=VALUE", help="Only pods with this label; repeatable."
    ),
]
Sort = Annotated[
    str | None, typer.Option("--sort", metavar="COLUMN", help="Sort by this column, largest first.")
]
Top = Annotated[int | None, typer.Option("--top", min=1, metavar="N", help="Only the first N.")]

#: Names of each kind compared for similar ones.
MOST = 2_000
#: The common first letters of such names.
_ALIKE = 2

#: Column names in tables, by the name for programs.
_ALIASES = {"cores": "cpu_milli", "memory": "memory_mib", "gpus": "gpu_milli"}
_COLUMNS = {
    "team": held_segments.c.team, "user": held_segments.c.user_name, "namespace": pod_runs.c.namespace,
    "workload": pod_runs.c.workload, "node": held_segments.c.node, "model": held_segments.c.model,
    "quota": held_segments.c.quota, "cluster": pod_runs.c.cluster,
}  # fmt: skip


def wanted(labels: Sequence[str] | None, is_all: bool, **given: str | None) -> dict[str, str]:
    """The filter, by dimension. Raises typer.BadParameter."""
    found = {name: value for name, value in given.items() if value is not None}
    if is_all and "namespace" in found:
        raise typer.BadParameter("either one namespace or all", param_hint="-A")
    for text in labels or ():
        key, sign, value = text.partition("=")
        if not (key and sign):
            raise typer.BadParameter(f"{text[:64]!r} is not KEY=VALUE", param_hint="-l")
        found[f"label:{key}"] = value
    return found


def require(connection: sa.Connection, where: Mapping[str, str], *others: sa.Connection) -> None:
    """Explain an empty answer: if a filter's name is unknown, raise AbsentObjectError with similar names.

    A caller limited to a namespace gets no similar names: they may be another namespace's.
    """
    if kept.caller is not None:
        return
    for name, value in where.items():
        column = _COLUMNS.get(name)
        if column is None:
            continue
        known = set[str]().union(*(_known(one, name, column) for one in (connection, *others)))
        if value not in known:
            raise absent(name, value, known)


def _known(connection: sa.Connection, name: str, column: sa.Column[Any]) -> set[str]:
    known = {row[0] for row in connection.execute(sa.select(column).distinct()) if row[0]}
    if name == "quota":
        known |= set(connection.scalars(sa.select(quotas.c.name)))
    if name == "model":
        # A pod may hold cards of several models; its row names the first.
        texts = connection.scalars(sa.select(held_segments.c.devices).distinct())
        known.update(model for text in texts if text for model in json.loads(text))
    return known


def near(
    connection: sa.Connection, table: sa.Table, name: str, *where: sa.ColumnElement[bool]
) -> list[sa.Row[tuple[str, str, str]]]:
    """(namespace, name, uid) of rows with a name similar to ``name``; all if there are few.

    The table may have millions: only the first ones are read, and those with a common beginning.
    """
    columns, alike = table.c, name[:_ALIKE]
    query = (
        sa.select(columns.namespace, columns.name, columns.uid)
        .where(*where)
        .order_by(columns.name)
        .limit(MOST)
    )
    begins = query.where(columns.name >= alike, columns.name < alike + "\U0010ffff")
    return [*connection.execute(query), *connection.execute(begins)]


def sorted_by(
    rows: Sequence[Any], sort: str | None, top: int | None, of: Any, columns: Sequence[str]
) -> list[Any]:
    """The rows by a column (``of(row, column)``), largest first, and the first of them. Raises typer.BadParameter."""
    found = list(rows)
    if sort is not None:
        asked = sort.lower().replace("-", "_").replace(" ", "_")
        likely = (asked, _ALIASES.get(asked), f"{asked}_s", f"memory_{asked}", f"{asked}_pods")
        name = next((one for one in likely if one in columns), "")
        if not name:
            raise typer.BadParameter(
                f"there is no column {sort[:64]!r}: {', '.join(columns)}", param_hint="--sort"
            )
        values = [of(row, name) for row in found]
        are_texts = any(isinstance(value, str) for value in values)
        there = [row for row, value in zip(found, values, strict=True) if value is not None]
        rest = [row for row, value in zip(found, values, strict=True) if value is None]
        found = sorted(there, key=lambda row: of(row, name), reverse=not are_texts) + rest
    return found[:top]
