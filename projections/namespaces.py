"""Namespaces over time: the team and the user of each.

Source: docs/accounting.md: the first labels ever seen hold for all time before, a later change cuts.
"""

from __future__ import annotations

from typing import Any

import msgspec
import sqlalchemy as sa

from bus.envelope import Event
from bus.events.namespaces import NamespaceObserved, NamespaceVanished
from projections import timelines
from projections.attribution import Names, names, selectable
from projections.engine.codec import Codec
from projections.engine.contract import Key, Projection, row_table

namespaces = row_table(
    "namespaces",
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("namespace", sa.Text, primary_key=True),
    sa.Column("uid", sa.Text),
    sa.Column("team", sa.Text),
    sa.Column("user_name", sa.Text),
    sa.Column("vanished", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
)

#: Team, user, quota names in its labels, and its selectable labels.
Owners = tuple[str | None, str | None, Names | None, dict[str, str]]

#: uid, and its owners
Value = tuple[str, str | None, str | None, Names | None, dict[str, str]]


class NamespaceHistory(msgspec.Struct, frozen=True):
    """A namespace by name, over all its lives. ``gone`` is its newest delete (resourceVersion, microseconds)."""

    cluster: str
    name: str
    history: tuple[tuple[str, int, Value], ...] = ()
    gone: tuple[str, int] | None = None
    sequence: int = 0

    def owners(self) -> list[tuple[int, Owners]]:
        """(first second, owners), oldest first."""
        return timelines.distinct(
            (second, value[1:]) for second, value in timelines.changes(self.history)
        )


def keys(fact: NamespaceObserved | NamespaceVanished, event: Event) -> tuple[Key]:
    """One namespace: (cluster, name)."""
    return ((event.cluster, fact.name),)


def fold(
    row: NamespaceHistory | None, fact: NamespaceObserved | NamespaceVanished, event: Event
) -> NamespaceHistory:
    """The namespace with one more observation. A delete changes no attribution: its pods keep their team."""
    row = row or NamespaceHistory(event.cluster, fact.name)
    history, gone = row.history, row.gone
    if isinstance(fact, NamespaceVanished):
        gone = timelines.later(gone, (fact.resource_version, event.time_us))
    else:
        value = (fact.uid, fact.team, fact.user, names(fact.labels), selectable(fact.labels))
        history = timelines.added(history, fact.resource_version, event.time_us, value)
    if history == row.history and gone == row.gone:
        return row
    return NamespaceHistory(row.cluster, row.name, history, gone, event.sequence)


def _shown(row: NamespaceHistory) -> dict[str, Any]:
    uid, team, user = row.history[-1][2][:3] if row.history else (None, None, None)
    vanished = int(timelines.is_gone(row.history, row.gone))
    return {"uid": uid, "team": team, "user_name": user, "vanished": vanished}


codec = Codec(
    NamespaceHistory,
    namespaces,
    names={"name": "namespace"},
    packed={"state": ("history", "gone")},
    shown=_shown,
)

projection = Projection(
    name="namespaces",
    version=4,
    table=namespaces,
    facts=(NamespaceObserved, NamespaceVanished),
    keys=keys,
    fold=fold,
    codec=codec,
)
