"""Imports nats-py without aiohttp, its optional library for websockets: Bursar has none, and a short command would
spend a sixth of its time on it. The Kubernetes client imports aiohttp when it is needed.

Source: ``nats.aio.transport``; it works without aiohttp.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def uninstalled(name: str) -> Iterator[None]:
    """Within it a module cannot be imported, unless it was before."""
    modules: dict[str, Any] = sys.modules
    if name in modules:
        yield
        return
    modules[name] = None
    try:
        yield
    finally:
        del modules[name]


with uninstalled("aiohttp"):
    import nats.aio.client  # noqa: F401
