"""Waiting until the queue has nothing left to do, and what a derivation of its decisions finds."""

from tests.scenario import settled


async def until(probe):
    """Until the queue has nothing left to do; then ``probe()`` holds."""
    await settled()
    assert probe()


async def quiet(cluster):
    """Until nothing is said any more."""
    await settled()


def checked(cluster):
    return cluster.rederived().releases


def differences_of(cluster):
    return list(checked(cluster).differences)
