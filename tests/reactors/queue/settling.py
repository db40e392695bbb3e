"""Waiting until the queue has nothing left to do, and what a derivation of its decisions finds."""

import asyncio

from reactors.queue.rederive import rederived


async def until(probe):
    async with asyncio.timeout(5):
        while not probe():
            await asyncio.sleep(0.005)


async def quiet(cluster):
    """Until nothing is said any more."""
    for _ in range(3):
        await cluster.settled()
        await asyncio.sleep(0.05)


def checked(cluster):
    return rederived(
        lambda: cluster.transport.events, cluster="c1", transport=cluster.transport,
        clock=cluster.clock,
    )  # fmt: skip


def differences_of(cluster):
    return list(checked(cluster).differences)
