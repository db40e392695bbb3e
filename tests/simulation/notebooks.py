"""Notebook servers that answer as people use them: kernels that are busy or idle, one that wants a password."""

import json

import msgspec

from bus.clock import SECOND_US, Clock, format_stamp
from bus.notebooks.prober import ProbeResponse, ProbeTarget, Unanswered
from tests.simulation.apiserver import ApiServer

HOUR_US = 3600 * SECOND_US


class Use(msgspec.Struct, frozen=True):
    """How one person uses a notebook; hours of the day, [from, until)."""

    #: A cell runs.
    busy: tuple[tuple[float, float], ...] = ()
    #: Something is run every few minutes.
    active: tuple[tuple[float, float], ...] = ()
    #: The server answers nobody without a password.
    is_locked: bool = False


class NotebookServers:
    """All servers of a cluster, by the name of their StatefulSet. ``day_us``: when the day began."""

    def __init__(self, api: ApiServer, clock: Clock, day_us: int, uses: dict[str, Use]) -> None:
        self._api = api
        self._clock = clock
        self._day_us = day_us
        self._uses = uses

    async def __call__(self, target: ProbeTarget) -> ProbeResponse | Unanswered:
        """The answer to one GET, in the place of :func:`bus.notebooks.prober.fetch`."""
        for key, pod in self._api.of("Pod"):
            if pod.get("status", {}).get("podIP") == target.address:
                use = self._uses.get(key.name.rpartition("-")[0], Use())
                return self._answer(use, target.path, pod["status"]["startTime"])
        return Unanswered("no_connection")

    def _answer(self, use: Use, path: str, started: str) -> ProbeResponse:
        if use.is_locked:
            return ProbeResponse(403, b'{"message": "Forbidden"}')
        if "/api/terminals" in path:
            return ProbeResponse(200, b"[]")
        hour = (self._clock.now_us() - self._day_us) / HOUR_US
        is_busy = any(begin <= hour < end for begin, end in use.busy)
        last = max(
            (min(hour, end) for begin, end in (*use.busy, *use.active) if begin <= hour),
            default=None,
        )
        at = started
        if last is not None:
            # People run a cell every seven minutes.
            seven_us = 7 * 60 * SECOND_US
            at_us = self._day_us + int(last * HOUR_US)
            at = max(at, format_stamp(at_us - at_us % seven_us))
        kernel = {
            "id": "0b7a2a1e-1f0e-4d43-9d0b-4f3cb1a8a6d5", "name": "python3", "last_activity": at,
            "execution_state": "busy" if is_busy else "idle", "connections": int(is_busy),
        }  # fmt: skip
        return ProbeResponse(200, json.dumps([kernel]).encode())
