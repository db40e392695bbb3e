"""An import whose publishing process is killed: it is told of, and the next one goes on from there."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bus.envelope import to_line
from tests.benchmarks import synthetic
from tests.deploy.ledgers import process

COUNT = 12_000


@pytest.mark.nats
def test_what_a_killed_publisher_left_out_is_taken_in_by_the_next_import(tmp_path):
    file, data = tmp_path / "events.ndjson", tmp_path / "data"
    file.write_bytes(b"".join(to_line(event) + b"\n" for event in synthetic.events(COUNT)))
    importing = subprocess.Popen(
        [Path(sys.executable).with_name("bursar"), "import", "events", file, "--data", data],
        env={k: v for k, v in os.environ.items() if not k.startswith(("BURSAR_", "KUBE"))},
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    stored = data / "bus/store/jetstream/$G/streams/HISTORY/msgs/1.blk"
    while not (stored.exists() and stored.stat().st_size):
        assert importing.poll() is None
        time.sleep(0.002)
    with open(f"/proc/{importing.pid}/task/{importing.pid}/children") as children:
        publisher = min(map(int, children.read().split()))
    os.kill(publisher, signal.SIGKILL)
    try:
        _, told = importing.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        importing.kill()
        raise
    ended = process("import", "events", file, "--data", data, "-o", "json")
    said = "SELECT count(*) AS n, count(DISTINCT id) AS ids FROM events WHERE type <> 'history.imported'"
    found = json.loads(process("sql", said, "--data", data, "-o", "json").stdout)

    assert importing.returncode != 0
    assert "ended before it was done" in told
    assert ended.returncode == 0, ended.stderr
    assert found == [{"n": COUNT, "ids": COUNT}]
