"""How Alembic reaches the ledger: over the connection that :mod:`migrations.schema` holds, in its transaction.

For a new step, written by autogenerate and then read by a person, a URL may be given instead:
``alembic -c migrations/alembic.ini -x url=sqlite:///ledger.db revision --autogenerate -m "…"``.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context

from projections.catalogue import METADATA


def _run(connection: sa.Connection) -> None:
    # SQLite's schema changes are transactional too, though Alembic assumes they are not.
    context.configure(connection=connection, target_metadata=METADATA, transactional_ddl=True)
    with context.begin_transaction():
        context.run_migrations()


_given = context.config.attributes.get("connection")
if _given is not None:
    _run(_given)
else:
    with sa.create_engine(context.get_x_argument(as_dictionary=True)["url"]).begin() as _made:
        _run(_made)
