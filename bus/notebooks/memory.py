"""Compares a probe of a notebook with the probe before it: times for counters, doubts about a clock, and whether it
is news.

Pure, but for one value a notebook that its caller keeps. After a restart the memory is empty: a counter then has no
time until it moves, and the projection still has the published one.

- A counter that differs from the last probe, smaller ones included (a sidecar started anew), is activity now.
- A stamp in the future is clamped to the observation. This alone would keep a notebook for ever: from the third in
  a row on the source counts as lying, and its times are rejected until a plausible one.
- Evidence is published when it is news, and again after a heartbeat, since silence must differ from an answer. A
  moved time alone is no news while the last published one is younger than a heartbeat: no limit is that short.
- Where Kubeflow's rules decide, every look is news: they decide once for each.

Source: docs/culling.md; docs/wrong-input.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bus.clock import SECOND_US
from bus.events.notebooks import Evidence
from bus.notebooks import traffic
from bus.notebooks.go_json import SOURCE

#: Longest silence about a notebook: less than half of the five minutes until evidence is too old.
HEARTBEAT_US = 120 * SECOND_US
#: Stamps in the future, one after the other, until a source counts as lying.
LIES = 3

#: Sources with counters instead of times.
_COUNTED = frozenset({traffic.SOURCE})


class Known(msgspec.Struct, frozen=True):
    """The memory of one notebook."""

    #: Source → how many stamps in a row lay in the future.
    futures: dict[str, int] = {}
    #: Source → the last evidence with readable counters.
    counted: dict[str, Evidence] = {}
    published: tuple[Evidence, ...] = ()
    published_us: int = 0


def remember(
    known: Known,
    evidence: Sequence[Evidence],
    observed_us: int,
    heartbeat_us: int = HEARTBEAT_US,
) -> tuple[Known, tuple[Evidence, ...] | None]:
    """The memory after a probe, and the evidence to publish; None = it is no news.

    ``heartbeat_us``: the longest silence, at most :data:`HEARTBEAT_US`; less where evidence is worth less long.
    """
    futures = {e.source: _futures(known, e) for e in evidence}
    timed = tuple(_doubted(_dated(e, known, observed_us), futures[e.source]) for e in evidence)
    counted = known.counted | {
        e.source: e for e in timed if e.source in _COUNTED and e.outcome == "ok"
    }
    if not _is_news(known, timed, observed_us, heartbeat_us):
        return Known(futures, counted, known.published, known.published_us), None
    return Known(futures, counted, timed, observed_us), timed


def _futures(known: Known, evidence: Evidence) -> int:
    if evidence.outcome != "ok":
        return known.futures.get(evidence.source, 0)
    return known.futures.get(evidence.source, 0) + 1 if "future" in evidence.flags else 0


def _doubted(evidence: Evidence, futures: int) -> Evidence:
    if futures < LIES or evidence.outcome != "ok":
        return evidence
    return msgspec.structs.replace(
        evidence, active_us=None, starting_since_us=None, flags=(*evidence.flags, "lying")
    )


def _dated(evidence: Evidence, known: Known, observed_us: int) -> Evidence:
    if evidence.source not in _COUNTED or evidence.outcome != "ok":
        return evidence
    before = known.counted.get(evidence.source)
    if before is None:
        return evidence
    moved = before.counters != evidence.counters
    active_us = observed_us if moved else before.active_us
    return msgspec.structs.replace(evidence, active_us=active_us)


def _is_news(
    known: Known, evidence: Sequence[Evidence], observed_us: int, heartbeat_us: int
) -> bool:
    if observed_us - known.published_us >= heartbeat_us or len(evidence) != len(known.published):
        return True
    return any(
        new.source == SOURCE
        or _bare(new) != _bare(old)
        or _moves_on(old.active_us, new.active_us, observed_us)
        for old, new in zip(known.published, evidence, strict=True)
    )


def _bare(evidence: Evidence) -> Evidence:
    return msgspec.structs.replace(evidence, active_us=None, counters={})


def _moves_on(old_us: int | None, new_us: int | None, observed_us: int) -> bool:
    """Whether a time moved that was old when it was published."""
    return old_us != new_us and (old_us is None or observed_us - old_us >= HEARTBEAT_US)
