"""The reactors that act later, one line each. Admission answers at once and has a door of its own."""

from __future__ import annotations

from reactors.culling import decide as culling
from reactors.engine.contract import Reactor
from reactors.evictions import decide as evictions

REACTORS: tuple[Reactor, ...] = (culling.reactor, evictions.reactor)
