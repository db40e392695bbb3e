"""The last activity of each notebook, its evidence, and the start of its idle, busy or unknown time.

One row per pod, since a new pod is a new run and inherits nothing. A row holds only the newest or the largest
observed values, so the order of arrival changes nothing. Spans follow from them without a history of their own: a
notebook is busy at least since its last probe as not busy, and unknown since its last readable probe.

A time from a source caught lying is not in the evidence, so it cannot move ``active_us`` (docs/wrong-input.md). The
culling reactor evaluates the row.

Source: docs/culling.md.
"""

from __future__ import annotations

from typing import Any

import msgspec
import sqlalchemy as sa

from bus.envelope import Event
from bus.events.notebooks import Evidence, NotebookSampled
from projections.engine.codec import Codec
from projections.engine.contract import Integer, Key, Projection, row_table

notebook_activity = row_table(
    "notebook_activity",
    sa.Column("uid", sa.Text, primary_key=True),
    sa.Column("cluster", sa.Text, nullable=False),
    # The newest look, readable or not.
    sa.Column("observed_us", Integer, nullable=False),
    # The newest probe with any readable source; None = never.
    sa.Column("known_us", Integer),
    # The newest activity, and its source; None = no source reported any.
    sa.Column("active_us", Integer),
    sa.Column("active_source", sa.Text),
    # As of the newest readable look of each source.
    sa.Column("busy", sa.Integer, nullable=False),
    sa.Column("connected", sa.Integer, nullable=False),
    # Since when it is not known to have been other than busy; None = it is not busy.
    sa.Column("busy_since_us", Integer),
    # Source=outcome of the newest probe of each, and rejected values, sorted, with commas.
    sa.Column("outcomes", sa.Text, nullable=False),
    sa.Column("flags", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
)


class SourceActivity(msgspec.Struct, frozen=True, array_like=True):
    """All evidence of one source. Times in microseconds UTC; 0 = never."""

    #: The newest readable probe and its result.
    ok_us: int = 0
    ok: Evidence | None = None
    #: The newest unreadable probe, and the reason.
    failed_us: int = 0
    failed: Evidence | None = None
    #: The newest activity of all readable looks.
    active_us: int | None = None
    #: The newest readable probe as not busy, and the oldest one as busy.
    not_busy_us: int = 0
    first_busy_us: int | None = None

    @property
    def newest(self) -> Evidence:
        """The newest word, readable or not; at one moment the readable one."""
        return (self.ok if self.ok and self.ok_us >= self.failed_us else self.failed) or Evidence(
            source=""
        )


class Activity(msgspec.Struct, frozen=True):
    """All evidence of one notebook's activity. ``sources`` is sorted by name."""

    cluster: str
    uid: str
    sources: tuple[tuple[str, SourceActivity], ...] = ()
    observed_us: int = 0
    sequence: int = 0

    @property
    def known_us(self) -> int | None:
        """The newest probe with any readable source."""
        return max((seen.ok_us for _, seen in self.sources), default=0) or None

    @property
    def active(self) -> tuple[int, str] | None:
        """The newest activity and its source, the last by name among equals."""
        return max(
            ((s.active_us, name) for name, s in self.sources if s.active_us is not None),
            default=None,
        )

    @property
    def busy_since_us(self) -> int | None:
        """Since when some source is busy without having been seen otherwise; None = none is."""
        return min(
            (
                seen.not_busy_us or seen.first_busy_us or seen.ok_us
                for _, seen in self.sources
                if seen.ok is not None and seen.ok.busy
            ),
            default=None,
        )


def keys(fact: NotebookSampled, event: Event) -> tuple[Key]:
    """One pod: (uid,)."""
    return ((fact.uid,),)


def fold(row: Activity | None, fact: NotebookSampled, event: Event) -> Activity:
    """The notebook with one more look."""
    row = row or Activity(event.cluster, fact.uid)
    sources = dict(row.sources)
    for evidence in fact.evidence:
        seen = sources.get(evidence.source, SourceActivity())
        sources[evidence.source] = _after(seen, evidence, event.time_us)
    folded = tuple(sorted(sources.items(), key=lambda item: item[0]))
    observed_us = max(row.observed_us, event.time_us)
    if folded == row.sources and observed_us == row.observed_us:
        return row
    return Activity(row.cluster, row.uid, folded, observed_us, event.sequence)


def _after(seen: SourceActivity, evidence: Evidence, at_us: int) -> SourceActivity:
    if evidence.outcome != "ok":
        if _is_newer(at_us, evidence, seen.failed_us, seen.failed):
            return msgspec.structs.replace(seen, failed_us=at_us, failed=evidence)
        return seen
    if _is_newer(at_us, evidence, seen.ok_us, seen.ok):
        seen = msgspec.structs.replace(seen, ok_us=at_us, ok=evidence)
    active = [us for us in (seen.active_us, _active_us(evidence, at_us)) if us is not None]
    busy = [us for us in (seen.first_busy_us, at_us if evidence.busy else None) if us is not None]
    return msgspec.structs.replace(
        seen,
        active_us=max(active, default=None),
        not_busy_us=seen.not_busy_us if evidence.busy else max(seen.not_busy_us, at_us),
        first_busy_us=min(busy, default=None),
    )


def _active_us(evidence: Evidence, at_us: int) -> int | None:
    """The time of activity in readable evidence; a kernel's start is one, its starting is not."""
    if evidence.busy:
        return at_us
    times = [us for us in (evidence.active_us, evidence.starting_since_us) if us is not None]
    return max(times, default=None)


def _is_newer(at_us: int, evidence: Evidence, known_us: int, known: Evidence | None) -> bool:
    if known is None or at_us != known_us:
        return known is None or at_us > known_us
    # Two words of one moment: arrival must not choose between them.
    return repr(evidence) > repr(known)


def _shown(row: Activity) -> dict[str, Any]:
    active_us, source = row.active or (None, None)
    newest = [seen.newest for _, seen in row.sources]
    readable = [seen.ok for _, seen in row.sources if seen.ok is not None]
    return {
        "known_us": row.known_us,
        "active_us": active_us,
        "active_source": source,
        "busy": int(any(evidence.busy for evidence in readable)),
        "connected": int(any(evidence.connected for evidence in readable)),
        "busy_since_us": row.busy_since_us,
        "outcomes": ",".join(f"{evidence.source}={evidence.outcome}" for evidence in newest),
        "flags": ",".join(sorted({flag for evidence in newest for flag in evidence.flags})),
    }


codec = Codec(Activity, notebook_activity, names={"sources": "state"}, shown=_shown)

projection = Projection(
    name="activity",
    version=1,
    table=notebook_activity,
    facts=(NotebookSampled,),
    keys=keys,
    fold=fold,
    codec=codec,
)
