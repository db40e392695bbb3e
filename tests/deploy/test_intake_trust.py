"""What a data folder and a file of another's may do to a ledger: nothing but be read."""

import json
import os
import stat
import subprocess
import sys
import time

import pytest
import zstandard

from bus.envelope import to_line
from bus.errors import EnvelopeError
from bus.events import DECIDED, OBSERVED, VOCABULARY
from bus.events.policies import PauseChanged
from bus.sources.events import read_lines
from tests import factories as said
from tests.deploy.ledgers import EVENTS, bursar, make_ledger, process

PAUSE = PauseChanged(author="mallory", is_paused=True).event(
    cluster="c1", key="pause", id="pause/1", source="cli/mallory", time_us=1_790_000_000_000_000
)


@pytest.fixture
def foreign(tmp_path):
    """A file of somebody else's: observations, a pause, and a type that this program does not know."""
    file = tmp_path / "foreign.ndjson"
    newer = to_line(PAUSE).replace(b"pause.changed", b"pause.widened").replace(b"pause/1", b"p/2")
    file.write_bytes(b"\n".join([*map(to_line, EVENTS), to_line(PAUSE), newer]) + b"\n")
    return file


def imported(file, data, *options):
    found = process("import", "events", file, "--data", data, "-o", "json", *options)
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


def events(capsys, data):
    capsys.readouterr()
    assert bursar("events", "--data", data, "-o", "json") == 0
    return json.loads(capsys.readouterr().out)


def test_every_type_is_either_observed_or_decided():
    assert VOCABULARY.keys() == OBSERVED.keys() | DECIDED.keys()
    assert not OBSERVED.keys() & DECIDED.keys()
    assert {"pause.changed", "policy.changed", "budget.credited", "queue.ordered"} <= DECIDED.keys()


@pytest.mark.nats
def test_a_file_of_anothers_pauses_nobody_and_its_origin_is_kept(capsys, tmp_path, foreign):
    """A foreign file's `pause.changed` was obeyed. The class: whatever is no observation, known or not."""
    data = tmp_path / "data"
    taken = imported(foreign, data)

    assert (taken["published"], taken["left_out"]) == (5, 2)
    assert taken["kinds"] == {"pause.changed": 1, "unknown": 1}
    found = events(capsys, data)
    assert found[0]["type"] == "history.imported"
    assert not {"pause.changed", "pause.widened"} & {e["type"] for e in found}
    told = json.loads(found[0]["body"])
    assert (told["input"], len(told["digest"]), found[0]["source"]) == (str(foreign), 64, "import")

    again = imported(foreign, data)
    assert (again["published"], again["sequence"]) == (0, taken["sequence"])


@pytest.mark.nats
def test_a_backup_of_ones_own_comes_back_whole_where_it_is_asked_for(capsys, tmp_path, foreign):
    taken = imported(foreign, tmp_path / "data", "--all")

    assert (taken["published"], taken["left_out"], taken["parked"]) == (7, 0, 1)
    found = events(capsys, tmp_path / "data")
    assert "pause.changed" in {e["type"] for e in found}
    assert json.loads(found[0]["body"])["whole"] is True


@pytest.mark.long
def test_a_small_file_does_not_become_a_large_one(tmp_path):
    """96 KB became 2.2 GB in one piece."""
    bomb = tmp_path / "bomb.ndjson.zst"
    bomb.write_bytes(zstandard.ZstdCompressor(level=3).compress(bytes(2_200_000_000)))
    assert bomb.stat().st_size < 200_000
    limited = (
        "import resource, sys; from bus.sources.events import read_lines\n"
        "resource.setrlimit(resource.RLIMIT_AS, (800 << 20, 800 << 20))\n"
        "list(read_lines(sys.argv[1]))"
    )
    begun = time.monotonic()
    found = subprocess.run(
        [sys.executable, "-c", limited, bomb],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert "EnvelopeError" in found.stderr, found.stderr
    assert time.monotonic() - begun < 20


def test_what_a_file_stands_for_is_bounded_and_said(tmp_path, monkeypatch):
    from bus.sources import events as source

    monkeypatch.setattr(source, "FREE", 1_000)
    file = tmp_path / "history.ndjson.zst"
    lines = b"".join(to_line(said.pod_observed("a", n)) + b"\n" for n in range(1, 400))
    file.write_bytes(zstandard.ZstdCompressor(level=10).compress(lines))
    assert len(list(read_lines(file))) == 399

    file.write_bytes(zstandard.ZstdCompressor().compress(b"\n" * 10_000_000))
    with pytest.raises(EnvelopeError, match=r"history.ndjson.zst.*stand for more than.*zstd -d"):
        list(read_lines(file))


@pytest.mark.nats
def test_a_data_folder_that_others_may_write_is_refused_before_anything_is_made(tmp_path, foreign):
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o777)
    found = process("import", "events", foreign, "--data", data)

    assert (found.returncode, "others may write" in found.stderr) == (2, True)
    assert not list(data.iterdir())


@pytest.mark.nats
def test_everything_in_a_data_folder_is_its_owners_alone(tmp_path, foreign):
    data = tmp_path / "data"
    imported(foreign, data)
    paths = [data, *data.rglob("*")]

    assert [p for p in paths if p.stat().st_mode & 0o077 and not p.is_socket()] == []


@pytest.mark.long
def test_an_export_is_its_owners_alone_and_follows_no_link(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    make_ledger(data)
    victim, out = tmp_path / "victim", tmp_path / "out.ndjson"
    victim.write_text("precious")
    out.symlink_to(victim)
    before = os.umask(0)
    try:
        refused = process("export", out, "--data", data)
        forced = process("export", out, "--data", data, "--force")
    finally:
        os.umask(before)

    assert (refused.returncode, forced.returncode) == (2, 0)
    assert victim.read_text() == "precious"
    assert (out.is_symlink(), stat.S_IMODE(out.stat().st_mode)) == (False, 0o600)
