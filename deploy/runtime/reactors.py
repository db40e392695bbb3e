"""Reactors in a process: the clock, the policies of the settings, decisions and their effects.

One process of an installation runs them, the keeper (``bursar up``). A second one does no harm.

Source: docs/architecture.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from bus.clock import Clock, ServerClock, SystemClock
from bus.decoders import prepare
from bus.events.policies import Mode
from bus.transport import Transport
from bus.waiting import Moves, beside
from deploy.runtime.tracing import Traced, Tracer
from deploy.settings.shape import Settings
from projections.engine.heads import Signer
from projections.engine.store import Store
from projections.evidence import moments
from reactors.catalogue import REACTORS
from reactors.engine.adapters import Adapters, Cluster, Effector, QuotaTrees
from reactors.engine.contract import Reactor
from reactors.engine.replica import Replica
from reactors.engine.runner import Runner, announce, tick
from reactors.engine.settings import ReactorPolicy, ReactorSettings
from reactors.engine.snapshots import Snapshots, at


@asynccontextmanager
async def acting(
    transport: Transport,
    cluster: Cluster,
    wanted: Mapping[str, tuple[Mode, ReactorPolicy]],
    *,
    name: str,
    clock: Clock | None = None,
    sections: Mapping[str, ReactorSettings] | None = None,
    trees: QuotaTrees | None = None,
    ledger: Store | None = None,
    signer: Signer | None = None,
    writes_elastic: bool = True,
    reactors: Sequence[Reactor] = REACTORS,
    replica: Replica | None = None,
    tracer: Tracer | None = None,
) -> AsyncIterator[Runner]:
    """Decide and act while the body runs, by the policies in ``wanted``. The body starts after the history was read,
    from the newest snapshot in the ``ledger`` sealed by ``signer``.

    ``replica``: the result of :func:`stored`, if it was read before. ``name`` is the cluster's in the history.
    ``sections``: settings of reactors; defaults for the others.
    ``tracer`` records each effect. ``trees``, ``ledger`` and
    ``writes_elastic``: see :class:`reactors.engine.adapters.Adapters`.
    """
    clock, snapshots, moves = clock or SystemClock(), None, Moves()
    if ledger is None:
        replica = Replica(reactors, name)
    else:
        replica = replica or await stored(ledger, signer, name, reactors)
        snapshots = Snapshots(ledger, replica, signer)
    effectors: dict[str, Effector] = {}
    more: list[Callable[[], Coroutine[Any, Any, None]]] = []
    troubles: dict[str, Callable[[], Iterable[str]]] = {}
    for reactor in reactors:
        mode, policy = wanted.get(reactor.name) or _unannounced(reactor)
        section = (sections or {}).get(reactor.name) or reactor.settings()
        adapters = Adapters(
            cluster=cluster, transport=transport, clock=clock, replica=replica, settings=section,
            mode=mode, policy=policy, trees=trees, ledger=ledger, writes_elastic=writes_elastic, moves=moves,
        )  # fmt: skip
        effects = reactor.effects(adapters)
        effectors |= effects.effectors
        more += effects.beside if mode != "off" else ()
        troubles[reactor.activity] = effects.trouble
    # Some of them have just been imported.
    prepare()
    if tracer is not None:
        effectors = {type: Traced(one, tracer, clock) for type, one in effectors.items()}
    runner = Runner(replica, transport, clock, effectors, snapshots, troubles, moves)
    head = await transport.head()
    async with AsyncExitStack() as stack:
        if snapshots is not None:
            stack.push_async_exit(snapshots.end)
        await stack.enter_async_context(beside(runner.follow()))
        await runner.reached(head.last_sequence)
        for reactor_name, (mode, policy) in wanted.items():
            await announce(runner, transport, clock, reactor_name, mode, policy, author="settings")
        await stack.enter_async_context(beside(runner.act()))
        await stack.enter_async_context(beside(tick(transport, clock, name)))
        for work in more:
            await stack.enter_async_context(beside(work()))
        yield runner


async def stored(
    ledger: Store, signer: Signer | None, name: str, reactors: Sequence[Reactor] = REACTORS
) -> Replica:
    """The known state of the cluster ``name`` after the ledger's last event, with the snapshots sealed by ``signer``."""
    keys = (signer.public_key,) if signer is not None else ()
    return await asyncio.to_thread(at, ledger.select, reactors, name, None, keys)


async def remembered(ledger: Store, signer: Signer) -> None:
    """Write a snapshot of the reactors' state of each cluster after the ledger's last event. Questions start there."""
    for cluster in sorted(moments(ledger.select)):
        replica = await asyncio.to_thread(at, ledger.select, REACTORS, cluster)
        await Snapshots(ledger, replica, signer).end()


def _unannounced(reactor: Reactor) -> tuple[Mode, ReactorPolicy | None]:
    """Mode and policy of a reactor without settings."""
    return ("on", None) if reactor.policy is None else ("off", reactor.policy())


def require_clock() -> None:
    """Raises WrongClockError where this machine's clock cannot be right: ticks and decisions are written by it, too."""
    ServerClock(SystemClock()).checked_us()


def tell_of_reactors(settings: Settings, tell: Callable[[str], None]) -> None:
    """The wanted mode of each reactor."""
    for reactor in REACTORS:
        if (wanted := settings.wanted.get(reactor.name)) is not None:
            announced = settings.section(reactor).announcement(wanted[0])
            if announced:
                tell(f"{reactor.activity} is {announced}")
