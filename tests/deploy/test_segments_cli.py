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
from reactors.queue import releasing
from tests.deploy.ledgers import bursar, make_ledger
from tests.deploy.queue_ledger import lived
from tests.recording import recorded
from tests.simulation.loop import simulate


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A ledger of the recording's first events and its last, a day apart, sealed in segments of 500."""
    monkeypatch.setenv("BURSAR_HISTORY__SEGMENT_EVENTS", "500")
    monkeypatch.setenv("BURSAR_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir(mode=0o700)
    made = make_ledger(tmp_path / "data", recorded()[:2_600])
    assert bursar("history", "seal") == 0
    return made


def trim(data, keep_us=SECOND_US):
    """As `bursar history trim` does, for segments that are older than so long."""
    from deploy.runtime.sealing import sealer_of

    store = Store(engine(f"sqlite:///{data / 'ledger.db'}"))
    sealer = sealer_of(load(), store)
    while sealer.trim(keep_us) is not None:
        pass
    line = trimmed_until(store.select)
    store.close()
    return line


def said(capsys, *arguments):
    capsys.readouterr()
    code = bursar(*arguments)
    return code, capsys.readouterr()[0]


#: Each with the exit code of an answer: none of them is an error.
QUESTIONS = {
    ("report", "--by", "team", "-o", "json"): Exit.OK,
    ("acct", "-o", "json"): Exit.OK,
    ("events", "--limit", "9000", "-o", "json"): Exit.OK,
    ("events", "--type", "pod.vanished", "-o", "json"): Exit.OK,
    ("notebooks", "-o", "json"): Exit.OK,
    ("report", "--at", "4200", "-o", "json"): Exit.OK,
    ("diff", "--from", "700", "--to", "6000", "-o", "json"): Exit.OK,
    ("why", "language/evaluation-0"): Exit.OK,
    ("lab", "--policy", "tried.yaml", "--decisions", "-o", "json"): Exit.OK,
    ("lab", "--policy", "tried.yaml", "--from", "6000", "-o", "json"): Exit.OK,
    ("lab", "suggest", "--idle", "30m", "--warning", "5m", "-o", "json"): Exit.OK,
    ("lab", "quotas", "--limits", "tried.yaml", "--workloads", "-o", "json"): Exit.OK,
    ("verify", "--decisions", "-o", "json"): Exit.OK,
    ("replay", "-o", "json"): Exit.OK,
}
IN_C1 = ("--cluster", "c1")
QUEUED = {
    ("queue", "show", "-o", "json"): Exit.OK,
    ("queue", "show", "team"): Exit.OK,
    ("why", "ns/next", *IN_C1): Exit.OK,
    ("lab", "quotas", "--limits", "tried.yaml", *IN_C1, "--workloads", "-o", "json"): Exit.OK,
}
TRIED = """
culling: {policy: {idle_seconds: 1800, warning_seconds: 300}}
quotas: {vision: {limits.cpu: 60}}
"""
SHORTER = "quotas: {team: {queue: {hold: false}}}"


def answers(capsys, questions):
    found = {question: said(capsys, *question) for question in questions}
    assert {question: code for question, (code, _) in found.items()} == questions
    assert [question for question, (_, text) in found.items() if text.strip() in ("", "[]")] == []
    return found


@pytest.fixture
def day(tmp_path, monkeypatch):
    """Half of the recording's day, with notebooks that are culled, sealed but for a few events."""
    return sealed_in(tmp_path, monkeypatch, recorded()[:9_050], 1_000, TRIED)


@pytest.fixture
def queue(tmp_path, monkeypatch):
    """Jobs that run and wait, in segments of a quarter of their history each."""
    monkeypatch.setattr(releasing, "APART_SECONDS", 0.0)
    events = simulate(lived())
    return sealed_in(tmp_path, monkeypatch, events, len(events) // 4, SHORTER)


def sealed_in(folder, monkeypatch, events, every, tried):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("BURSAR_HISTORY__SEGMENT_EVENTS", str(every))
    monkeypatch.setenv("BURSAR_DATA", str(folder / "data"))
    (folder / "data").mkdir(mode=0o700)
    (folder / "tried.yaml").write_text(tried)
    made = make_ledger(folder / "data", events)
    assert bursar("history", "seal") == 0
    return made


@pytest.mark.long
def test_every_question_is_answered_as_before(day, tmp_path, capsys):
    before = answers(capsys, QUESTIONS)
    assert bursar("export", tmp_path / "before.ndjson") == 0
    assert trim(day) == 9_000
    after = answers(capsys, QUESTIONS)

    assert after == before
    assert bursar("export", tmp_path / "after.ndjson") == 0
    assert (tmp_path / "after.ndjson").read_bytes() == (tmp_path / "before.ndjson").read_bytes()


def test_a_queue_is_answered_as_before(queue, capsys):
    before = answers(capsys, QUEUED)
    assert trim(queue, 0) == 12

    assert answers(capsys, QUEUED) == before


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


async def until_in_trouble(sealing):
    run = asyncio.create_task(sealing.run())
    async with asyncio.timeout(30):
        while not sealing.trouble:
            assert not (await asyncio.wait([run], timeout=0.01))[0], "it ends nobody"
    run.cancel()
    await asyncio.wait([run])


async def test_what_cannot_be_sealed_is_said_and_tried_again(data, monkeypatch):
    monkeypatch.setenv("BURSAR_HISTORY__FOLDER", str(data / "ledger.db"))
    monkeypatch.setenv("BURSAR_HISTORY__SEGMENT_EVENTS", "50")
    store = Store(engine(f"sqlite:///{data / 'ledger.db'}"))
    sealing = Sealing(load(), store)
    await until_in_trouble(sealing)
    store.close()

    assert "cannot be written or read" in sealing.trouble


async def test_a_sealer_that_cannot_begin_ends_nobody_who_writes_the_ledger(data, monkeypatch):
    """As where the signing key cannot be read, or the database is away for a moment."""

    def refused(*_):
        raise LedgerError("the key cannot be read")

    monkeypatch.setattr("deploy.runtime.sealing.sealer_of", refused)
    store = Store(engine(f"sqlite:///{data / 'ledger.db'}"))
    sealing = Sealing(load(), store)
    await until_in_trouble(sealing)
    store.close()

    assert "the key cannot be read" in sealing.trouble
