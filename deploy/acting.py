"""Reactors as a process runs them: the clock, the policies of the settings, deciding, and having it done.

One process of an installation does this, the one that keeps (``bursar up``); a second one does no harm.

Source: ``house.md`` sections 3.5, 3.6 and 5.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from bus.clock import Clock, SystemClock
from bus.events.policies import Mode
from bus.transport import Transport
from deploy.bootstrap import beside
from reactors.catalogue import REACTORS
from reactors.engine.adapters import Adapters, Cluster, Effector, Effects
from reactors.engine.contract import Reactor, ReactorPolicy
from reactors.engine.replica import Replica
from reactors.engine.runner import Runner, announce, tick
from reactors.engine.settings import ReactorSettings


@asynccontextmanager
async def acting(
    transport: Transport,
    cluster: Cluster,
    wanted: Mapping[str, tuple[Mode, ReactorPolicy]],
    *,
    name: str,
    clock: Clock | None = None,
    sections: Mapping[str, ReactorSettings] | None = None,
    reactors: Sequence[Reactor] = REACTORS,
) -> AsyncIterator[Runner]:
    """Decide and act while the body runs. Entered when the history was read and goes by the policies in ``wanted``.

    ``name`` is the cluster's in the history. ``sections``: what is set of reactors, the defaults where nothing is.
    """
    clock, replica = clock or SystemClock(), Replica(reactors, name)
    effects: dict[str, Effects] = {}
    effectors: dict[str, Effector] = {}
    for reactor in reactors:
        mode, policy = wanted.get(reactor.name, ("off", reactor.policy()))
        section = (sections or {}).get(reactor.name) or reactor.settings()
        adapters = Adapters(
            cluster=cluster, transport=transport, clock=clock, replica=replica, settings=section,
            mode=mode, policy=policy,
        )  # fmt: skip
        effects[reactor.name] = reactor.effects(adapters)
        effectors |= effects[reactor.name].effectors
    runner = Runner(replica, transport, clock, effectors)
    head = await transport.head()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(beside(runner.follow()))
        await runner.reached(head.last_sequence)
        for reactor_name, (mode, policy) in wanted.items():
            await announce(runner, transport, clock, reactor_name, mode, policy, author="settings")
        await stack.enter_async_context(beside(runner.act()))
        await stack.enter_async_context(beside(tick(transport, clock, name)))
        for reactor_name, (mode, _) in wanted.items():
            for work in effects[reactor_name].beside if mode != "off" else ():
                await stack.enter_async_context(beside(work()))
        yield runner
