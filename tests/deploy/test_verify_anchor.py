"""`bursar verify` reports whether anything outside vouches for the history; --require-anchor makes that its exit code."""

import json
import shutil

import pytest

from bus.envelope import to_line
from deploy.cli.program.exits import Exit
from tests.deploy.ledgers import EVENTS, bursar, process

pytestmark = pytest.mark.nats


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data folder as an import leaves it, and a copy of its heads elsewhere."""
    folder = tmp_path_factory.mktemp("anchored")
    (folder / "events.ndjson").write_bytes(b"".join(to_line(event) + b"\n" for event in EVENTS))
    assert bursar("import", "events", folder / "events.ndjson", "--data", folder / "data") == 0
    shutil.copy(folder / "data" / "heads.jsonl", folder / "elsewhere.jsonl")
    return folder / "data"


def verified(capsys, data, *arguments):
    """Exit code, and what it says of anchors."""
    capsys.readouterr()
    code = bursar("verify", "--data", data, *arguments, "-o", "json")
    row = json.loads(capsys.readouterr().out)
    return code, row["ok"], row["anchored"], row["anchored_until"], row["key"]


def test_a_history_without_an_anchor_is_no_failure_until_one_is_required(capsys, data):
    code, *found, _ = verified(capsys, data)

    assert [code, *found] == [Exit.OK, True, False, 0]
    assert verified(capsys, data, "--require-anchor")[0] == Exit.UNANCHORED


def test_only_what_lies_outside_anchors_a_history(capsys, data):
    """Covers a script that goes by the exit code: a forged history whose parts fit each other is no 0."""
    *alone, key = verified(capsys, data, "--require-anchor")
    last = len(EVENTS) + 1  # where they came from, and they
    anchored = [0, True, True, last]

    assert alone == [Exit.UNANCHORED, True, False, 0]
    assert verified(capsys, data, "--heads", data / "heads.jsonl")[:4] == tuple(alone)
    assert list(verified(capsys, data, "--heads", data.parent / "elsewhere.jsonl")[:4]) == anchored
    assert list(verified(capsys, data, "--key", key)[:4]) == anchored
    assert list(verified(capsys, data, "--key", "00" * 32, "--key", key)[:4]) == anchored
    assert verified(capsys, data, "--key", "00" * 32)[:2] == (Exit.DIFFERENT, False)


def test_the_table_says_what_to_do_about_it(capsys, data):
    assert bursar("verify", "--data", data) == Exit.OK
    said = " ".join(capsys.readouterr().out.split())

    assert "no: keep the key, or a copy of heads.jsonl, elsewhere" in said
    assert bursar("verify", "--help") == 0
    assert "--require-anchor" in " ".join(capsys.readouterr().out.split())


def test_up_says_which_key_signs_and_that_it_changed(data, tmp_path):
    """The key is printed, so that it can be noted elsewhere; a new one in its place is said at every start."""
    data = shutil.copytree(data, tmp_path / "data")
    before = process("up", "--once", "--data", data, HOME=str(tmp_path))
    (data / "signing.key").unlink()
    after = process("up", "--once", "--data", data, HOME=str(tmp_path))

    assert (before.returncode, after.returncode) == (0, 0)
    assert "heads are signed by" in before.stderr
    assert "first head was signed by another key" not in before.stderr
    assert "first head was signed by another key" in after.stderr
