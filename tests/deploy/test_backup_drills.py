"""`bursar backup` and `restore`: what is lost comes back to the last row, and what is damaged is named and not restored."""

import json
import os
import shutil
import threading
from pathlib import Path
from random import Random

import msgspec
import pytest
import sqlalchemy as sa

from deploy.cli.program.exits import Exit
from deploy.commands import backup as backups
from deploy.commands.backup_places import FolderPlace
from projections.engine.heads import Head, Signer, append, read_heads
from projections.engine.segments import form
from projections.engine.store import Store, engine
from projections.engine.tables import events, heads
from tests.deploy.ledgers import bursar, make_ledger, process, rows_of
from tests.projections.engine.archives import fill
from tests.recording import recorded


@pytest.fixture(autouse=True)
def small_files(monkeypatch):
    monkeypatch.setattr(backups, "FILE_EVENTS", 300)
    monkeypatch.setattr(backups, "BATCH", 70)


def ledger_of(folder, count):
    return make_ledger(_made(folder), recorded()[:count])


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
    assert rows_of(data) == rows_of(tmp_path / "again")


def test_a_restore_to_an_event_is_the_ledger_as_it_was_then(tmp_path):
    data, kept = ledger_of(tmp_path / "data", 900), tmp_path / "kept"
    assert bursar("backup", kept, "--data", data) == 0
    assert bursar("restore", kept, "--data", tmp_path / "then", "--at", 650) == 0

    assert rows_of(ledger_of(tmp_path / "ended", 650)) == rows_of(tmp_path / "then")
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

    assert said["folded"] == 400 and rows_of(data) == rows_of(again)


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


def test_two_backups_at_once(tmp_path, capsys):
    data, kept = ledger_of(tmp_path / "data", 300), _made(tmp_path / "kept")
    with FolderPlace(kept).held():
        assert bursar("backup", kept, "--data", data) == Exit.USAGE

    assert "another backup" in capsys.readouterr()[1]


def test_a_backup_ends_while_the_ledger_is_still_written(tmp_path, monkeypatch):
    data, kept = ledger_of(tmp_path / "data", 300), tmp_path / "kept"
    begun, written, ended = threading.Event(), threading.Event(), threading.Event()
    store, real = Store(engine(f"sqlite:///{data / 'ledger.db'}")), backups._write

    def writes():
        assert begun.wait(60)
        fill(store, recorded()[300:700], batch=20)
        written.set()
        assert ended.wait(60)
        fill(store, recorded()[700:900], batch=20)

    def waits(*given):
        begun.set()
        assert written.wait(60)
        return real(*given)

    monkeypatch.setattr(backups, "_write", waits)
    writer = threading.Thread(target=writes)
    writer.start()
    code, was_writing = bursar("backup", kept, "--data", data), writer.is_alive()
    ended.set()
    writer.join()
    store.close()

    assert (code, was_writing, backups.read_manifest(FolderPlace(kept)).sequence) == (0, True, 300)
    assert bursar("backup", kept, "--data", data) == 0
    assert bursar("restore", kept, "--data", tmp_path / "again") == 0
    assert rows_of(data) == rows_of(tmp_path / "again")


def test_a_second_backup_that_was_broken_off_is_the_first_one(tmp_path, monkeypatch):
    data, kept = ledger_of(tmp_path / "data", 400), tmp_path / "kept"
    assert bursar("backup", kept, "--data", data) == 0
    store = Store(engine(f"sqlite:///{data / 'ledger.db'}"))
    fill(store, recorded()[400:1_100], batch=100)
    store.close()
    real = backups._write

    def dies(folder, found, part):
        if part[0].sequence > 700:
            raise OSError(28, "No space left on device")
        return real(folder, found, part)

    with monkeypatch.context() as patched:
        patched.setattr(backups, "_write", dies)
        assert bursar("backup", kept, "--data", data) != 0
    assert bursar("restore", kept, "--data", tmp_path / "first") == 0
    assert rows_of(tmp_path / "first") == rows_of(ledger_of(tmp_path / "ended", 400))
    assert bursar("backup", kept, "--data", data) == 0
    assert bursar("restore", kept, "--data", tmp_path / "again") == 0
    assert rows_of(data) == rows_of(tmp_path / "again")


