"""ADAPTER: work in a child process that cannot take more time and memory than it was given, whatever it does.

A database evaluates one function of a query in one step: no handler inside is asked meanwhile, and a signal waits. So the
work is done by a fork, whose CPU time, memory and files the kernel limits, and which is killed at its deadline, when
its parent is interrupted, or by its own timer where its parent is gone. What it returns comes through a pipe and is bounded.

Source: ``man 2 setrlimit``.
"""

from __future__ import annotations

import math
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import msgspec

from deploy.errors import ConfinedError

#: Seconds beyond the deadline after which a child that did not end by itself is killed.
GRACE_SECONDS = 0.5

#: Largest file that a child may write: the index of an SQLite log, which a reader may have to make.
_FILE_BYTES = 64 * 1024 * 1024

#: How a child says that memory was not enough.
_NO_MEMORY = 12


class Limits(msgspec.Struct, frozen=True):
    """What a child may take: seconds of time and of CPU, bytes of memory beyond what it begins with, bytes of its answer."""

    seconds: float
    memory_bytes: int
    answer_bytes: int
    #: Largest file that it may write.
    file_bytes: int = _FILE_BYTES


def confined(work: Callable[[], bytes], limits: Limits) -> bytes:
    """What ``work`` returns, done in a child process. It must catch its own errors and return them.

    Raises ConfinedError where a limit ended it. The child is gone when this returns or raises.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _work(work, limits, reading, writing)
    os.close(writing)
    status = -1
    try:
        answer = _answer(reading, limits)
        status = _ended(child, time.monotonic() + GRACE_SECONDS)
    finally:
        os.close(reading)
        if status < 0:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    if status == 0:
        return answer
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGALRM):
        raise ConfinedError(reason="time", seconds=limits.seconds)
    raise ConfinedError(reason="memory", seconds=limits.seconds)


def _answer(reading: int, limits: Limits) -> bytes:
    """All that the child writes until it closes its end."""
    deadline = time.monotonic() + limits.seconds + GRACE_SECONDS
    parts: list[bytes] = []
    size = 0
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([reading], [], [], left)[0]:
            raise ConfinedError(reason="time", seconds=limits.seconds)
        part = os.read(reading, 1 << 20)
        if not part:
            return b"".join(parts)
        size += len(part)
        if size > limits.answer_bytes:
            raise ConfinedError(reason="size", seconds=limits.seconds)
        parts.append(part)


def _ended(child: int, deadline: float) -> int:
    """The status of a child that ended; -1 where it has not."""
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        if time.monotonic() > deadline:
            return -1
        time.sleep(0.002)


def _work(work: Callable[[], bytes], limits: Limits, reading: int, writing: int) -> NoReturn:
    """The child. Ends without cleaning up what belongs to its parent."""
    status = _NO_MEMORY
    try:
        os.close(reading)
        for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGHUP):
            signal.signal(kind, signal.SIG_DFL)
        limit(limits)
        answer = memoryview(work())
        while answer:
            answer = answer[os.write(writing, answer) :]
        status = 0
    finally:
        # Also after any error: no handler of the parent's may run here.
        os._exit(status)


def limit(limits: Limits) -> None:
    """Take no more than this from now on, in this process."""
    signal.setitimer(signal.ITIMER_REAL, limits.seconds + 2 * GRACE_SECONDS)
    seconds = math.ceil(limits.seconds + GRACE_SECONDS)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits.file_bytes, limits.file_bytes))
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return  # Elsewhere than on Linux the time alone is limited.
    most = pages * resource.getpagesize() + limits.memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
