"""One history gives one ledger, byte for byte: in any zone, under any hash seed, in batches of any size, on both databases.

Three processes, each in a zone and under a hash seed of its own, write ledgers in three sizes of batches on each database.
"""

import itertools
import json
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from bus.envelope import to_line
from projections.catalogue import MODEL
from projections.engine.dump import digest
from projections.engine.heads import Signer
from tests.acceptance.digest_process import EVERY
from tests.benchmarks import synthetic
from tests.projections.engine.archives import fill, ledger, sequenced
from tests.recording import recorded

pytestmark = [pytest.mark.slow, pytest.mark.waits, pytest.mark.postgres, pytest.mark.timeout(900)]

#: Zone and hash seed of each run; "random" is another one each time.
RUNS = (("UTC", "0"), ("Asia/Kathmandu", "4242"), ("America/St_Johns", "random"))
BATCHES = (13, 100, 1_000)
#: Events of each kind.
COUNT = 600


def history():
    """Generated lives of pods, then recorded decisions of a day; forty events come last, when their time is trimmed."""
    lives = list(synthetic.events(COUNT, live=60))
    late = set(random.Random(15).sample(range(COUNT), 40))
    on_time = [event for number, event in enumerate(lives) if number not in late]
    return sequenced([*on_time, *recorded()[:COUNT], *(lives[number] for number in sorted(late))])


def database(server, name):
    """SQLAlchemy URL of an empty database."""
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    return server.replace("postgresql:", "postgresql+psycopg:").replace("/postgres?", f"/{name}?")


def said(path, zone, seed, cases):
    """What one process says of the history in ``path``, for each case."""
    arguments = [str(one) for case in cases for one in case]
    done = subprocess.run(
        [sys.executable, "-m", "tests.acceptance.digest_process", path, *arguments],
        env={"PATH": os.defpath, "TZ": zone, "PYTHONHASHSEED": seed},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_run_batch_and_database_gives_one_digest_and_the_same_segments(
    tmp_path, postgres_server
):
    events = history()
    path = tmp_path / "history.ndjson"
    path.write_bytes(b"".join(to_line(event) + b"\n" for event in events))
    Signer(tmp_path / "key")
    runs = []
    for zone, seed in RUNS:
        cases = []
        for batch, is_postgres in itertools.product(BATCHES, (False, True)):
            name = f"matrix_{len(runs)}_{len(cases)}"
            folder = tmp_path / name
            folder.mkdir(mode=0o700)
            (folder / "key").write_bytes((tmp_path / "key").read_bytes())
            (folder / "key").chmod(0o600)
            sqlite = f"sqlite:///{folder / 'ledger.db'}"
            url = database(postgres_server, name) if is_postgres else sqlite
            cases.append((url, folder, batch))
        runs.append((path, zone, seed, cases))

    with ThreadPoolExecutor(len(runs)) as pool:
        found = list(pool.map(lambda run: said(*run), runs))

    first = found[0][0]
    for (_, zone, seed, cases), of_run in zip(runs, found, strict=True):
        for case, other in zip(cases, of_run, strict=True):
            assert other == first, (zone, seed, case)
    # Nothing of it depends on segments, or on one process after another doing the same.
    store = ledger(f"sqlite:///{tmp_path / 'whole.db'}")
    fill(store, events)
    assert (first["ledger"], first["replayed"]) == (digest(MODEL, store), digest(MODEL, store))
    store.close()
    assert first["trimmed"] == len(events) // EVERY * EVERY
    assert len(first["segments"]) == len(events) // EVERY
