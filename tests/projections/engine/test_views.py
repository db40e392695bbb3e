"""The views say what the accounts say, on both databases; the page says what the views are."""

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from projections.accounts import accounts
from projections.catalogue import MODEL
from projections.timelines import DAY, HOUR
from projections.usage import pieces
from projections.views import VIEWS, page
from tests import factories as given
from tests.projections.engine.archives import fill, lives, sequenced

AMOUNTS = ("cpu_milli", "gpu_milli", "memory_mib")
GROUP = ("cluster", "team", "user_name", "namespace", "workload", "model")


@pytest.fixture
def filled(store):
    """Pods of many ends, one resized within an hour, one open for days, one that waits, and a parked event."""
    resized = {"created": 100, "scheduled": 100}
    events = [
        *lives(30),
        given.pod_observed("resized", 1, 100, **resized, cpu=1),
        given.pod_observed("resized", 2, 200, **resized, cpu=2),
        given.pod_observed("resized", 3, 5_000, **resized, cpu=3, gpu=1),
        given.pod_observed("long", 1, 100, created=50, scheduled=3_600),
        msgspec.structs.replace(given.pod_observed("poison"), body=b"\xff\x00 no text"),
        given.pod_observed("last", 1, 3 * DAY, created=3 * DAY - 7, node=None, phase="Pending"),
    ]
    fill(store, sequenced(events))
    return store


def asked(store, query):
    with store.engine.connect() as connection:
        found = connection.exec_driver_sql(query)
        return [dict(row._mapping) for row in found]


def held(store):
    """(account, holding) of every segment at the ledger's moment."""
    now = store.checkpoint(MODEL.version).observed_us // 1_000_000
    found = accounts(store.select, as_of_s=now)
    return [(account, holding) for account in found for holding in account.holdings]


@pytest.mark.parametrize(
    ("view", "period", "width"), [("hour", "hour_s", HOUR), ("day", "day_s", DAY)]
)
def test_usage_equals_the_accounts_cut_at_the_periods(filled, view, period, width):
    want, pods = Counter(), {}
    for account, holding in held(filled):
        group = (account.cluster, holding.team, holding.user, account.namespace, account.workload)
        for start, seconds in pieces(holding.start_s, holding.end_s, width):
            key = (start, *group, holding.model or "")
            pods.setdefault(key, set()).add(account.uid)
            want[(*key, "held_s")] += seconds
            for amount in AMOUNTS:
                want[(*key, f"{amount}_s")] += getattr(holding, amount) * seconds

    got = Counter()
    for row in asked(filled, f"SELECT * FROM v1_usage_by_{view}"):
        key = (row[period], *(row[name] for name in GROUP))
        assert row["pods"] == len(pods.pop(key))
        for amount in ("held_s", *(f"{a}_s" for a in AMOUNTS)):
            got[(*key, amount)] = row[amount]

    assert pods == {}
    assert +got == +want


@pytest.mark.parametrize("by", ["team", "model"])
def test_rollups_add_up_to_the_same_totals(filled, by):
    want = Counter()
    for _, holding in held(filled):
        name = (getattr(holding, by) or "") if by == "model" else holding.team
        want[name] += holding.cpu_milli * (holding.end_s - holding.start_s)

    got = Counter()
    for row in asked(filled, f"SELECT * FROM v1_usage_by_{by}"):
        got[row[by]] += row["cpu_milli_s"]
        assert row["core_hours"] == pytest.approx(row["cpu_milli_s"] / 3_600_000)
        assert row["memory_gib_hours"] == pytest.approx(row["memory_mib_s"] / 1024 / 3600)

    assert got == want


def test_segments_and_runs_equal_the_accounts(filled):
    now = filled.checkpoint(MODEL.version).observed_us // 1_000_000
    found = accounts(filled.select, as_of_s=now)
    rows = {row["uid"]: row for row in asked(filled, "SELECT * FROM v1_pod_runs")}
    segments = Counter()
    for row in asked(filled, "SELECT * FROM v1_held_segments"):
        segments[row["uid"]] += row["cpu_milli_s"]

    for account in found:
        row = rows[account.uid]
        total = sum(h.cpu_milli * (h.end_s - h.start_s) for h in account.holdings)
        assert (row["waiting_s"], row["unknown_s"]) == (account.waiting_s, account.unknown_s)
        assert (row["is_open"], segments[account.uid]) == (int(account.is_open), total)


def test_stamps_are_text_in_utc(filled):
    row = asked(filled, "SELECT * FROM v1_pod_runs WHERE uid = 'long'")[0]
    ledger = asked(filled, "SELECT * FROM v1_ledger")[0]

    assert (row["created_at"], row["start_at"], row["end_at"]) == (
        "2026-10-26T08:00:50Z",
        "2026-10-26T09:00:00Z",
        None,
    )
    assert ledger["observed_at"] == "2026-10-29T08:00:00.000000Z"
    assert (ledger["parked"], ledger["sequence"]) == (1, filled.checkpoint(MODEL.version).sequence)
    assert ledger["chain"] == filled.checkpoint(MODEL.version).chain.hex()


def test_events_show_their_bodies_unless_parked(filled):
    rows = asked(filled, "SELECT sequence, body, raw FROM v1_events ORDER BY sequence")
    parked = asked(filled, "SELECT * FROM v1_parked")

    assert [row["sequence"] for row in rows if row["body"] is None] == [parked[0]["sequence"]]
    assert bytes(parked[0]["raw"]) == b"\xff\x00 no text"
    assert all(row["body"].encode() == bytes(row["raw"]) for row in rows if row["body"] is not None)


def test_the_page_is_written_from_the_views():
    stored = Path(__file__).parents[3] / "docs" / "views.md"

    assert stored.read_text() == page(), "python -m projections.views > docs/views.md"


def test_every_view_and_column_is_explained_in_a_sentence():
    for view in VIEWS:
        names = [column.name for column in view.columns]
        assert len(set(names)) == len(names)
        for text in (view.meaning, *(column.meaning for column in view.columns)):
            assert text.endswith((".", "…")), text
