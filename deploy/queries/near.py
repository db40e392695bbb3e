"""Names that somebody may have meant, of a table that may have millions: the first ones, and those that begin alike."""

from __future__ import annotations

import sqlalchemy as sa

#: Names of each kind that are looked at.
MOST = 2_000
#: Letters by which names begin alike.
_ALIKE = 2


def near(
    connection: sa.Connection, table: sa.Table, name: str, *where: sa.ColumnElement[bool]
) -> list[sa.Row[tuple[str, str, str]]]:
    """(namespace, name, uid) of rows whose names may be meant by ``name``; all where there are few."""
    columns, alike = table.c, name[:_ALIKE]
    query = (
        sa.select(columns.namespace, columns.name, columns.uid)
        .where(*where)
        .order_by(columns.name)
        .limit(MOST)
    )
    begins = query.where(columns.name >= alike, columns.name < alike + "\U0010ffff")
    return [*connection.execute(query), *connection.execute(begins)]