def test_what_a_manifest_names_is_on_disk_before_it_and_so_are_the_names(tmp_path, monkeypatch):
    data, kept, steps = ledger_of(tmp_path / "data", 700), _made(tmp_path / "kept"), []
    sign(data, 100)
    sync, rename = os.fsync, Path.replace

    def synced(descriptor):
        found = os.fstat(descriptor)
        steps.append(("sync", found.st_ino, found.st_size))
        sync(descriptor)

    def renamed(path, target):
        found = path.stat()
        steps.append((target.name, found.st_ino, found.st_size))
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    assert bursar("backup", kept, "--data", data, "--with-key") == 0
    folders = [place for place, step in enumerate(steps) if step[1] == kept.stat().st_ino]
    names = [place for place, step in enumerate(steps) if step[0] != "sync"]

    assert len(names) == 6 and steps[names[-1]][0] == backups.MANIFEST
    assert all(("sync", *steps[place][1:]) in steps[:place] for place in names)
    assert any(names[-2] < place < names[-1] for place in folders) and folders[-1] > names[-1]


def test_heads_that_the_ledger_lost_stay_in_the_backup_and_those_of_its_table_come_in(
    tmp_path, capsys
):
    data, kept = ledger_of(tmp_path / "data", 400), tmp_path / "kept"
    written = sign(data, 100, 200)
    (data / "heads.jsonl").write_bytes(b"".join(_lines(data)[:1]))
    assert bursar("backup", kept, "--data", data) == 0
    assert list(read_heads(kept / "heads.jsonl")) == written
    (data / "heads.jsonl").unlink()
    change(data, heads.delete())
    written += sign(data, 50)
    assert bursar("backup", kept, "--data", data) == 0
    assert set(read_heads(kept / "heads.jsonl")) == set(written)
    capsys.readouterr()
    (data / "heads.jsonl").write_bytes(b"no head\n")
    assert bursar("backup", kept, "--data", data) == 0

    assert "not all heads of" in capsys.readouterr()[1]
    assert [head.sequence for head in read_heads(kept / "heads.jsonl")] == [50, 100, 200]


@pytest.mark.parametrize(("with_key", "want"), [(False, [150, 300]), (True, [200])])
def test_only_heads_of_this_history_and_of_one_key_are_restored(with_key, want, tmp_path, capsys):
    data, kept, again = ledger_of(tmp_path / "data", 400), tmp_path / "kept", tmp_path / "again"
    signer = Signer(data / "signing.key")
    sign(data, 150, 300)
    append(data / "heads.jsonl", signer.sign(100, bytes(32)))
    broken = msgspec.structs.replace(signer.sign(250, _chain(data, 250)), signature=bytes(64))
    append(data / "heads.jsonl", broken)
    (data / "signing.key").unlink()
    sign(data, 200)
    with_it = ["--with-key"] if with_key else []
    assert bursar("backup", kept, "--data", data, *with_it) == 0
    capsys.readouterr()
    assert bursar("restore", kept, "--data", again, *with_it) == 0
    said = capsys.readouterr()[1]

    assert [head.sequence for head in read_heads(again / "heads.jsonl")] == want
    assert change(again, sa.select(heads.c.sequence)) == [(sequence,) for sequence in want]
    assert "event 100: their chain" in said and "event 250: their signature" in said
    assert "they are not signed by the key" in said and said.count("left out") == 3


def test_any_number_of_heads_is_restored_in_one_step_behind_those_that_are_there(
    tmp_path, monkeypatch
):
    data, kept, again = ledger_of(tmp_path / "data", 300), tmp_path / "kept", _made(tmp_path / "again")  # fmt: skip
    sign(data, *range(1, 101))
    lines = _lines(data)
    assert bursar("backup", kept, "--data", data) == 0
    (again / "heads.jsonl").write_bytes(lines[7] + lines[3][:50])
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    assert bursar("restore", kept, "--data", again) == 0

    assert len(synced) < 10
    assert _lines(again) == [lines[7], *lines[:7], *lines[8:]]
    assert len(change(again, sa.select(heads.c.sequence))) == 100


def test_with_key_and_no_key_fails_before_anything_is_written(tmp_path, capsys):
    data, kept = ledger_of(tmp_path / "data", 10), tmp_path / "kept"
    assert bursar("backup", kept, "--data", data, "--with-key") == Exit.USAGE

    assert "signing.key: no key can be read" in capsys.readouterr()[1]
    assert not kept.exists()


def test_a_restore_takes_a_key_when_told_to_and_says_which(tmp_path, capsys):
    data, kept, again = ledger_of(tmp_path / "data", 200), tmp_path / "kept", tmp_path / "again"
    sign(data, 100)
    mine = Signer(data / "signing.key").public_key.hex()
    assert bursar("backup", kept, "--data", data, "--with-key") == 0
    capsys.readouterr()
    assert bursar("restore", kept, "--data", again, "-o", "json") == 0
    out, err = capsys.readouterr()

    assert json.loads(out)["signing_key"] == "" and not (again / "signing.key").exists()
    assert "the backup holds a signing key, which is left out: --with-key takes it" in err
    assert bursar("restore", kept, "--data", again, "-o", "json", "--with-key") == 0
    assert json.loads(capsys.readouterr()[0])["signing_key"] == mine
    assert Signer(again / "signing.key").public_key.hex() == mine
    assert bursar("restore", kept, "--data", again, "--with-key") == 0


