"""Random small worlds beside the real kube-scheduler: the same refusals for the same counts of nodes, and the same best nodes.

`BURSAR_PARITY_WORLDS=2000 pytest -m slow tests/acceptance/test_scheduler_parity.py` compares 2,000 worlds, `BURSAR_PARITY_FIRST`
says the number of the first.
"""

import os
from contextlib import closing

import pytest

from tests.acceptance.parity import Site, configuration
from tests.cluster import build
from tests.cluster.plane import ControlPlane

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.waits]

WORLDS = int(os.environ.get("BURSAR_PARITY_WORLDS", "120"))
FIRST = int(os.environ.get("BURSAR_PARITY_FIRST", "0"))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Nobody but kube-scheduler works on its objects: no controllers, no simulator, no taint of nodes that say nothing."""
    if reason := build.missing():
        pytest.skip(f"no control plane: {reason}")
    plane = ControlPlane(
        tmp_path_factory.mktemp("plane"),
        controllers=False,
        simulator=False,
        apiserver_flags=[
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection"
        ],
        scheduler_config=configuration(),
    )
    with plane, closing(Site(plane)) as site:
        yield site


@pytest.mark.timeout(3600)
def test_kube_scheduler_refuses_and_chooses_what_bursar_does(site):
    found = [one for seed in range(FIRST, FIRST + WORLDS) for one in site.compare(seed)]
    print(dict(sorted(site.counts.items())))

    assert not found, f"{len(found)} differ:\n" + "\n".join(found[:40])
    events = site.events()
    assert len(events) > WORLDS // 2
    assert [(told, refusal) for told, refusal in events if told != refusal] == []
    assert site.counts["bound"] > WORLDS // 2 and site.counts["refused"] > WORLDS // 2
