"""A bad night: users make and delete Jobs at a real API server, and every 20 seconds something else goes wrong.

Two processes of each part run beside own NATS and PostgreSQL and are started again when they end, as in pods. They are killed and
paused; the networks to NATS, PostgreSQL and the API server are cut; their disk is full; their clocks jump; the API server is
restarted; the webhook's certificate expires (:mod:`tests.acceptance.soak.faults`). What must hold is checked on etcd's own
record, which no fault touches: each pod's seconds, and how much every quota ever held.

`BURSAR_SOAK_SECONDS=3600` has the whole hour, 180 nine faults; it runs only where that is set: it takes five minutes more.
A nats-server that refuses every write after its disk was full is started again by its probe (docs/limits.md).

Source: docs/reliability.md.
"""

import json
import os
import random
import time
from itertools import cycle

import pytest

from tests.acceptance import jobs_record
from tests.acceptance.soak.churn import Churn, Truth
from tests.acceptance.soak.faults import FAULTS
from tests.acceptance.soak.findings import counted, settled
from tests.acceptance.soak.site import QUOTAS, Site

SECONDS = int(os.environ.get("BURSAR_SOAK_SECONDS", "180"))
EVERY_SECONDS = 20
MIB = 1 << 20

pytestmark = [
    pytest.mark.kube, pytest.mark.slow, pytest.mark.waits, pytest.mark.timeout(SECONDS + 900),
    pytest.mark.skipif("BURSAR_SOAK_SECONDS" not in os.environ, reason="BURSAR_SOAK_SECONDS says how long"),
]  # fmt: skip


@pytest.fixture
def site(start_plane, postgres_url, tmp_path):
    plane = start_plane(
        controllers=True, scheduler=True, simulator=True, unsafe_no_fsync=True,
        apiserver_flags=jobs_record.FLAGS,
    )  # fmt: skip
    plane.create_nodes(4)
    with Site(plane, tmp_path, postgres_url) as site:
        yield site


def test_after_a_bad_night_every_integer_is_right_and_nothing_was_restarted_by_hand(site):
    site.begin()
    churn = Churn(site.plane)
    churn.start()
    hurt(site)
    churn.stop()
    churn.clear()
    site.until(churn.drained, 120, "the pods that are left")
    site.until(lambda: [site.used(name) for name in QUOTAS] == [0, 0, 0], 240, "nothing charged")
    truth = Truth(churn.record)
    settled(site)
    show(site, churn, truth)

    most = truth.most()
    assert all(cores <= QUOTAS[quota] for (_, quota), cores in most.items()), most
    assert counted(site, truth) == []
    assert max(most.values()) > 30, "nothing was ever scarce"
    flat(site, truth)


def hurt(site):
    """A fault every 20 seconds, or when the one before is over."""
    began, mine = time.monotonic(), random.Random(16)
    for number, (name, fault) in enumerate(cycle(FAULTS.items())):
        due = began + EVERY_SECONDS * (number + 0.5)
        if due > began + SECONDS:
            break
        time.sleep(max(0.0, due - time.monotonic()))
        print(f"{time.monotonic() - began:6.0f} s {name}", flush=True)
        for seconds in fault(site, mine):
            time.sleep(seconds)


def flat(site, truth):
    """No part has more memory in the second half than in the first by more than a third; folders stay small.

    Of two processes of a part one is in reserve, now this one and now that: so what counts is the larger.
    """
    for name, (before, after) in halves(site).items():
        assert after < before * 4 // 3 + 32, f"{name}: {before} MiB, then {after}"
    for name in site.clocks:
        assert size(site.disk / name) < 8 * MIB, name
    assert size(site.disk) < 4096 * len(truth.versions) + 64 * MIB


def halves(site):
    """By part, the most MiB that a process of it had in the first half of the night, and in the second."""
    found = {}
    for name, samples in site.parts.memory.items():
        half, part = len(samples) // 2, name.rpartition("-")[0]
        most = [max(some) // MIB for some in (samples[:half], samples[half:])]
        found[part] = [max(pair) for pair in zip(found.get(part, (0, 0)), most, strict=True)]
    return found


def size(folder):
    return sum(one.stat().st_size for one in folder.rglob("*") if one.is_file())


def show(site, churn, truth):
    rate = len(truth.versions) / truth.seconds
    print(
        f"{len(truth.versions)} changes in {truth.seconds:.0f} s ({rate:.1f}/s), {len(truth.pods)} pods"
    )
    print(
        f"requests {dict(churn.answers)}; ended by themselves {dict(site.parts.ended)}; "
        f"killed by their probe {dict(site.parts.unhealthy)}"
    )
    print(
        f"most cores {dict(truth.most())}; most MiB by half {json.dumps(halves(site))}; history {size(site.disk) // MIB} MiB"
    )
    wrong = counted(site, truth)
    print(
        f"full disk: {site.has_disk}; wrong {wrong[:5]}; ends unseen {site.unseen}, written twice {site.rewritten}"
    )
    for uid, *_ in wrong[:5]:
        print(*truth.told(uid), site.ask("events", "--key", uid)[1], sep="\n")
