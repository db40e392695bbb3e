"""The history of a small queue: lived by the product's own webhooks, keeper and queue."""

from tests.reactors.queue.jobs import Jobs
from tests.reactors.queue.settling import quiet, until


async def lived():
    """One runs until its deadline; one waits for it, one behind that, one is held."""
    async with Jobs() as cluster:
        await cluster.see_class("high", 7)
        await cluster.see_team(4)
        await cluster.create("first", 3, deadline=100)
        await until(lambda: cluster.running() == ["first"])
        cluster.clock.after(10)
        await cluster.create("next", 2, deadline=50, priority="high")
        await cluster.create("wide", 4)
        await cluster.create("kept", 1)
        await cluster.order(cluster.uid("kept"), "hold")
        cluster.clock.after(5)
        await cluster.create("late", 1)
        await quiet(cluster)
        return list(cluster.transport.events)
