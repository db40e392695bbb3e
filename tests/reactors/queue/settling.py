"""Waiting until the queue has nothing left to do, and what a derivation of its decisions finds."""

import asyncio


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
    return cluster.rederived().releases


def differences_of(cluster):
    return list(checked(cluster).differences)
