"""A gang is bound by the binder itself, while binds are refused, nodes go and the process is killed."""

from random import Random

import pytest

from bus import crashpoints
from tests.reactors.scheduling.bindable import Process, Server
from tests.reactors.scheduling.ganging import Ganging
from tests.reactors.scheduling.scene import Killed

pytestmark = pytest.mark.simulated


@pytest.mark.parametrize("label", ["", "bind.before_post", "bind.after_post", "bind.before_settle"])
@pytest.mark.parametrize("seed", range(4))
async def test_in_the_end_all_of_a_gang_is_bound_whatever_happened_between(seed, label):
    cluster, random, left = Ganging(), Random(seed), [1]
    await cluster.begin(nodes=4)
    server = Server(cluster, random)
    server.gang = {f"g{number}" for number in range(5)}
    await cluster.say(*cluster.light(5))

    def hook(reached):
        if reached == label and left[0]:
            left[0] -= 1
            raise Killed

    crashpoints.install(hook)
    try:
        await Process(cluster, server).run(random.randint(1, 30))
        server.has_failed |= bool(server.nodes)
        await cluster.say(cluster.node_gone("n3"), cluster.node("n9"))
        cluster.runner = cluster.new_runner(cluster.reactor)
        await cluster.read()
        # Whichever of these was killed, another one follows.
        for _ in range(2):
            await Process(cluster, server).run(300)
    finally:
        crashpoints.install(None)

    columns = cluster.state.scheduler.columns
    assert server.wrong == []
    assert len(server.nodes) == 5 and cluster.outstanding() == {}
    assert (columns.resources.free[: len(columns.names)] >= 0).all()
    cluster.same()


async def test_no_pod_of_a_gang_is_bound_where_a_node_is_lost_before_the_first_bind():
    cluster, random = Ganging(), Random(1)
    await cluster.begin(nodes=3)
    server = Server(cluster, random)
    server.troubles = 0
    server.gang = {f"g{number}" for number in range(6)}
    await cluster.say(*cluster.light(6))
    await cluster.say(cluster.node_gone("n0"))
    await Process(cluster, server).run(300)
    before = dict(server.nodes)
    await cluster.say(cluster.node("n7"))
    await Process(cluster, server).run(60)

    assert server.wrong == []
    assert (before, len(server.nodes)) == ({}, 6)
