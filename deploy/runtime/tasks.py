"""The waiting places of all tasks and threads of this process, for debugging a standstill: ``kill -USR1 PID``.

Source: ``docs/operating.md``.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Iterator
from types import AsyncGeneratorType, FrameType
from typing import Any


def tasks() -> str:
    """One block for each task, and for each thread beside the loop's: its name, and a line for each function it is in,
    outermost first.
    """
    found = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    threads = (one for one in threading.enumerate() if one is not threading.current_thread())
    blocks = [*map(_block, found), *map(_thread, threads)]
    return "\n".join(line for block in blocks for line in block)


def _block(task: asyncio.Task[Any]) -> Iterator[str]:
    asked = " (asked to end)" if task.cancelling() else ""
    yield f"task {task.get_name()}{asked}"
    for frame in _frames(task.get_coro()):
        yield _line(frame)


def _thread(thread: threading.Thread) -> Iterator[str]:
    yield f"thread {thread.name}"
    frame, inside = sys._current_frames().get(thread.ident or 0), list[str]()
    while frame is not None:
        inside.append(_line(frame))
        frame = frame.f_back
    yield from reversed(inside)


def _line(frame: FrameType) -> str:
    code = frame.f_code
    return f"  {code.co_qualname} ({code.co_filename}:{frame.f_lineno})"


def _frames(waiting: Any) -> Iterator[FrameType]:
    """The frames from a coroutine down to its innermost await."""
    while waiting is not None:
        frame = _first(waiting, "cr_frame", "ag_frame", "gi_frame")
        if frame is not None:
            yield frame
            waiting = _first(waiting, "cr_await", "ag_await", "gi_yieldfrom")
        else:
            # One step of an asynchronous generator tells of its generator to the collector only.
            inside = gc.get_referents(waiting)
            waiting = next((one for one in inside if isinstance(one, AsyncGeneratorType)), None)


def _first(waiting: Any, *names: str) -> Any:
    return next((found for name in names if (found := getattr(waiting, name, None))), None)
