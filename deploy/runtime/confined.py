"""ADAPTER: work in a child process with hard limits of time and memory.

A database evaluates one function of a query in one step: handlers do not run meanwhile, and signals wait. So a
fork does the work. The kernel limits its CPU time, memory and files. It is killed at its deadline, when
its parent is interrupted, or by its own timer after its parent's end. Its result comes through a pipe and is bounded.

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

#: Seconds beyond the deadline before a running child is killed.
GRACE_SECONDS = 0.5

#: Largest file of a child: the index of an SQLite log, made by a reader at times.
_FILE_BYTES = 64 * 1024 * 1024

#: A child's report of too little memory.
_NO_MEMORY = 12


class Limits(msgspec.Struct, frozen=True):
    """Limits of a child: seconds of time and of CPU, bytes of memory beyond those at its start, bytes of its answer."""

    seconds: float
    memory_bytes: int
    answer_bytes: int
    #: Largest file of its own.
    file_bytes: int = _FILE_BYTES


def confined(work: Callable[[], bytes], limits: Limits) -> bytes:
    """The result of ``work``, done in a child process. It must catch its own errors and return them.

    Raises ConfinedError if a limit ended it. The child is gone when this returns or raises.
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
    """All output of the child until it closes its end."""
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
    """The status of an ended child; -1 while it runs."""
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        if time.monotonic() > deadline:
            return -1
        time.sleep(0.002)


def _work(work: Callable[[], bytes], limits: Limits, reading: int, writing: int) -> NoReturn:
    """The child. Ends without cleaning up its parent's resources."""
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