def test_a_restore_takes_no_key_in_place_of_another(tmp_path, capsys):
    data, kept, again = ledger_of(tmp_path / "data", 200), tmp_path / "kept", _made(tmp_path / "again")  # fmt: skip
    sign(data, 100)
    assert bursar("backup", kept, "--data", data) == 0
    assert bursar("restore", kept, "--data", again, "--with-key") == Exit.USAGE
    assert "kept holds no signing key" in " ".join(capsys.readouterr()[1].split())
    assert bursar("backup", kept, "--data", data, "--with-key") == 0
    there = Signer(again / "signing.key").public_key
    assert bursar("restore", kept, "--data", again, "--with-key") == Exit.USAGE

    said = capsys.readouterr()[1]
    assert there.hex() in said and Signer(data / "signing.key").public_key.hex() in said
    assert not (again / "ledger.db").exists()
    assert Signer(again / "signing.key").public_key == there


def test_a_file_that_stands_for_more_than_ours_do_is_not_unpacked(tmp_path, monkeypatch, capsys):
    data, kept = ledger_of(tmp_path / "data", 300), tmp_path / "kept"
    assert bursar("backup", kept, "--data", data) == 0
    monkeypatch.setattr(form, "LARGEST", 1_000)

    assert bursar("restore", kept, "--data", tmp_path / "again") == Exit.USAGE
    assert "its size is above 1,000 bytes" in capsys.readouterr()[1]


def test_files_are_cut_by_the_bytes_of_their_events_too(tmp_path, monkeypatch):
    data, kept = ledger_of(tmp_path / "data", 250), tmp_path / "kept"
    monkeypatch.setattr(backups, "FILE_BYTES", 9_000)
    assert bursar("backup", kept, "--data", data) == 0
    found = [
        backups._read(FolderPlace(kept), part)
        for part in backups.read_manifest(FolderPlace(kept)).parts
    ]

    assert len(found) > 3
    assert all(sum(len(event.body) for event in part) <= 9_000 or len(part) == 1 for part in found)
    assert bursar("restore", kept, "--data", tmp_path / "again") == 0
    assert rows_of(data) == rows_of(tmp_path / "again")


@pytest.mark.parametrize("lost", [1, 150, 450, 600])
def test_an_archive_with_a_gap_is_not_taken_for_a_history(lost, tmp_path, capsys):
    data, kept = ledger_of(tmp_path / "data", 600), tmp_path / "kept"
    change(data, events.delete().where(events.c.sequence == lost))
    assert bursar("backup", kept, "--data", data) != 0

    assert ("has a gap" in capsys.readouterr()[1]) == (lost < 600)
    assert not (kept / backups.MANIFEST).exists()


def test_drafts_of_a_killed_backup_are_removed_and_other_files_are_not(tmp_path):
    data, kept = ledger_of(tmp_path / "data", 10), _made(tmp_path / "kept")
    names = ["events-000000000001.zst", "backup.json", "heads.jsonl", "signing.key"]
    for name in names:
        (kept / f"{name}.{'0a' * 8}.new").write_bytes(b"half")
    (kept / "notes.new").write_bytes(b"of somebody")
    assert bursar("backup", kept, "--data", data) == 0

    assert [path.name for path in kept.glob("*.new")] == ["notes.new"]


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
        done = process("restore", kept, "--data", data, "--with-key")
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


def sign(data: Path, *sequences: int) -> list[Head]:
    """Heads at these events, by the key of the data folder, in its file and in the table."""
    signer = Signer(data / "signing.key")
    made = [signer.sign(sequence, _chain(data, sequence)) for sequence in sequences]
    for head in made:
        append(data / "heads.jsonl", head)
    change(data, heads.insert(), [msgspec.structs.asdict(head) for head in made])
    return made


def change(data: Path, statement, *given):
    """One statement in the ledger, and its rows where it has any."""
    made = engine(f"sqlite:///{data / 'ledger.db'}")
    with made.begin() as connection:
        done = connection.execute(statement, *given)
        found = [tuple(row) for row in done] if done.returns_rows else []
    made.dispose()
    return found


def _chain(data: Path, sequence: int) -> bytes:
    query = sa.select(events.c.chain).where(events.c.sequence == sequence)
    return bytes(change(data, query)[0][0])


def _lines(data: Path) -> list[bytes]:
    return (data / "heads.jsonl").read_bytes().splitlines(keepends=True)
