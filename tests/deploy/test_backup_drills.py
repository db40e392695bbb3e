"""`bursar backup` and `restore`: what is lost comes back to the last row, and what is damaged is named and not restored."""

import json
import shutil
import threading
from pathlib import Path
from random import Random

import pytest

from deploy.cli.program.exits import Exit
from deploy.commands import backup as backups
from projections.catalogue import MODEL
from projections.engine.dump import digest
from projections.engine.store import Store, engine
from tests.deploy.ledgers import bursar, make_ledger, process
from tests.projections.engine.archives import fill
from tests.recording import recorded


@pytest.fixture(autouse=True)
def small_files(monkeypatch):
    monkeypatch.setattr(backups, "FILE_EVENTS", 300)
    monkeypatch.setattr(backups, "BATCH", 70)


def ledger_of(folder, count):
    return make_ledger(_made(folder), recorded()[:count])


def rows(data):
    store = Store(engine(f"sqlite:///{data / 'ledger.db'}", read_only=True))
    try:
        return digest(MODEL, store), store.archived(1, 10**6)
    finally:
        store.close()


def test_a_backup_again_adds_what_came_since_and_a_restore_is_equal_to_the_last_row(
    tmp_path, capsys
):
    data, kept = ledger_of(tmp_path / "data", 700), tmp_path / "kept"
    assert bursar("backup", kept, "--data", data) == 0
    files = {one.name: one.read_bytes() for one in kept.glob("*.zst")}
    store = Store(engine(f"sqlite:///{data / 'ledger.db'}"))
    fill(store, recorded()[700:1_100], batch=100)
    store.close()
    capsys.readouterr()
    assert bursar("backup", kept, "--data", data, "-o", "json") == 0
    said = json.loads(capsys.readouterr()[0])

    assert (said["added"], said["events"], said["files"]) == (400, 1_100, 5)
    assert files.items() <= {one.name: one.read_bytes() for one in kept.glob("*.zst")}.items()
    assert bursar("restore", kept, "--data", tmp_path / "again") == 0
    assert rows(data) == rows(tmp_path / "again")


def test_a_restore_to_an_event_is_the_ledger_as_it_was_then(tmp_path):
    data, kept = ledger_of(tmp_path / "data", 900), tmp_path / "kept"
    assert bursar("backup", kept, "--data", data) == 0
    assert bursar("restore", kept, "--data", tmp_path / "then", "--at", 650) == 0

    assert rows(ledger_of(tmp_path / "ended", 650)) == rows(tmp_path / "then")
    assert bursar("restore", kept, "--data", tmp_path / "beyond", "--at", 901) == Exit.USAGE


def test_what_was_broken_off_goes_on(tmp_path, monkeypatch, capsys):
    data, kept, again = ledger_of(tmp_path / "data", 900), tmp_path / "kept", tmp_path / "again"
    real, written = backups._write, []

    def dies(*given):
        written.append(given)
        if len(written) == 2:
            raise OSError(28, "No space left on device")
        return real(*given)

    monkeypatch.setattr(backups, "_write", dies)
    assert bursar("backup", kept, "--data", data) != 0
    assert not (kept / backups.MANIFEST).exists()
    assert bursar("backup", kept, "--data", data) == 0
    assert bursar("restore", kept, "--data", again, "--at", 500) == 0
    capsys.readouterr()
    assert bursar("restore", kept, "--data", again, "-o", "json") == 0
    said = json.loads(capsys.readouterr()[0])

    assert said["folded"] == 400 and rows(data) == rows(again)


@pytest.mark.parametrize("seed", range(12))
def test_one_changed_byte_anywhere_is_named_and_nothing_more_is_restored(seed, tmp_path, capsys):
    kept, dice = tmp_path / "kept", Random(seed)
    assert bursar("backup", kept, "--data", ledger_of(tmp_path / "data", 700)) == 0
    path = dice.choice(sorted(kept.glob("*.zst")))
    content = bytearray(path.read_bytes())
    change = dice.randrange(3)
    if change == 0:
        content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    elif change == 1:
        del content[dice.randrange(len(content)) :]
    path.write_bytes(content) if change < 2 else path.unlink()
    capsys.readouterr()

    assert bursar("restore", kept, "--data", tmp_path / "again") == Exit.USAGE
    assert path.name in capsys.readouterr()[1]


