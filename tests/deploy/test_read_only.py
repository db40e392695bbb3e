"""Questions to a ledger whose folder nobody may write: a backup, a snapshot, a mount for auditors."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.cli.program.exits import Exit
from tests.deploy.ledgers import make_ledger

#: Root reads and writes what it likes: the same user without that power.
POWERLESS = ("setpriv", "--bounding-set", "-all", "--inh-caps", "-all") if os.geteuid() == 0 else ()

pytestmark = pytest.mark.skipif(
    bool(POWERLESS) and shutil.which("setpriv") is None,
    reason="needs setpriv where it runs as root",
)


def asked(data, *arguments):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("BURSAR_", "KUBE"))}
    return subprocess.run(
        [*POWERLESS, Path(sys.executable).with_name("bursar"), *arguments, "--data", data, "-o", "json"],
        env=clean, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


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


@pytest.mark.parametrize(
    "question", [("report",), ("acct",), ("verify",), ("events",), ("sql", "SELECT 1 AS one")]
)
def test_every_question_is_answered_from_a_folder_that_cannot_be_written(
    tmp_path, sealed, question
):
    data = tmp_path / "data"
    data.mkdir()
    make_ledger(data)
    before = asked(data, *question)

    found = asked(sealed(data), *question)

    assert json.loads(found.stdout) == json.loads(before.stdout)
    # `verify` without an anchor from outside ends with a code of its own.
    expected = Exit.UNANCHORED if question == ("verify",) else Exit.OK
    assert (found.returncode, before.returncode) == (expected, expected), found.stderr


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

    whole = asked(sealed(crashed), "sql", "SELECT sequence FROM checkpoints")
    crashed.chmod(0o700)
    (crashed / "ledger.db-shm").unlink()
    crashed.chmod(0o500)
    part = asked(crashed, "sql", "SELECT sequence FROM checkpoints")

    assert whole.returncode == 0 and json.loads(whole.stdout) == [{"sequence": 4711}]
    assert part.returncode == 1 and "copy the folder" in part.stderr
