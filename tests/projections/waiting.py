"""The life of a queue, said by the product's own webhooks and keeper."""

from bus.events.namespaces import NamespaceObserved
from reactors.queue import releasing
from tests.reactors.queue.jobs import Jobs
from tests.reactors.queue.settling import quiet, until


async def lived(monkeypatch):
    """One that ran, one that passed the head and waits again, one that runs, one that was deleted while it waited."""
    monkeypatch.setattr(releasing, "TICK_SECONDS", 0.02)
    monkeypatch.setattr(releasing, "APART_SECONDS", 0.0)
    async with Jobs() as cluster:
        space = NamespaceObserved(uid="n", name="ns", resource_version="1", team="vision")
        await cluster.say(space, "ns")
        await cluster.see_team(4, delay=60)
        await cluster.create("first", 3)
        await until(lambda: cluster.running() == ["first"])
        cluster.clock.after(1)
        await cluster.create("head", 4)
        await cluster.create("small", 1)
        await cluster.create("gone", 4)
        await until(lambda: cluster.running() == ["first", "small"])
        cluster.clock.after(5)
        await cluster.delete("gone")
        await cluster.delete("first")
        cluster.clock.after(60)
        await until(lambda: cluster.running() == ["head"])
        await quiet(cluster)
        return list(cluster.transport.events)
