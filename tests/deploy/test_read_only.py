"""Questions to a ledger whose folder nobody may write: a backup, a snapshot, a mount for auditors."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys

import pytest

from deploy.cli.program.exits import Exit
from tests.deploy.ledgers import make_ledger

#: Root reads and writes what it likes: the same user without that power.
POWERLESS = ("setpriv", "--bounding-set", "-all", "--inh-caps", "-all") if os.geteuid() == 0 else ()

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        bool(POWERLESS) and shutil.which("setpriv") is None,
        reason="needs setpriv where it runs as root",
    ),
]


QUESTIONS = (
    ("report",), ("acct",), ("verify",), ("events",), ("sql", "SELECT 1 AS one"),
    ("lab", "suggest", "--idle", "1h", "--from", "2"),
)  # fmt: skip
_ASK = """
import contextlib, io, json, sys
from deploy.cli.program.program import run_command
for question in json.loads(sys.argv[1]):
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        code = int(run_command([*question, "--data", sys.argv[2], "-o", "json"]))
    print(json.dumps([code, told.getvalue()]))
"""


def asked(data, *questions):
    """(exit code, answer) of each question, and the errors of all: one process asks them."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("BURSAR_", "KUBE"))}
    found = subprocess.run(
        [*POWERLESS, sys.executable, "-c", _ASK, json.dumps(questions), data],
        env=clean, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    told = [json.loads(line) for line in found.stdout.splitlines()]
    return [(code, answer and json.loads(answer)) for code, answer in told], found.stderr


@pytest.fixture
def sealed(tmp_path):
    """Makes a folder and all in it unwritable until the test is over."""

    def seal(folder):
        for path in (*folder.rglob("*"), folder):
            path.chmod(path.stat().st_mode & ~0o222)
        return folder

    yield seal
    for path in (tmp_path, *tmp_path.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)


def test_every_question_is_answered_from_a_folder_that_cannot_be_written(tmp_path, sealed):
    data = tmp_path / "data"
    data.mkdir()
    make_ledger(data)
    before, _ = asked(data, *QUESTIONS)

    found, errors = asked(sealed(data), *QUESTIONS)

    assert found == before
    assert [code for code, _ in found] == [Exit.OK] * len(QUESTIONS), errors
    assert all(answer for _, answer in found)


def test_what_a_crash_left_in_the_log_is_read_too_or_said(tmp_path, sealed):
    """The file alone would be an older ledger: never that."""
    data, crashed = tmp_path / "data", tmp_path / "crashed"
    data.mkdir()
    make_ledger(data)
    driver = sqlite3.connect(data / "ledger.db", isolation_level=None)
    driver.execute("PRAGMA wal_autocheckpoint = 0")
    driver.execute("UPDATE checkpoints SET sequence = 4711")
    shutil.copytree(data, crashed)
    driver.close()

    question = ("sql", "SELECT sequence FROM checkpoints")
    whole, _ = asked(sealed(crashed), question)
    crashed.chmod(0o700)
    (crashed / "ledger.db-shm").unlink()
    crashed.chmod(0o500)
    part, errors = asked(crashed, question)

    assert whole == [(0, [{"sequence": 4711}])]
    assert part == [(1, "")] and "copy the folder" in errors
