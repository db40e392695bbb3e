"""The migrations make what is declared, once, whole or not at all, and never touch a newer ledger."""

import threading

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from bus import crashpoints
from bus.errors import LedgerNewerError
from migrations import schema
from projections.catalogue import METADATA
from projections.engine.store import engine
from projections.engine.tables import checkpoints
from projections.views import VIEWS
from tests.migrations.looks import objects, revision


def test_the_migrations_make_exactly_the_declared_tables(made):
    schema.upgrade(made)

    with made.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []


def test_every_view_is_there_and_can_be_asked(made):
    schema.upgrade(made)

    for view in VIEWS:
        with made.connect() as connection:
            found = connection.exec_driver_sql(f"SELECT * FROM {view.name}")
            assert list(found.keys()) == [column.name for column in view.columns]


def test_upgrading_twice_changes_nothing(made):
    first = schema.upgrade(made), objects(made)

    assert (schema.upgrade(made), objects(made)) == first
    assert revision(made) == schema.head()


def test_a_newer_ledger_is_refused_and_left_as_it_is(made):
    schema.upgrade(made)
    with made.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    before = objects(made)

    with pytest.raises(LedgerNewerError):
        schema.upgrade(made)

    assert (revision(made), objects(made)) == ("9999", before)


class _Crash(BaseException):
    pass


@pytest.mark.parametrize("label", ["migrate.before_upgrade", "migrate.after_upgrade"])
def test_a_crash_on_the_way_leaves_the_database_as_it_was(made, label):
    def hook(reached):
        if reached == label:
            raise _Crash

    crashpoints.install(hook)
    try:
        with pytest.raises(_Crash):
            schema.upgrade(made)
    finally:
        crashpoints.install(None)

    assert objects(made) == ([], [])
    assert schema.upgrade(made) == schema.head()


@pytest.mark.parametrize("statement", range(1, 40, 3))
def test_a_crash_at_any_statement_leaves_the_database_as_it_was(tmp_path, statement):
    made = engine(f"sqlite:///{tmp_path / 'ledger.db'}")
    left = statement

    def hook(*_):
        nonlocal left
        left -= 1
        if left == 0:
            raise _Crash

    sa.event.listen(made, "before_cursor_execute", hook)
    with pytest.raises(_Crash):
        schema.upgrade(made)
    sa.event.remove(made, "before_cursor_execute", hook)

    assert objects(made) == ([], [])
    assert schema.upgrade(made) == schema.head()
    made.dispose()


@pytest.mark.parametrize("_again", range(4))
def test_several_that_make_a_ledger_together_take_each_step_once(url, _again):
    engines = [engine(url) for _ in range(4)]
    failed = []
    together = threading.Barrier(len(engines))

    def run(made):
        together.wait()
        try:
            schema.upgrade(made)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(made,)) for made in engines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for made in engines:
        made.dispose()

    assert failed == []


def test_a_view_with_another_text_is_made_again(made):
    schema.upgrade(made)
    name = VIEWS[-1].name
    with made.begin() as connection:
        connection.exec_driver_sql(f"DROP VIEW {name}")

    schema.upgrade(made)

    assert name in objects(made)[1]


def test_texts_are_ordered_by_their_bytes(made):
    schema.upgrade(made)
    with made.begin() as connection:
        for uid in ("a-b", "B", "ab", "é"):
            connection.exec_driver_sql(
                f"INSERT INTO workloads VALUES ('{uid}', '', '', '', '', NULL, 0, '', 1)"
            )
        found = connection.exec_driver_sql("SELECT uid FROM workloads ORDER BY uid").all()

    assert [row[0] for row in found] == ["B", "a-b", "ab", "é"]


#: The projections of that time by name.
BEFORE = (
    "namespaces=3,nodes=1,workloads=4,budget_entries=1,quotas=2,activity=1,admissions=2,grants=1,declared_quotas=1,"
    "decisions=2,waits=1,evidence=1,budgets=2,pod_runs=6,usage=1,budget_spends=1"
)


@pytest.mark.parametrize(
    ("numbers", "taken_over"),
    [
        ("3-1-4-1-2-1-2-1-1-2-1-1-6-1-1-2", BEFORE),
        ("3-1-4", "3-1-4"),
    ],
)
def test_the_versions_of_a_ledger_written_before_are_taken_over(made, numbers, taken_over):
    schema.upgrade(made)
    with made.begin() as connection:
        command.downgrade(schema._config(connection), "0012")
        row = ("ledger", numbers, "s", 1, 1, 0, b"", b"", 0)
        connection.execute(checkpoints.insert().values(row))

    schema.upgrade(made)

    with made.connect() as connection:
        found = connection.scalar(sa.select(checkpoints.c.version))
    assert set(found.split(",")) == set(taken_over.split(","))
