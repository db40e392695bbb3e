"""A morning with decisions of every kind."""

import asyncio

from tests.reactors.culling.scene import Notebooks


async def _morning():
    at = Notebooks()
    await at.idle(2)
    await at.pass_time(2_710)
    return at.transport.events


EVENTS = asyncio.run(_morning())
