"""From a pod in a real cluster to a row in the ledger, by `bursar up` as its users start it, and through its death."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest
import sqlalchemy as sa

from projections.accounts import accounts
from projections.engine.store import Store, engine
from projections.engine.tables import checkpoints, events, parked
from tests.acceptance.bookkeeping import second
from tests.cluster.api import MERGE, eventually

pytestmark = [pytest.mark.kube, pytest.mark.nats, pytest.mark.timeout(240)]

AS_OF_S = 2**33


class Up:
    """`bursar up` on a cluster, in a process of its own; its ledger is read beside it."""

    def __init__(self, plane, folder):
        self.folder = folder / "data"
        self._environment = {
            "PATH": os.defpath,
            "HOME": str(folder),
            "KUBECONFIG": str(plane.kubeconfig),
        }
        self._log = folder / "up.log"
        self._process = None

    def start(self):
        """Returns when it follows the cluster."""
        program = "from deploy.cli import main; main()"
        with self._log.open("ab") as log:
            already = self._log.stat().st_size
            self._process = subprocess.Popen(
                [sys.executable, "-c", program, "up", "--data", str(self.folder)],
                env=self._environment,
                stdout=log,
                stderr=log,
            )
        eventually(lambda: self._follows(already), seconds=60)

    def _follows(self, already):
        said = self._log.read_bytes()[already:]
        assert self._process.poll() is None, said.decode()
        return b"following \xc2\xb7" in said

    def end(self, number):
        """Ends it by a signal; the exit status."""
        self._process.send_signal(number)
        return self._process.wait(30)

    def rows(self, namespace):
        """The accounts of a namespace's pods, by name."""
        with self._reading() as store:
            found = [
                one for one in accounts(store.select, as_of_s=AS_OF_S) if one.namespace == namespace
            ]
        assert len({one.name for one in found}) == len(found)
        return {one.name: one for one in found}

    def is_whole(self):
        """Whether the archive has every event once, up to the checkpoint, and nothing is parked."""
        with self._reading() as store:
            counts = sa.select(
                sa.func.count(),
                sa.func.count(events.c.id.distinct()),
                sa.func.max(events.c.sequence),
            ).select_from(events)
            (reached,) = store.select(sa.select(checkpoints.c.sequence))
            return [(*reached,) * 3] == store.select(counts) and not store.select(sa.select(parked))

    @contextlib.contextmanager
    def _reading(self):
        store = Store(engine(f"sqlite:///{self.folder / 'ledger.db'}", read_only=True))
        try:
            yield store
        finally:
            store.close()


@pytest.fixture
def up(plane, tmp_path):
    """`bursar up`, running; whatever is left of it is killed in the end."""
    up = Up(plane, tmp_path)
    up.start()
    yield up
    with contextlib.suppress(ProcessLookupError):
        up.end(signal.SIGKILL)


def create(plane, namespace, name):
    """A new pod of the vision team that asks for a quarter of a core."""
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "250m"}}}
    metadata = {"name": name, "labels": {"bursar.io/team": "vision"}}
    pod = {"metadata": metadata, "spec": {"containers": [container]}}
    plane.api.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod)


def bound(plane, namespace):
    """Name to the second of binding, by the API server, of every pod that runs."""
    items = plane.api.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    return {
        item["metadata"]["name"]: second(condition["lastTransitionTime"])
        for item in items
        for condition in item["status"].get("conditions", ())
        if condition["type"] == "PodScheduled" and item["status"]["phase"] == "Running"
    }


def held(account):
    """What a row says was held, in short."""
    return [(h.start_s, h.end_s, h.cpu_milli, h.team) for h in account.holdings]


def test_a_pod_is_a_row_with_its_team_within_seconds(plane, namespace, up):
    eventually(lambda: up.is_whole())
    began = time.monotonic()
    create(plane, namespace, "p")
    eventually(lambda: "p" in (rows := up.rows(namespace)) and rows["p"].holdings, every=0.02)
    lag = time.monotonic() - began
    print(f"\na row {lag:.2f} s after the pod was asked for")
    start_s = eventually(lambda: bound(plane, namespace))["p"]
    account = up.rows(namespace)["p"]

    assert [(start_s, AS_OF_S, 250, "vision")] == held(account)
    assert (True, ()) == (account.is_open, account.flags)
    assert lag < 10
    assert 0 == up.end(signal.SIGTERM)


def test_killed_and_started_again_it_goes_on_with_nothing_lost_or_doubled(plane, namespace, up):
    names = [f"p{number}" for number in range(60)]
    path = f"/api/v1/namespaces/{namespace}/pods"
    for name in names[:20]:
        create(plane, namespace, name)
    starts = eventually(lambda: len(found := bound(plane, namespace)) == 20 and found)
    gone = names[:5]
    time.sleep(2)
    for name in gone:
        touch = {"metadata": {"annotations": {"touched": "yes"}}}
        plane.api.request("PATCH", f"{path}/{name}", touch, content_type=MERGE)
    for name in names[20:40]:
        create(plane, namespace, name)
    # In the middle of what it has to say.
    eventually(lambda: len(up.rows(namespace)) > 30, every=0.01)
    up.end(signal.SIGKILL)
    deleted_s = {}
    for name in gone:
        plane.api.request("DELETE", f"{path}/{name}", {"gracePeriodSeconds": 0})
        deleted_s[name] = int(time.time())
    for name in names[40:]:
        create(plane, namespace, name)
    up.start()
    starts |= eventually(lambda: len(found := bound(plane, namespace)) == 55 and found)
    eventually(lambda: runs(up.rows(namespace)) == starts.keys() - gone and up.is_whole())
    rows = up.rows(namespace)

    assert sorted(names) == sorted(rows)
    kept = {name: [(starts[name], AS_OF_S, 250, "vision")] for name in names[5:]}
    assert kept == {name: held(rows[name]) for name in kept}
    # Where the end was not seen, the true one lies in the time that is said to be unknown.
    for name in gone:
        [(start_s, end_s, *amounts)] = held(rows[name])
        assert (starts[name], [250, "vision"]) == (start_s, amounts)
        assert end_s <= deleted_s[name] <= end_s + rows[name].unknown_s
        assert ("vanished",) == rows[name].flags


def runs(rows):
    """The names of what holds and has not ended."""
    return {name for name, one in rows.items() if one.is_open and one.holdings}
