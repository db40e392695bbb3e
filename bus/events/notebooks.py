"""Facts about notebooks: all evidence about one at one moment.

A tenant's server wrote most of it, so its text is never published: no kernel names, no code, no paths, only states,
counts and times, bounded at reading. ``time`` of the event is the moment of observation.

Source: docs/culling.md (evidence sources); docs/reliability.md.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from bus.events.vocabulary import Fact

Outcome = Literal["ok", "unreachable", "refused", "malformed"]


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The evidence from one source. Times in microseconds UTC; only ``ok`` evidence has them."""

    #: The kind of evidence, e.g. ``jupyter_kernels``, ``http_traffic``, ``gpu``.
    source: str
    outcome: Outcome = "ok"
    #: Why it is not ok, as a token: a fault of the adapter, ``http_403``, ``not_a_list`` …
    fault: str = ""
    busy: bool = False
    #: The last activity by the source's own account; None = it names none.
    active_us: int | None = None
    #: The start of a still starting kernel without a connection.
    starting_since_us: int | None = None
    #: A browser held a connection open.
    connected: bool = False
    #: How many or how much: ``kernels``, ``requests``, ``cpu_milli``, ``duty_permille`` …
    counters: dict[str, int] = {}
    #: Where a time was not accepted: ``future`` (clamped to the observation), ``before_start``, ``lying``.
    flags: tuple[str, ...] = ()


class NotebookSampled(Fact, frozen=True, kw_only=True):
    """All evidence of one look at a notebook. Key: the pod's uid, so that a successor never inherits it."""

    wire_type: ClassVar[str] = "notebook.sampled"

    uid: str
    #: Of the pod's first container, as the API server has it: policies differ by image. Cut at 256 characters.
    image: str = ""
    evidence: tuple[Evidence, ...] = ()
