"""`bursar up` as its users start it, in a process of its own."""

import contextlib
import os
import subprocess
import sys

import sqlalchemy as sa

from projections.accounts import accounts
from projections.engine.store import Store, engine
from projections.engine.tables import checkpoints, events, parked
from tests.cluster.api import eventually

AS_OF_S = 2**33
#: Generous: a start takes five seconds on an idle machine.
START_SECONDS = 180


class Up:
    """`bursar up` on a cluster, in a process of its own; its ledger is read beside it."""

    def __init__(self, plane, folder, **environment):
        self.folder = folder / "data"
        self._environment = {
            "PATH": os.defpath,
            "HOME": str(folder),
            "KUBECONFIG": str(plane.kubeconfig),
            **environment,
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
        eventually(lambda: self._follows(already), seconds=START_SECONDS)

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
        found = self.accounts(namespace)
        assert len({one.name for one in found}) == len(found)
        return {one.name: one for one in found}

    def accounts(self, namespace):
        """The accounts of a namespace's pods."""
        with self._reading() as store:
            found = accounts(store.select, as_of_s=AS_OF_S)
            return [one for one in found if one.namespace == namespace]

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
