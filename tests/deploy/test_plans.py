"""What people ask of one thing, or of what is there now, reads no table whole that grows with history, on both databases."""

import re

import pytest
import sqlalchemy as sa

from projections.engine.store import engine
from tests.deploy.ledgers import EVENTS, bursar
from tests.factories import numbered
from tests.projections.engine.archives import fill, ledger

#: Tables that grow with what happened, not with what is there.
GROWING = {
    "admissions", "bind_decisions", "budget_spends", "card_segments", "card_supply", "claim_cards", "claim_departures",
    "claim_devices", "decisions", "events", "grants", "held_segments", "own_charges", "pod_beats", "pod_claims", "pod_departures",
    "pod_lists", "pod_runs", "report_days", "report_days_by_model", "report_days_by_node", "report_slots", "resource_claims",
    "usage_days", "usage_hours", "waits", "workloads",
}  # fmt: skip
#: Aliases under which views read them.
ALIASES = {"g", "h", "p", "r", "w"}
#: Indexes of the rows that are open, or hold something: as many as there are now.
PARTIAL = {
    "card_segments_open",
    "card_supply_open",
    "grants_holding",
    "pod_runs_flagged",
    "pod_runs_open",
}
#: Indexes of which a statement with a limit reads the beginning.
ORDERED = {"pod_runs_by_name", "workloads_by_name"}

COMMANDS = [
    ("acct", "--pod", "waits"),
    ("acct", "--pod", "nobody"),
    ("status",),
    ("why", "ns/waits"),
    ("devices",),
    ("jobs", "list"),
    ("quota", "tree"),
    ("queue", "show"),
    ("report", "--by", "team", "--from", "7d"),
]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request, tmp_path):
    found = f"sqlite:///{tmp_path / 'ledger.db'}"
    if request.param == "postgres":
        found = request.getfixturevalue("postgres_url")
    store = ledger(found)
    fill(store, numbered(EVENTS), batch=len(EVENTS))
    store.close()
    return found


def asked(url, data, command):
    """The SELECT statements of a command, with their parameters."""
    found = []

    def note(connection, cursor, statement, parameters, *_):
        # Catalogues of PostgreSQL are not the ledger's.
        if re.match(r"\s*(SELECT|WITH)", statement) and "pg_catalog" not in statement:
            found.append((statement, parameters))

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        bursar(*command, "--data", data, "--ledger", url.replace("+psycopg", ""))
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)
    return found


def whole(connection, statement, parameters):
    """The tables that a statement reads whole."""
    if connection.dialect.name == "postgresql":
        # Of tables this small no plan would use an index.
        connection.exec_driver_sql("SET enable_seqscan = off")
        lines = connection.exec_driver_sql(f"EXPLAIN {statement}", parameters).scalars()
        return {m[1] for line in lines if (m := re.search(r"Seq Scan on (\w+)", line))} & GROWING
    rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
    scans = [m for row in rows if (m := re.match(r"SCAN (\w+)(?:.* INDEX (\w+))?", row[3]))]
    bounded = PARTIAL | ORDERED if "LIMIT" in statement else PARTIAL
    return {m[1] for m in scans if m[1] in GROWING | ALIASES and m[2] not in bounded}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_table_that_grows_is_read_whole(url, tmp_path, command, capsys):
    statements = asked(url, tmp_path, command)
    made = engine(url)
    with made.connect() as connection:
        found = {
            text: read for text, given in statements if (read := whole(connection, text, given))
        }
    made.dispose()

    assert statements
    assert found == {}
