"""A history that is sealed and trimmed by the program's commands answers as before, and what goes wrong is said."""

import asyncio
import json
import re
import shutil

import pytest

from bus.clock import SECOND_US
from bus.errors import LedgerError
from deploy.cli.program.exits import Exit
from deploy.runtime.sealing import Sealing
from deploy.settings.load import load
from projections.engine.segments.reading import trimmed_until
from projections.engine.store import Store, engine
from tests.deploy.ledgers import bursar, make_ledger
from tests.recording import recorded


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A ledger of the recording's first events and its last, a day apart, sealed in segments of 500."""
    monkeypatch.setenv("BURSAR_HISTORY__SEGMENT_EVENTS", "500")
    monkeypatch.setenv("BURSAR_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir(mode=0o700)
    made = make_ledger(tmp_path / "data", recorded()[:2_600])
    assert bursar("history", "seal") == 0
    return made


def trim(data):
    """As `bursar history trim` does, for segments that are older than a second."""
    from deploy.runtime.sealing import sealer_of

    store = Store(engine(f"sqlite:///{data / 'ledger.db'}"))
    sealer = sealer_of(load(), store)
    while sealer.trim(SECOND_US) is not None:
        pass
    line = trimmed_until(store.select)
    store.close()
    return line


def said(capsys, *arguments):
    capsys.readouterr()
    code = bursar(*arguments)
    return code, capsys.readouterr()[0]


QUESTIONS = (
    ("report", "--by", "team", "-o", "json"),
    ("acct", "-o", "json"),
    ("events", "--limit", "3000", "-o", "json"),
    ("events", "--type", "pod.vanished", "-o", "json"),
    ("notebooks", "-o", "json"),
    ("queue", "list", "-o", "json"),
    ("report", "--at", "1200", "-o", "json"),
    ("diff", "--from", "700", "--to", "2000", "-o", "json"),
    ("why", "nobody-of-this-name"),
    ("verify", "--decisions", "-o", "json"),
    ("replay", "-o", "json"),
)


@pytest.mark.long
def test_every_question_is_answered_as_before(data, tmp_path, capsys):
    before = [said(capsys, *question) for question in QUESTIONS]
    assert bursar("export", tmp_path / "before.ndjson") == 0
    assert trim(data) == 2_500
    after = [said(capsys, *question) for question in QUESTIONS]

    assert after == before
    assert bursar("export", tmp_path / "after.ndjson") == 0
    assert (tmp_path / "after.ndjson").read_bytes() == (tmp_path / "before.ndjson").read_bytes()


def test_a_backup_of_a_trimmed_ledger_is_whole(data, tmp_path, capsys):
    trim(data)
    assert bursar("backup", tmp_path / "kept") == 0
    assert bursar("restore", tmp_path / "kept", "--data", tmp_path / "again") == 0
    code, text = said(capsys, "replay", "--data", tmp_path / "again", "-o", "json")

    assert (code, json.loads(text)["events"], json.loads(text)["equal"]) == (0, 2_600, True)


def test_status_says_what_is_sealed_trimmed_and_missing(data, capsys):
    assert "5, sealed until event 2,500, nothing trimmed" in said(capsys, "status")[1]
    trim(data)
    (data / "segments" / "segment-000000000501.zst").unlink()
    code, text = said(capsys, "status", "-o", "json")
    found = json.loads(text)["segments"]

    assert code == Exit.UNHEALTHY
    assert (found["sealed"], found["trimmed"], len(found["missing"])) == (2_500, 2_500, 1)
    assert re.search(r"missing: \S+segment-000000000501\.zst", said(capsys, "status")[1].replace("\n", ""))  # fmt: skip
    assert (
        "missing" in json.loads(said(capsys, "history", "segments", "-o", "json")[1])[1]["problem"]
    )
    code, text = said(capsys, "verify", "-o", "json")
    assert code == Exit.DIFFERENT
    assert "segment-000000000501.zst" in json.loads(text)["findings"][0]["reason"]


def test_status_misses_no_file_of_a_folder_on_another_machine_that_nothing_needs(data, capsys):
    shutil.rmtree(data / "segments")
    found = json.loads(said(capsys, "status", "-o", "json")[1])["segments"]

    assert (found["missing"], found["away"]) == ([], 5)
    assert "(5 in a folder that this machine lacks)" in " ".join(said(capsys, "status")[1].split())


def test_nothing_is_trimmed_that_is_younger_than_was_asked_for(data, capsys):
    _, text = said(capsys, "history", "trim", "--keep-days", "2", "-o", "json")

    assert json.loads(text)["trimmed"] == 0


@pytest.mark.parametrize("text", ["90", "0d", "-1d", "90 d", "forever", ""])
def test_an_age_that_is_none_is_refused(data, monkeypatch, capsys, text):
    monkeypatch.setenv("BURSAR_HISTORY__KEEP", text)

    assert bursar("history", "seal") == Exit.USAGE
    assert "such as 90d" in capsys.readouterr()[1]


async def test_what_cannot_be_sealed_is_said_and_tried_again(data, monkeypatch):
    monkeypatch.setenv("BURSAR_HISTORY__FOLDER", str(data / "ledger.db"))
    monkeypatch.setenv("BURSAR_HISTORY__SEGMENT_EVENTS", "50")
    store = Store(engine(f"sqlite:///{data / 'ledger.db'}"))
    sealing = Sealing(load(), store)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(sealing.run(), 1)
    store.close()

    assert "cannot be written or read" in sealing.trouble


async def test_a_sealer_that_cannot_begin_ends_nobody_who_writes_the_ledger(data, monkeypatch):
    """As where the signing key cannot be read, or the database is away for a moment."""

    def refused(*_):
        raise LedgerError("the key cannot be read")

    monkeypatch.setattr("deploy.runtime.sealing.sealer_of", refused)
    store = Store(engine(f"sqlite:///{data / 'ledger.db'}"))
    sealing = Sealing(load(), store)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(sealing.run(), 1)
    store.close()

    assert "the key cannot be read" in sealing.trouble
