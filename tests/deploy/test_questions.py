"""Free SQL reads and does nothing else (docs/wrong-input.md)."""

import sqlite3

import pytest

from deploy.errors import AbsentLedgerError, SettingsError
from deploy.queries.sql import ask
from deploy.settings.load import load
from tests.deploy.ledgers import bursar, make_ledger


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    return load({"data": make_ledger(tmp_path_factory.mktemp("ledger"))})


def test_tables_and_views_are_answered(settings):
    answer = ask(settings, "SELECT uid, end_s - start_s AS held_s FROM held_segments")

    assert (answer.columns, answer.rows, answer.is_cut) == (
        ["uid", "held_s"],
        [["bound", 7200]],
        False,
    )


def test_rows_are_limited_and_it_says_so(settings):
    answer = ask(settings, "SELECT sequence, sequence FROM events", rows=2)

    assert (answer.columns, len(answer.rows), answer.is_cut) == (
        ["sequence", "sequence_1"],
        2,
        True,
    )


@pytest.mark.parametrize(
    "query",
    [
        "ATTACH 'x.db' AS y",
        "PRAGMA journal_mode = DELETE",
        "SELECT * FROM pragma_table_info('events')",
        "SELECT load_extension('x')",
        "DELETE FROM events",
        "UPDATE events SET body = x'00'",
        "INSERT INTO parked VALUES (1, 'a', 'b', 'c')",
        "DROP TABLE events",
        "CREATE TEMP TABLE t (a)",
        "BEGIN",
        "VACUUM INTO 'x.db'",
        "SELECT 1; DELETE FROM events",
        "SELECT zeroblob(1000000000)",
        "SELEC 1",
        "-- nothing",
    ],
)
def test_everything_else_is_refused(settings, query, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError):
        ask(settings, query)

    assert ask(settings, "SELECT count(*) FROM events").rows == [[5]]
    assert not list(tmp_path.iterdir())


def test_an_endless_query_is_stopped(settings):
    endless = (
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t"
    )
    with pytest.raises(SettingsError, match=r"stopped after 0\.2 s"):
        ask(settings, endless, seconds=0.2)


def test_looking_makes_no_ledger(tmp_path):
    with pytest.raises(AbsentLedgerError):
        ask(load({"data": tmp_path}), "SELECT 1")

    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("revision", "words"),
    [
        ("0003", ["written by an older Bursar", "its schema is 0003", "up` brings it up to date"]),
        ("9999", ["newer than this code"]),
        ("9999_from_9998", ["newer than this code"]),
    ],
)
@pytest.mark.parametrize(
    "command", [("status",), ("report", "--by", "team"), ("why", "x"), ("sql", "SELECT 1")]
)
def test_a_question_to_a_ledger_of_another_version_says_so(
    tmp_path, capsys, command, revision, words
):
    data = make_ledger(tmp_path)
    with sqlite3.connect(data / "ledger.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    connection.close()

    assert bursar(*command, "--data", data) not in (0, None)
    told = " ".join(capsys.readouterr().err.split())
    assert all(word in told for word in words), told
