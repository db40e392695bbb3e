"""Reactors as a process runs them: the clock, the policies of the settings, deciding, and having it done.

One process of an installation does this, the one that keeps (``bursar up``); a second one does no harm.

Source: ``house.md`` sections 3.5, 3.6 and 5.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from bus.clock import Clock, SystemClock
from bus.events.decisions import Cull, Evict, Restore, Warn, Withdraw
from bus.events.policies import Mode
from bus.transport import Transport
from deploy.bootstrap import beside
from deploy.settings import Settings
from reactors.catalogue import REACTORS
from reactors.culling.view import NAME as CULLING
from reactors.effectors.cull import CullEffector, LastLook, Objects
from reactors.effectors.evict import EvictEffector
from reactors.engine.contract import ReactorPolicy
from reactors.engine.replica import Replica
from reactors.engine.runner import Effector, Runner, announce, tick
from reactors.evictions import NAME as EVICTIONS


def policies(settings: Settings) -> dict[str, tuple[Mode, ReactorPolicy]]:
    """Reactor to mode and policy, as the settings want them."""
    evictions = settings.evictions
    return {CULLING: settings.culling_policy, EVICTIONS: (evictions.mode, evictions.policy)}


def effectors(cluster: Objects, clock: Clock, look: LastLook | None) -> dict[str, Effector]:
    """Who does what, by wire type of the decision."""
    cull = CullEffector(cluster, clock, look)
    found: dict[str, Effector] = {verb.wire_type: cull for verb in (Warn, Withdraw, Cull, Restore)}
    return found | {Evict.wire_type: EvictEffector(cluster)}


@asynccontextmanager
async def acting(
    transport: Transport,
    cluster: Objects,
    wanted: Mapping[str, tuple[Mode, ReactorPolicy]],
    *,
    name: str,
    clock: Clock | None = None,
    look: LastLook | None = None,
) -> AsyncIterator[Runner]:
    """Decide and act while the body runs. Entered when the history was read and goes by the policies in ``wanted``.

    ``name`` is the cluster's in the history; ``look`` asks a notebook once more before it is stopped.
    """
    clock = clock or SystemClock()
    runner = Runner(Replica(REACTORS, name), transport, clock, effectors(cluster, clock, look))
    head = await transport.head()
    async with beside(runner.follow()):
        await runner.reached(head.last_sequence)
        for reactor, (mode, policy) in wanted.items():
            await announce(runner, transport, clock, reactor, mode, policy, author="settings")
        async with beside(runner.act()), beside(tick(transport, clock, name)):
            yield runner
