"""Users write who controls an object, so chains may close, or never end: somebody is charged all the same."""

import pytest

from tests.reactors.admission.below import CONTROLLER, ask, show
from tests.reactors.cluster import Cluster

pytestmark = pytest.mark.simulated


@pytest.fixture
async def cluster():
    async with Cluster() as running:
        await running.see_quota("team", {"limits.cpu": 8000})
        running.skip_versions(600)
        yield running


CHAINS = [(1, True), (2, True), (2, False), (5, True), (12, True), (12, False)]


@pytest.mark.parametrize(("length", "closes"), CHAINS)
async def test_what_hangs_below_a_chain_without_end_is_charged(cluster, length, closes):
    """The bottom of such a chain was held for by nobody, so its controller ran any number of pods uncharged."""
    names = [f"set-{number}" for number in range(length)]
    owners = [("DaemonSet", name) for name in (*names[1:], names[0])]
    for name, owner in reversed(list(zip(names, owners, strict=True))):
        has = closes or name != names[-1]
        await show(cluster, "DaemonSet", name, 2, 0, by=owner if has else None)
    cluster.clock.after(100)
    for name, owner in zip(names, owners, strict=True):
        has = closes or name != names[-1]
        await show(cluster, "DaemonSet", name, 2, 0, by=owner if has else None)
    passed = 0
    for number in range(10):
        asked = await ask(
            cluster, "Pod", f"p{number}", 2, by=("DaemonSet", names[0]), user=CONTROLLER
        )
        if asked.allowed:
            passed += 1
            await show(cluster, "Pod", f"p{number}", 2, by=("DaemonSet", names[0]))
    cluster.clock.after(100)
    await cluster.list_pods(*[f"p{number}" for number in range(passed)])

    assert passed == 4
    assert cluster.used() == 8000
