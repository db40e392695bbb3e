"""ADAPTER: answers each question in a process of its own, with hard limits of time, memory and room.

A process is started ahead of its question, since starting one takes longer than most answers do. Until then it has read only
its modules. The settings limit the number of answers at once. Some more questions of each caller wait; its
next one is refused.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from deploy.api.child import AskedCommand, ChildAnswer
from deploy.api.turns import FullError, Turns
from deploy.errors import ConfinedError
from deploy.runtime.confined import GRACE_SECONDS, Limits
from deploy.runtime.kept import KeptScope

#: Waiting questions of one caller, for each one in progress.
WAITING = 8
#: Bytes of an answer read at once.
_PART = 1 << 16

_log = logging.getLogger(__name__)


class BusyError(ConfinedError):
    """A caller asks too many questions at once."""


class Answers:
    """The answering processes, from the first question to `close`."""

    def __init__(self, limits: Limits, environment: Mapping[str, str], most: int) -> None:
        """``environment``: says where the ledger is. ``most``: answered at once."""
        self._limits = limits
        self._environment = dict(environment)
        self._turns = Turns(most, most * WAITING)
        self._ready: Process | None = None
        self._is_starting = False

    async def ask(
        self, arguments: Sequence[str], width: int, caller: str, kept: KeptScope | None = None
    ) -> ChildAnswer:
        """The output of a command. ``caller``: its turn is taken; ``kept``: the limits of its answer.

        Raises BusyError, and ConfinedError if a limit ended it.
        """
        try:
            async with self._turns.turn(caller):
                process, self._ready = self._ready, None
                if process is None:
                    process = await self._started()
                try:
                    asked = AskedCommand([*arguments], self._limits, width, kept)
                    answer = await self._answer(process, msgspec.json.encode(asked))
                    with suppress(TimeoutError):
                        await asyncio.wait_for(process.wait(), GRACE_SECONDS)
                finally:
                    await _ended(process)
                await self._make_ready()
                return answer
        except FullError:
            raise BusyError(reason="busy", seconds=self._limits.seconds) from None

    async def close(self) -> None:
        """End the waiting processes."""
        if self._ready is not None:
            await _ended(self._ready)

    async def _make_ready(self) -> None:
        """Start the process of the next question, unless one is there or is being started."""
        if self._ready is not None or self._is_starting:
            return
        self._is_starting = True
        try:
            self._ready = await self._started()
        except OSError as error:
            # The next question starts its own, or says why it cannot.
            _log.warning("no process was started ahead of the next question: %s", error)
        finally:
            self._is_starting = False

    async def _started(self) -> Process:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "deploy.api.child", stdin=PIPE, stdout=PIPE, env=self._environment
        )

    async def _answer(self, process: Process, asked: bytes) -> ChildAnswer:
        assert process.stdin is not None and process.stdout is not None
        seconds = self._limits.seconds
        parts, size = [], 0
        try:
            async with asyncio.timeout(seconds + 2 * GRACE_SECONDS):
                with suppress(ConnectionError):
                    process.stdin.write(asked)
                    await process.stdin.drain()
                    process.stdin.close()
                while part := await process.stdout.read(_PART):
                    parts.append(part)
                    size += len(part)
                    if size > self._limits.answer_bytes:
                        raise ConfinedError(reason="size", seconds=seconds)
        except TimeoutError:
            raise ConfinedError(reason="time", seconds=seconds) from None
        try:
            return msgspec.json.decode(b"".join(parts), type=ChildAnswer)
        except (msgspec.DecodeError, UnicodeDecodeError):
            # It ended before it answered: by its limit of CPU or of memory.
            raise ConfinedError(reason="memory", seconds=seconds) from None


async def _ended(process: Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
    await process.wait()
