"""Compares views and tables with this program's definitions. A replaced view can give any answer.

SQLite keeps the text of a view, compared here. PostgreSQL keeps a parsed form only, so the views are made once more
as temporary ones, in a transaction that is rolled back, and the server's own words for both are compared. A replay
finds the effects of triggers on rows, so triggers are not checked.

Source: PostgreSQL documentation, "System Information Functions" (pg_get_viewdef) and "Row Security Policies".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sqlalchemy as sa

from projections.engine.contract import METADATA
from projections.engine.model import CreatedView, Model
from projections.engine.store import Store, engine

_MEND = "drop it, and the next start of `bursar up` makes it anew"


def foreign(model: Model, store: Store) -> list[str]:
    """The difference of each view or table from this program's definition."""
    look = _sqlite if store.engine.dialect.name == "sqlite" else _postgres
    found = look(model.views, store)
    try:
        return list(found)
    except sa.exc.DBAPIError as error:
        cause = str(error.orig).splitlines()[0]
        return [
            f"the views could not be compared, which takes the right to make temporary ones: {cause}"
        ]


def _sqlite(views: Sequence[CreatedView], store: Store) -> Iterator[str]:
    master = sa.table("sqlite_master", *map(sa.column, ("type", "name", "sql")))
    rows = store.select(sa.select(master))
    kinds = {name: kind for kind, name, _ in rows if kind in ("table", "view")}
    texts = {name: text for kind, name, text in rows if kind == "view"}
    for table in METADATA.tables:
        if kinds.get(table) != "table":
            yield f"{table} is no table"
    for view in views:
        if texts.get(view.name) != view.created("sqlite"):
            yield f"the view {view.name} is not the one that this program makes: {_MEND}"


def _postgres(views: Sequence[CreatedView], store: Store) -> Iterator[str]:
    url = store.engine.url.render_as_string(hide_password=False)
    made = engine(url)
    try:
        # Temporary views need a writable transaction; nothing of it is kept.
        with made.connect() as connection:
            yield from _odd_tables(connection)
            stored = _definitions(connection, views)
            for view in views:
                text = view.created("postgresql").replace("CREATE", "CREATE TEMPORARY", 1)
                connection.exec_driver_sql(text.replace("%", "%%"), ())
            expected = _definitions(connection, views)
            connection.rollback()
    finally:
        made.dispose()
    for name, wanted in expected.items():
        if stored[name] != wanted:
            yield f"the view {name} is not the one that this program makes: {_MEND}"


def _odd_tables(connection: sa.Connection) -> Iterator[str]:
    query = "SELECT relkind, relrowsecurity FROM pg_class WHERE oid = to_regclass(%s)"
    for table in METADATA.tables:
        row = connection.exec_driver_sql(query, (table,)).one_or_none()
        if row is None or row[0] not in ("r", "p"):
            yield f"{table} is no table"
        elif row[1]:
            yield f"{table} has row security: not everybody sees all rows"


def _definitions(connection: sa.Connection, views: Sequence[CreatedView]) -> dict[str, str | None]:
    """The server's words for each view found by a question now."""
    query = "SELECT pg_get_viewdef(to_regclass(%s)) WHERE to_regclass(%s) IS NOT NULL"
    return {
        view.name: connection.exec_driver_sql(query, (view.name, view.name)).scalar()
        for view in views
    }
