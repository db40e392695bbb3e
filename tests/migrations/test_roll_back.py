"""Back by one version: a schema that only adds is gone on with by the program before, and any other is refused."""

import asyncio
import itertools
import sqlite3

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.script import ScriptDirectory

from bus.errors import LedgerNewerError
from bus.memory import MemoryTransport
from migrations import floor_of, number_of, schema
from projections.catalogue import MODEL
from projections.engine.folder import Folder
from projections.engine.replay import compare, rebuild, swap
from projections.engine.runner import Runner
from projections.engine.store import Store, engine
from projections.views import VIEWS
from tests.deploy.ledgers import bursar, make_ledger
from tests.migrations.looks import objects, revision
from tests.projections.engine.archives import lives

STEP = """
import sqlalchemy as sa
from alembic import op
revision, down_revision = "{revision}", "{before}"
def upgrade():
    op.create_table("dreams", sa.Column("uid", sa.Text, primary_key=True))
    op.add_column("pod_runs", sa.Column("dreams", sa.Integer, server_default="0"))
    op.create_index("by_phase", "pod_runs", ["phase"])
    {more}
"""
NEXT = f"9000_from_{number_of(schema.head())}"


def newer(folder, monkeypatch, revision=NEXT, more=""):
    """From here on this is a program with one step more."""
    folder.mkdir()
    text = STEP.format(revision=revision, before=schema.head(), more=more)
    (folder / f"{revision}_dreams.py").write_text(text)
    given = schema._config

    def config(connection=None):
        found = given(connection)
        places = [found.get_main_option("script_location") + "/versions", str(folder)]
        found.set_main_option("path_separator", "newline")
        found.set_main_option("version_locations", "\n".join(places))
        return found

    monkeypatch.setattr(schema, "_config", config)


def play(made, events):
    async def run():
        transport = MemoryTransport()
        await transport.publish(events)
        store = Store(made)
        await Runner(store, Folder(MODEL, store), transport, batch=50).run(live=False)
        return store

    return asyncio.run(run())


@pytest.mark.simulated
def test_the_program_before_goes_on_with_a_schema_that_only_adds(made, tmp_path, monkeypatch):
    events = lives(30)
    schema.upgrade(made)
    play(made, events[:40])
    with monkeypatch.context() as upgraded:
        newer(tmp_path / "steps", upgraded)
        assert schema.upgrade(made) == NEXT
        play(made, events[:80])
        before = objects(made)
    # Back.
    assert schema.upgrade(made) == NEXT
    store = play(made, events)

    assert (revision(made), objects(made)) == (NEXT, before)
    with rebuild(MODEL, store) as rebuilt:
        assert compare(store, rebuilt).equal
        swap(store, rebuilt)
    with monkeypatch.context() as upgraded:
        newer(tmp_path / "again", upgraded)
        assert schema.upgrade(made) == NEXT


def test_a_step_that_takes_away_is_refused_by_the_program_before(made, tmp_path, monkeypatch):
    schema.upgrade(made)
    with monkeypatch.context() as upgraded:
        newer(tmp_path / "steps", upgraded, revision="9000")
        assert schema.upgrade(made) == "9000"

    with pytest.raises(LedgerNewerError, match="9000"):
        schema.upgrade(made)


def test_views_of_a_newer_program_are_put_back_where_no_step_was_taken(made):
    """A view with a column more is no step, and PostgreSQL replaces it by none with a column less."""
    schema.upgrade(made)
    view = VIEWS[0]
    with made.begin() as connection:
        begin, _, query = view.created(made.dialect.name).partition(" AS\n")
        for one in reversed(VIEWS):
            connection.exec_driver_sql(f"DROP VIEW {one.name}")
        newer = f"{begin} AS SELECT x.*, 1 AS more FROM ({query}) AS x"
        is_escaped = made.dialect.name == "postgresql"
        connection.exec_driver_sql(newer.replace("%", "%%") if is_escaped else newer, ())

    schema.upgrade(made)

    for one in VIEWS:
        with made.connect() as connection:
            found = connection.exec_driver_sql(f"SELECT * FROM {one.name}")
            assert list(found.keys()) == [column.name for column in one.columns]


def test_questions_of_the_program_before_are_answered_from_it(tmp_path, capsys):
    data = make_ledger(tmp_path)
    with sqlite3.connect(data / "ledger.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (NEXT,))
    connection.close()

    assert bursar("report", "--by", "team", "--data", data) in (0, None), capsys.readouterr().err


def columns(made):
    """What is there, by table: each column's type, and whether a row may be written without it."""
    inspector = sa.inspect(made)
    return {
        table: {
            one["name"]: (str(one["type"]), one["nullable"] or one["default"] is not None)
            for one in inspector.get_columns(table)
        }
        for table in inspector.get_table_names()
    }


def only_adds(made, before, after):
    """Whether whoever writes the schema ``before`` can write the schema ``after``, which is taken."""
    with made.begin() as connection:
        command.upgrade(schema._config(connection), before)
    old = columns(made)
    with made.begin() as connection:
        command.upgrade(schema._config(connection), after)
    new = columns(made)
    return all(
        columns.items() <= new.get(table, {}).items()
        and all(is_free for name, (_, is_free) in new[table].items() if name not in columns)
        for table, columns in old.items()
    )


def test_each_step_that_says_so_only_adds(tmp_path, monkeypatch):
    newer(tmp_path / "steps", monkeypatch)
    steps = [one.revision for one in ScriptDirectory.from_config(schema._config()).walk_revisions()]
    by_number = {number_of(one): one for one in steps}
    for number, after in enumerate(one for one in steps if "_from_" in one):
        made = engine(f"sqlite:///{tmp_path / f'{number}.db'}")
        assert only_adds(made, by_number[floor_of(after)], after), after
        older = steps[steps.index(after) :]
        between = itertools.takewhile(lambda one, f=floor_of(after): number_of(one) > f, older)
        assert {floor_of(one) <= floor_of(after) for one in between} == {True}, after
        made.dispose()


@pytest.mark.parametrize(
    "more",
    [
        'op.drop_column("heads", "signature")',
        'op.drop_table("heads")',
        """op.execute("CREATE TABLE x AS SELECT 1"); op.drop_table("heads"); op.rename_table("x", "heads")""",
    ],
)
def test_a_step_that_takes_away_and_says_otherwise_is_found_out(tmp_path, monkeypatch, more):
    before = schema.head()
    newer(tmp_path / "steps", monkeypatch, more=more)
    made = engine(f"sqlite:///{tmp_path / 'a.db'}")

    assert not only_adds(made, before, NEXT)
    made.dispose()
