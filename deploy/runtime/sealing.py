"""Seals and trims behind the ledger of this process, beside its writer.

One segment at a time, then a rest as long as the work took, so the ledger goes on. Errors are reported and
retried: an unsealed ledger grows, and loses nothing.

Source: ``docs/history.md`` (segments).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial

import sqlalchemy as sa

from bus.errors import BursarError
from deploy.runtime.anchor_places import place_of
from deploy.settings.shape import Settings
from projections.engine.anchors import Anchor
from projections.engine.heads import Signer
from projections.engine.segments.sealing import Sealer
from projections.engine.store import Store

#: Between two looks, and after a failure.
LOOK_SECONDS = 5.0
RETRY_SECONDS = 60.0
#: Between two heads stored elsewhere.
ANCHOR_SECONDS = 3_600.0

_log = logging.getLogger(__name__)


def sealer_of(settings: Settings, store: Store) -> Sealer:
    """The sealer of this ledger, by the settings."""
    wanted = settings.history
    return Sealer(store, Signer(settings.signing_key), settings.segments_folder, wanted.segment_events)  # fmt: skip


class Anchoring:
    """Keeps signed heads elsewhere until cancelled. ``trouble``: why it cannot; "" = it can."""

    def __init__(self, settings: Settings, store: Store) -> None:
        address = settings.ledger.anchor
        self._anchor = Anchor(store, place_of(address, settings)) if address else None
        self.trouble = ""

    async def run(self) -> None:
        """Look again and again."""
        while self._anchor is not None:
            try:
                await _done(self._anchor.keep)
                # A new ledger has no head for a while.
                self.trouble, rest = "", ANCHOR_SECONDS if self._anchor.kept else LOOK_SECONDS
            except (BursarError, sa.exc.SQLAlchemyError) as error:
                if not self.trouble:
                    _log.warning("the newest head is not kept elsewhere, and will be tried again: %s", error)  # fmt: skip
                self.trouble, rest = f"not anchored: {error}", RETRY_SECONDS
            await asyncio.sleep(rest)


class Sealing:
    """Seals and trims until cancelled. ``trouble``: why it cannot; "" = it can."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings = settings
        self._store = store
        self.trouble = ""

    async def run(self) -> None:
        """Look again and again."""
        history = self._settings.history
        if not self._settings.seals:
            return
        sealer = None
        while True:
            rest = LOOK_SECONDS
            try:
                sealer = sealer or sealer_of(self._settings, self._store)
                steps: list[Callable[[], object | None]] = [sealer.seal]
                if (keep_us := history.keep_us) is not None:
                    steps.append(partial(sealer.trim, keep_us))
                for step in steps:
                    began = time.monotonic()
                    if await _done(step) is not None:
                        rest = min(rest, time.monotonic() - began)
                self.trouble = ""
            except (BursarError, sa.exc.SQLAlchemyError) as error:
                if (trouble := f"not sealed: {error}") != self.trouble:
                    _log.warning("the history is not sealed, and will be tried again: %s", error)
                self.trouble, rest = trouble, RETRY_SECONDS
            await asyncio.sleep(rest)


async def _done(step: Callable[[], object | None]) -> object | None:
    """The result of a step. A started step runs to its end, even if this is cancelled."""
    work = asyncio.get_running_loop().run_in_executor(None, step)
    try:
        return await asyncio.shield(work)
    finally:
        if not work.done():
            await asyncio.wait([work])