@pytest.mark.parametrize("field", ["sequence", "chain", "order", "format", "json"])
def test_a_changed_manifest_is_refused(field, tmp_path, capsys):
    kept = tmp_path / "kept"
    assert bursar("backup", kept, "--data", ledger_of(tmp_path / "data", 700)) == 0
    path = kept / backups.MANIFEST
    said = json.loads(path.read_bytes())
    if field == "sequence":
        said["parts"][0]["last"] += 1
    elif field == "chain":
        said["parts"][1]["chain"] = "00" * 32
    elif field == "order":
        said["parts"].reverse()
    elif field == "format":
        said["format"] = 2
    path.write_text(json.dumps(said)[: None if field != "json" else 100])
    capsys.readouterr()

    assert bursar("restore", kept, "--data", tmp_path / "again") == Exit.USAGE
    assert "kept" in capsys.readouterr()[1]


def test_another_history_is_neither_added_nor_written_over(tmp_path, capsys):
    one, other = ledger_of(tmp_path / "one", 400), make_ledger(_made(tmp_path / "other"), recorded()[50:400])  # fmt: skip
    kept = tmp_path / "kept"
    assert bursar("backup", kept, "--data", one) == 0
    before = {path.name: path.read_bytes() for path in kept.iterdir()}

    assert bursar("backup", kept, "--data", other) == Exit.USAGE
    assert "another history" in capsys.readouterr()[1]
    assert before == {path.name: path.read_bytes() for path in kept.iterdir()}
    assert bursar("restore", kept, "--data", other) == Exit.USAGE
    assert "another history" in capsys.readouterr()[1]
    assert bursar("restore", tmp_path / "nothing", "--data", tmp_path / "new") == Exit.USAGE


def test_two_backups_at_once_and_a_ledger_that_is_written_meanwhile(tmp_path, capsys):
    data, kept = ledger_of(tmp_path / "data", 300), _made(tmp_path / "kept")
    with backups._held(kept):
        assert bursar("backup", kept, "--data", data) == Exit.USAGE
    assert "another backup" in capsys.readouterr()[1]
    store = Store(engine(f"sqlite:///{data / 'ledger.db'}"))
    writer = threading.Thread(
        target=fill, args=(store, recorded()[300:1_500]), kwargs={"batch": 20}
    )
    writer.start()
    codes = [bursar("backup", kept, "--data", data) for _ in range(4)]
    writer.join()
    codes.append(bursar("backup", kept, "--data", data))
    store.close()

    assert codes == [0] * 5
    assert bursar("restore", kept, "--data", tmp_path / "again") == 0
    assert rows(data) == rows(tmp_path / "again")


@pytest.mark.nats
@pytest.mark.long
@pytest.mark.parametrize("lost", ["bus", "ledger", "both"])
def test_a_drill(lost, tmp_path):
    data, kept = tmp_path / "data", tmp_path / "kept"
    assert process("up", "--once", "--data", data).returncode == 0
    report = ("report", "--by", "team", "-o", "json", "--data", data)
    before = process(*report).stdout
    done = process("backup", kept, "--data", data, "--with-key")
    assert done.returncode == 0, done.stderr
    if lost != "ledger":
        shutil.rmtree(data / "bus")
    if lost != "bus":
        for path in [*data.glob("ledger.db*"), data / "heads.jsonl", data / "signing.key"]:
            path.unlink()
        done = process("restore", kept, "--data", data)
        assert done.returncode == 0, done.stderr
    done = process("recover", "--data", data)
    assert done.returncode == 0, done.stderr
    done = process("up", "--once", "--data", data)
    assert done.returncode == 0, done.stderr
    checked = process("verify", "--data", data, "--heads", kept / "heads.jsonl")

    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert before == process(*report).stdout


def _made(path: Path) -> Path:
    path.mkdir(mode=0o700)
    return path
