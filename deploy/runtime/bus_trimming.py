"""Drops events of verified segments from the bus, beside the ledger of this process.

A segment is read and checked whole before its events leave the bus. Errors are logged
and retried: a bus without trimming grows, and loses nothing.

Source: ``docs/history.md`` (segments).
"""

from __future__ import annotations

import asyncio
import logging

import sqlalchemy as sa

from bus import embedded
from bus.errors import BursarError, BusUnavailableError
from bus.jetstream.connection import Connection
from bus.jetstream.head_trimming import HeadTrimming
from deploy.runtime.sealing import LOOK_SECONDS, RETRY_SECONDS, sealer_of
from deploy.settings.shape import Settings
from projections.engine.segments.reading import sealed_until
from projections.engine.store import Store

#: Between two looks, where the next segment is too young.
REST_SECONDS = 600.0

_log = logging.getLogger(__name__)


class BusTrimming:
    """Trims until cancelled. ``trouble``: why it cannot; "" = it can."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings = settings
        self._store = store
        self.trouble = ""

    async def run(self) -> None:
        """Look again and again."""
        if not self._settings.seals or self._settings.history.bus_keep_us is None:
            return
        while True:
            try:
                rest = LOOK_SECONDS if await self.look() else REST_SECONDS
                self.trouble = ""
            except (BursarError, sa.exc.SQLAlchemyError) as error:
                if (trouble := f"the bus is not trimmed: {error}") != self.trouble:
                    _log.warning("the bus is not trimmed, and will be tried again: %s", error)
                self.trouble, rest = trouble, RETRY_SECONDS
            await asyncio.sleep(rest)

    async def look(self) -> bool:
        """Drop the events of the oldest segment on the bus, if they are old enough. Returns whether they were."""
        keep_us = self._settings.history.bus_keep_us
        checkpoint = await asyncio.to_thread(self._store.checkpoint, "")
        if keep_us is None or not checkpoint.stream:
            return False
        connection = await self._connection()
        try:
            trimming = HeadTrimming(connection, checkpoint.stream)
            first = await trimming.first()
            sealer = await asyncio.to_thread(sealer_of, self._settings, self._store)
            segment = await asyncio.to_thread(sealer.holding, first)
            if segment is None:
                return False
            # The server drops by age alone: all events of the segment's
            # age, and those that reach it meanwhile, must be sealed, too.
            sealed = min(
                checkpoint.sequence, await asyncio.to_thread(sealed_until, self._store.select)
            )
            if not await trimming.due(segment.last, sealed, keep_us):
                return False
            await asyncio.to_thread(sealer.prove, segment)
            # The proof may have taken long.
            age_us = await trimming.due(segment.last, sealed, keep_us)
            return bool(age_us) and await trimming.drop(segment.last, age_us)
        finally:
            await connection.close()

    async def _connection(self) -> Connection:
        """A connection of a user with the right to change the stream, if there is one."""
        bus = self._settings.bus
        url, credentials = bus.address
        if bus.is_embedded:
            address = embedded.running(self._settings.data)
            if address is None:
                raise BusUnavailableError(reason="the embedded bus does not run")
            url, credentials = address.url, ("recovery", address.recovery_password)
        return await Connection.open(url, credentials=credentials, tls=bus.tls)
