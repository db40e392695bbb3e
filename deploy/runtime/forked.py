"""ADAPTER: a child process for one piece of asynchronous work, with reports of progress to its parent.

An interpreter uses one core, however many threads it has. Of two tasks for two cores, one goes to a
fork. The fork starts with all modules and values of its parent. It must be made before anything is opened: no thread runs then,
and no connection or lock is shared. It waits for a start signal. It ends with its parent in every case: a pipe
between them closes then.

Source: ``man 2 fork``.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import pickle
import signal
import struct
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, NoReturn

import uvloop

from bus.errors import BursarError
from deploy.errors import ChildEndedError

#: Says something to the parent.
Tell = Callable[[object], None]
Work = Callable[[Tell], Coroutine[Any, Any, None]]

_LENGTH = struct.Struct("!I")


class Child:
    """A child process, as its parent sees it."""

    def __init__(self, reading: int, begins: int) -> None:
        self._reading = os.fdopen(reading, "rb", buffering=0)
        self._begins = begins

    async def results(self) -> AsyncIterator[Any]:
        """Start the child; its reports until it is done.

        Raises the error of its work, and ChildEndedError if it ended before.
        """
        reader = asyncio.StreamReader()
        pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), self._reading
        )
        os.write(self._begins, b"\n")
        try:
            while True:
                (size,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
                kind, value = pickle.loads(await reader.readexactly(size))
                if kind == "done":
                    return
                if kind == "failed":
                    raise value
                yield value
        except asyncio.IncompleteReadError:
            raise ChildEndedError() from None
        finally:
            pipe.close()


@contextlib.contextmanager
def child(work: Work) -> Iterator[Child]:
    """A child for ``work``, begun by its start signal. It is gone when this ends."""
    sys.stdout.flush()
    sys.stderr.flush()
    reading, telling = os.pipe()
    waiting, begins = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reading)
        os.close(begins)
        _work(work, waiting, telling)
    os.close(telling)
    os.close(waiting)
    made = Child(reading, begins)
    try:
        yield made
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        made._reading.close()
        os.close(begins)


def _work(work: Work, waiting: int, telling: int) -> NoReturn:
    """The child. Ends without cleaning up its parent's resources."""
    status = 1
    try:
        # Ctrl-C is for the parent: the parent ends the child.
        for kind in (signal.SIGINT, signal.SIGHUP):
            signal.signal(kind, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # Existing objects stay: the garbage collector need not visit them, so their pages are not copied.
        gc.freeze()
        if os.read(waiting, 1):
            uvloop.run(_watched(work, waiting, telling))
            status = 0
    finally:
        # Also after any error: no handler of the parent's may run here.
        os._exit(status)


async def _watched(work: Work, waiting: int, telling: int) -> None:
    # It is never written to again, so it is readable when the parent is gone.
    asyncio.get_running_loop().add_reader(waiting, os._exit, 1)

    def tell(kind: str, value: object) -> None:
        packed = pickle.dumps((kind, value))
        rest = memoryview(_LENGTH.pack(len(packed)) + packed)
        while rest:
            rest = rest[os.write(telling, rest) :]

    try:
        await work(lambda value: tell("told", value))
    except BursarError as error:
        tell("failed", error)
    except BaseException as error:
        traceback.print_exc()
        tell("failed", ChildEndedError(reason=repr(error)[:200]))
    else:
        tell("done", None)
