"""NATS of three nodes, each killed, cut off and slow in turn, while Jobs come and go: nothing is lost, and admission goes on.

Each node is reached by clients and by the other nodes through wires of the test's own, which hold back what passes or
cut it without a word. What pods held, and that no quota ever held more than it may, is checked on
etcd's own record, as in `test_soak.py`.

Source: docs/reliability.md.
"""

import time
from itertools import pairwise

import pytest

from tests.acceptance import jobs_record
from tests.acceptance.soak.churn import Churn, Truth
from tests.acceptance.soak.findings import counted, settled
from tests.acceptance.soak.site import QUOTAS, Site

HURT_SECONDS, REST_SECONDS = 12, 6
#: Without an answer: a client notices a silent server after 6 s, and servers a silent leader after as many.
SILENT_SECONDS = 25

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.waits, pytest.mark.timeout(900)]


@pytest.fixture
def site(start_plane, postgres_url, tmp_path):
    plane = start_plane(
        controllers=True, scheduler=True, simulator=True, unsafe_no_fsync=True,
        apiserver_flags=jobs_record.FLAGS,
    )  # fmt: skip
    plane.create_nodes(4)
    with Site(plane, tmp_path, postgres_url, nodes=3) as site:
        yield site


def kill(site, n):
    site.parts.kill(f"nats-{n}", HURT_SECONDS)
    yield


def cut(site, n):
    for wire in site.bus.wires_of(n):
        wire.cut()
    yield
    for wire in site.bus.wires_of(n):
        wire.mend()


def slow(site, n):
    for wire in site.bus.wires_of(n):
        wire.slow()
    yield
    for wire in site.bus.wires_of(n):
        wire.hasten()


def test_any_one_of_three_nodes_may_be_killed_cut_off_or_slow(site):
    site.begin()
    churn = Churn(site.plane)
    churn.start()
    for n in range(3):
        for hurt in (kill, cut, slow):
            before = len(churn.decided)
            for _ in hurt(site, n):
                time.sleep(HURT_SECONDS)
            print(f"n{n} {hurt.__name__}: {len(churn.decided) - before} decided", flush=True)
            time.sleep(REST_SECONDS)
    churn.stop()
    silence = max(later - one for one, later in pairwise(churn.decided))
    churn.clear()
    site.until(churn.drained, 120, "the pods that are left")
    site.until(lambda: [site.used(name) for name in QUOTAS] == [0, 0, 0], 240, "nothing charged")
    truth = Truth(churn.record)
    settled(site)
    print(f"{len(truth.versions)} changes, {len(truth.pods)} pods; {dict(churn.answers)}; ended {dict(site.parts.ended)};"
          f" longest without a decision {silence:.1f} s")  # fmt: skip

    assert silence < SILENT_SECONDS
    assert all(cores <= QUOTAS[quota] for (_, quota), cores in truth.most().items())
    assert counted(site, truth) == []
