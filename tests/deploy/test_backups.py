"""A history goes through a file whole: what was parked comes back parked, byte for byte, and nothing behind it is lost."""

import base64
import contextlib
import hashlib
import json
import subprocess
import sys
import time

import msgspec
import pytest

from bus.envelope import MALFORMED, Event, from_line, to_line
from bus.sources.events import read_lines
from deploy.runtime.service import RECORDING
from tests import factories as given
from tests.deploy.ledgers import EVENTS, bursar, make_ledger

RAW = b"\xff\x00{raw\n"
UNREADABLE = Event(
    "", MALFORMED, "", "malformed/3", "bus", 0, RAW, 1, 0, "the message has no headers"
)
#: Bodies that no line of JSON can carry as they are, under attributes of a known type.
BODIES = [
    RAW,
    b"",
    b'{"a":\n1}',
    b' {"a":1} ',
    b'{"a":1,"a":2}',
    b'"\\u0000"',
    b"[" * 70 + b"]" * 70,
]
ODD = [
    msgspec.structs.replace(given.pod_observed(f"odd-{n}"), body=body)
    for n, body in enumerate(BODIES)
]
TWICE = given.pod_observed("twice", 1, 5)
OTHERWISE = msgspec.structs.replace(TWICE, body=given.pod_observed("twice", 1, 5, cpu="7").body)
#: What an earlier version read and archived, and no bus would take.
UNSOUND = msgspec.structs.replace(given.pod_observed("unsound"), id="a\x1b[2J", version=2**31 - 1)
LATER = [given.pod_observed(f"later-{n}", 1, 60 + n) for n in range(3)]
HISTORY = [*EVENTS, TWICE, UNREADABLE, *ODD, UNSOUND, OTHERWISE, TWICE, *LATER]


def told(capsys, *arguments):
    capsys.readouterr()
    code = bursar(*arguments, "-o", "json")

    assert code == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def backup(tmp_path_factory):
    """A ledger with all of :data:`HISTORY`, and the file that it was exported to."""
    folder = tmp_path_factory.mktemp("backup")
    make_ledger(folder, HISTORY)
    assert bursar("export", folder / "backup.ndjson.zst", "--data", folder) == 0
    return folder, folder / "backup.ndjson.zst"


@pytest.mark.nats
def test_a_backup_with_parked_events_is_imported_whole(capsys, backup, tmp_path):
    """Covers what was never readable, bodies that are no line of JSON, ids used twice, and attributes no bus takes."""
    _, file = backup
    taken = told(capsys, "import", "events", file, "--data", tmp_path)
    again = told(capsys, "import", "events", file, "--data", tmp_path)
    runs = told(capsys, "sql", "SELECT uid FROM v1_pod_runs", "--data", tmp_path)
    parked = told(capsys, "sql", "SELECT lower(hex(raw)) AS raw FROM v1_parked", "--data", tmp_path)
    found = [bytes.fromhex(row["raw"]) for row in parked]

    # One event more says where they came from.
    assert (taken["published"], taken["sequence"]) == (len(HISTORY), len(HISTORY) + 1)
    assert (again["published"], again["sequence"]) == (0, len(HISTORY) + 1)
    assert {row["uid"] for row in runs} >= {"bound", "twice", "later-0", "later-1", "later-2"}
    assert set(BODIES) <= set(found)
    restored = [json.loads(body) for body in found if body.startswith(b'{"raw"')]
    assert [base64.b64decode(one["raw"]) for one in restored] == [RAW, UNSOUND.body]


@pytest.mark.nats
def test_a_backup_brings_nothing_new_to_the_ledger_that_it_was_made_of(capsys, tmp_path):
    """The other form of an event is known to be that event."""
    first, second = tmp_path / "first.ndjson", tmp_path / "second.ndjson"
    make_ledger(tmp_path, [*EVENTS, UNREADABLE, TWICE, *LATER, OTHERWISE])
    assert bursar("export", first, "--data", tmp_path) == 0
    assert bursar("recover", "--data", tmp_path) == 0
    taken = told(capsys, "import", "events", first, "--data", tmp_path)
    assert bursar("export", second, "--data", tmp_path) == 0

    assert taken["published"] == 0
    assert second.read_bytes().startswith(first.read_bytes())


def test_every_event_of_a_backup_has_an_id_of_its_own(backup):
    found = list(read_lines(backup[1]))

    assert len({event.id for event in found}) == len(found) == len(HISTORY)


@pytest.mark.nats
def test_an_import_counts_what_a_file_says_twice_once(capsys, tmp_path):
    """The same line far behind itself was published again and counted, and stored once or, ten minutes later, twice."""
    said = [given.pod_observed(f"p-{n}") for n in range(1_100)]
    file = tmp_path / "events.ndjson"
    file.write_bytes(b"".join(to_line(event) + b"\n" for event in [*said, said[0], said[5]]))
    taken = told(capsys, "import", "events", file, "--data", tmp_path / "data")

    assert (taken["events"], taken["published"], taken["sequence"]) == (1_102, 1_100, 1_101)


@pytest.mark.nats
def test_a_line_of_an_earlier_version_that_was_never_readable_is_imported(capsys, tmp_path):
    line = {
        "id": "malformed/3", "source": "bus", "type": "malformed", "subject": "", "time": "1970-01-01T00:00:00Z",
        "data": base64.b64encode(RAW).decode(), "cluster": "c", "sequence": 3,
    }  # fmt: skip
    file = tmp_path / "events.ndjson"
    lines = [*map(to_line, EVENTS), json.dumps(line).encode(), *map(to_line, LATER)]
    file.write_bytes(b"\n".join(lines))
    taken = told(capsys, "import", "events", file, "--data", tmp_path / "data")

    assert (taken["published"], taken["parked"]) == (len(EVENTS) + 1 + len(LATER), 1)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A ledger of 3,000 pods."""
    events = [given.pod_observed(f"p-{n}") for n in range(3_000)]
    return make_ledger(tmp_path_factory.mktemp("large"), events)


@pytest.mark.long
@pytest.mark.parametrize("ending", ["ndjson", "ndjson.zst"])
@pytest.mark.parametrize("after", [0.0, 0.2, 0.6])
def test_an_export_that_is_killed_leaves_no_half_a_file(large, tmp_path, ending, after):
    """At its beginning, while it writes, and at its end: no file is there, or all of it."""
    file = tmp_path / f"backup.{ending}"
    writing = "from deploy.cli.program.program import run_command; run_command(['export', *__import__('sys').argv[1:]])"
    export = subprocess.Popen([sys.executable, "-c", writing, file, "--data", large])
    with contextlib.suppress(subprocess.TimeoutExpired):
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("*.new")) and time.monotonic() < deadline:
            time.sleep(0.001)
        export.wait(after / 10)
    export.kill()
    export.wait()

    assert not file.exists() or len(list(read_lines(file))) == 3_000


@pytest.mark.parametrize("event", ODD, ids=range(len(ODD)))
def test_any_body_comes_back_from_a_line_byte_for_byte(event):
    assert from_line(to_line(event)) == event
    assert b"\n" not in to_line(event)


def test_ids_of_the_bundled_recording_are_unique():
    said = [event for file in RECORDING.glob("*.ndjson.zst") for event in read_lines(file)]
    bodies = {
        hashlib.sha256(f"{e.type}{e.key}{e.time_us}".encode() + e.body).digest() for e in said
    }

    assert len({event.id for event in said}) == len(bodies) == len(said) > 0
