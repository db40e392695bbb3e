"""Data folders that earlier versions wrote: one command of this version goes on with them, and no answer lacks what came since."""

import json
import os
import subprocess
import sys

import pytest

from bus.envelope import to_line
from projections.catalogue import MODEL
from tests import factories as said
from tests.acceptance.releases import checkout
from tests.deploy.ledgers import process, rows_of, version_of

#: Of schemas 0010, 0021 and 0024: whole ledgers with one version, parts with their own, and the last before ends restated.
COMMITS = ("ab4df9e", "a70165e6", "c36eec80")
PROGRAM = """
try:
    from deploy.cli.program.program import main
except ImportError:
    from deploy.cli.program import main
main()
"""

pytestmark = [pytest.mark.nats, pytest.mark.slow, pytest.mark.waits, pytest.mark.timeout(900)]


def run_earlier(tree, *arguments):
    """One command of an earlier version."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tree), "HOME": str(tree)}
    words = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    found = subprocess.run(words, env=environment, cwd=tree, capture_output=True, timeout=240)
    assert found.returncode == 0, found.stderr.decode()


@pytest.mark.parametrize("commit", COMMITS)
def test_an_import_into_a_folder_of_an_earlier_version_is_in_every_answer_when_it_ends(
    commit, tmp_path
):
    tree, data = checkout(tmp_path / "tree", commit), tmp_path / "data"
    (day,) = (tree / "deploy" / "recording").glob("*.zst")
    run_earlier(tree, "import", "events", day, "--data", data)
    assert version_of(data) != MODEL.version
    more = tmp_path / "more.ndjson"
    more.write_bytes(to_line(said.pod_observed("late", 1, 0, cpu="2")) + b"\n")

    def ask(*words):
        found = process(*words, "--data", data, "-o", "json")
        return found.returncode, json.loads(found.stdout), found.stderr

    code, _, err = ask("import", "events", more)
    assert code == 0 and "an upgrade changed parts of the ledger" in err
    assert version_of(data) == MODEL.version
    filled = rows_of(data)[0]
    _, status, _ = ask("status")
    _, rows, named = ask("sql", "SELECT uid FROM v1_pod_runs WHERE uid = 'late'")
    code, replayed, _ = ask("replay")

    assert (status["filling"], status["lag"]) == (None, 0)
    assert rows == [{"uid": "late"}]
    assert "end at" not in named
    assert (code, replayed["equal"], replayed["digest"]) == (0, True, filled)
