"""The guard of the bus in a running process: its last result, and the end of the process on an unsafe bus."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from bus.errors import BusUnavailableError, PermissionDeniedError
from bus.jetstream import GuardLine, JetStream, Safety, require_safe
from bus.metrics import Metric, Sample
from bus.stored_blocks import closed_blocks, record_blocks, recorded_blocks

if TYPE_CHECKING:
    from deploy.runtime.bootstrap import Bus

_log = logging.getLogger(__name__)

#: How often the bus is checked again.
GUARD_SECONDS = 60.0

_HOW = {Safety.OK: 0, Safety.UNKNOWN: 1, Safety.WEAK: 2, Safety.UNSAFE: 3}


async def guarded(opened: Bus) -> None:
    """Check the bus repeatedly. An unsafe bus ends the process (P3); an unreachable one does not.

    A watching process may hold unstored observations. It publishes them after the bus is back.
    A permanently lost connection ends the process, too: its supervisor starts it again.
    """
    while True:
        await asyncio.sleep(GUARD_SECONDS)
        try:
            found = await opened.transport.guard(*opened.monitor_urls)
        except BusUnavailableError as error:
            if opened.transport.given_up:
                raise
            _log.warning("the bus cannot be checked now: %s", error)
            opened.guard[:] = [structs.replace(line, state=Safety.UNKNOWN) for line in opened.guard]
            continue
        opened.guard[:] = found
        require_safe(found)


async def prove_blocks(opened: Bus, folder: Path) -> None:
    """Read the messages of each changed block again: a flipped bit hides its message.

    ``folder``: the folder of an embedded bus. The first run reads all blocks. Raises HistoryDivergedError.
    """
    store, file = folder / "store", folder / "blocks.json"
    try:
        found = await asyncio.to_thread(closed_blocks, store, opened.transport.stream.name)
    except OSError as error:
        # The next start proves blocks trimmed or rewritten meanwhile.
        _log.warning("the blocks of the bus cannot be read now: %s", error)
        return
    known = await asyncio.to_thread(recorded_blocks, file)
    # A bit of the first sequence itself may have flipped.
    firsts = {block.name: block.first for block in known}
    changed = [block for block in found if block not in known]
    if not changed:
        return
    begins = min(min(block.first, firsts.get(block.name, block.first)) for block in changed)
    begins = max(begins, (await opened.transport.head()).first_sequence, 1)
    async for _ in opened.transport.read(after=begins - 1, live=False):
        pass
    with suppress(OSError):
        await asyncio.to_thread(record_blocks, file, found)


async def settle(transport: JetStream) -> None:
    """Have the stream of one's own servers as this version makes it, where this user may, and log the command where not."""
    name = transport.stream.name
    try:
        if await transport.settle():
            _log.info("the blocks of %s are compressed from the next start of its server on", name)
    except (BusUnavailableError, PermissionDeniedError) as error:
        _log.warning(
            "the stream is not compressed, or has an age (%s):"
            " run `nats stream edit %s --compression s2 --max-age 0`, then restart the server;"
            " leave out --compression where the stream has replicas",
            error,
            name,
        )


def bus_metrics(guard: Sequence[GuardLine]) -> Iterator[Metric]:
    """The last result. The set of properties is fixed."""
    yield Metric(
        "bursar_bus_property", "gauge",
        "How safe a property of the bus is: 0 as it should be, 1 not known, 2 weak, 3 unsafe.",
        [Sample(_HOW[line.state], {"property": line.property}) for line in guard],
    )  # fmt: skip
