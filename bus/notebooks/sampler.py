"""The loop's body: probe every notebook by its kinds, and publish the news. IO only through the two adapters it is
given.

A notebook costs its slowest answer and no more than a deadline; many are asked at once, each by itself, so a
stalled one delays no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from bus.clock import Clock
from bus.envelope import Event
from bus.events.notebooks import Evidence, NotebookSampled
from bus.notebooks.choice import kinds_of
from bus.notebooks.contract import ApiRequest, EvidenceKind, Peer, Reply
from bus.notebooks.memory import HEARTBEAT_US, Known, remember
from bus.notebooks.prober import ProbeTarget

AskServer = Callable[[ProbeTarget], Awaitable[Reply]]
AskApi = Callable[[ApiRequest], Awaitable[Reply]]


class Sampler:
    """Probes notebooks, round after round, and remembers the published evidence of each.

    ``server`` is :func:`bus.notebooks.prober.fetch` with its settings, ``api`` a GET at the API server; neither raises
    for an answer.
    """

    def __init__(
        self, server: AskServer, api: AskApi, clock: Clock, *, cluster: str, source: str,
        at_once: int = 64, heartbeat_us: int = HEARTBEAT_US,
    ) -> None:  # fmt: skip
        self._server = server
        self._api = api
        self._clock = clock
        self._cluster = cluster
        self._source = source
        self._heartbeat_us = heartbeat_us
        self._slots = asyncio.Semaphore(at_once)
        self._known: dict[str, Known] = {}

    async def round(self, peers: Iterable[Peer]) -> list[Event]:
        """One look at each of these notebooks: the events to publish. Others are forgotten."""
        found = await asyncio.gather(*(self._look(peer) for peer in peers))
        self._known = {uid: known for uid, known, _ in found}
        return [event for _, _, event in found if event is not None]

    async def look(self, peer: Peer) -> tuple[int, tuple[Evidence, ...]]:
        """The evidence of one notebook as its answers are, and when they were there."""
        kinds = kinds_of(peer)
        async with self._slots:
            replies = await asyncio.gather(*(self._replies(kind, peer) for kind in kinds))
        observed_us = self._clock.now_us()
        return observed_us, tuple(
            evidence
            for kind, answered in zip(kinds, replies, strict=True)
            if answered
            for evidence in kind.reads(answered, peer, observed_us)
        )

    async def _look(self, peer: Peer) -> tuple[str, Known, Event | None]:
        observed_us, evidence = await self.look(peer)
        known, changed = remember(
            self._known.get(peer.uid, Known()), evidence, observed_us, self._heartbeat_us
        )
        if changed is None:
            return peer.uid, known, None
        fact = NotebookSampled(uid=peer.uid, image=peer.image[:256], evidence=changed)
        event = fact.event(
            cluster=self._cluster,
            key=peer.uid,
            id=f"{peer.uid}/{observed_us}/sampled",
            source=self._source,
            time_us=observed_us,
        )
        return peer.uid, known, event

    async def _replies(self, kind: EvidenceKind, peer: Peer) -> Sequence[Reply]:
        return await asyncio.gather(*(self._ask(request) for request in kind.asks(peer)))

    async def _ask(self, request: ProbeTarget | ApiRequest) -> Reply:
        if isinstance(request, ProbeTarget):
            return await self._server(request)
        return await self._api(request)
