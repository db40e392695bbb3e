"""What a ledger's database has."""

import sqlalchemy as sa
from alembic.migration import MigrationContext

from migrations.schema import LOCK


def objects(made):
    """Every table and view there is, by name, without the view that stands for the lock of the schema."""
    inspector = sa.inspect(made)
    return sorted(inspector.get_table_names()), sorted({*inspector.get_view_names()} - {LOCK})


def revision(made):
    """The revision of a ledger's schema; None for an empty database."""
    with made.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()
