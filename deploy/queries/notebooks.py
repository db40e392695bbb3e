"""Notebooks in the ledger, in the view of the culling reactor. For questions only: decides nothing."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bus.envelope import Event
from bus.events.decisions import Cull
from bus.events.notebooks import NotebookSampled
from projections.engine.segments.reading import Wanted, newest
from projections.quota_trees.queries import Select, archived
from reactors.catalogue import REACTORS
from reactors.culling.decide import Evaluation, evaluated
from reactors.culling.policy import CullingPolicy
from reactors.culling.state import NAME, CullingState
from reactors.engine.policies import Current
from reactors.engine.replica import Blocked
from reactors.engine.snapshots import at


class Notebooks(msgspec.Struct, frozen=True):
    """All notebooks of a cluster, evaluated at ``now_us``. ``current`` None = culling was never switched on."""

    now_us: int
    current: Current | None
    is_paused: bool
    view: CullingState
    evaluations: tuple[Evaluation, ...]
    #: By pod uid: due but blocked actions.
    blocked: dict[str, Blocked]


def notebooks(select: Select, cluster: str, now_us: int) -> Notebooks:
    """The notebooks of ``cluster`` in the ledger, in the order of their stops."""
    replica = at(select, REACTORS, cluster)
    view = replica.states[NAME]
    assert isinstance(view, CullingState)
    current = replica.policies.of(NAME)
    policy = current.policy if current is not None else CullingPolicy()
    assert isinstance(policy, CullingPolicy)
    found = [evaluated(view, policy, uid, now_us) for uid in view.notebooks]
    found.sort(key=lambda one: (one.culls_us, one.pod.uid))
    blocked = {
        one.decision.key: one for one in replica.blocked(now_us) if one.decision.reactor == NAME
    }
    return Notebooks(now_us, current, replica.policies.is_paused, view, tuple(found), blocked)


def samples(
    select: Select, cluster: str, since_us: int | None, until_us: int
) -> Iterator[tuple[Event, NotebookSampled]]:
    """Every sample of a cluster in [since, until), in publishing order."""
    for part in archived(select, cluster, (NotebookSampled.wire_type,)):
        for event in part:
            if (since_us is None or event.time_us >= since_us) and event.time_us < until_us:
                yield event, NotebookSampled.read(event)


def cull(select: Select, cluster: str, decision: str) -> Cull | None:
    """A cull by its id; None where there is none."""
    found = newest(select, Wanted(cluster, frozenset({Cull.wire_type}), id=decision), 1)
    return Cull.read(found[0]) if found else None
