"""The reserved and the used amounts of each Reservation on nodes, over time.

A reservation reserves while it is Available or Waiting on a node, by its status: its amounts, and the part
allocated to its owners. A user of it is charged for its part as a pod; the idle part is the reservation's own.

Source: docs/scheduling.md, "Reservations"; docs/accounting.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import msgspec
import sqlalchemy as sa

from bus.amounts import ContainerResources, PodResources
from bus.charges import charged
from bus.envelope import Event
from bus.events.pods import ReservationObserved, ReservationVanished
from projections import timelines
from projections.cluster.reservations import is_active
from projections.engine.codec import Codec
from projections.engine.contract import Integer, Key, Projection, row_table

reservations = row_table(
    "reservations",
    sa.Column("uid", sa.Text, primary_key=True),
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("team", sa.Text),
    sa.Column("user_name", sa.Text),
    sa.Column("phase", sa.Text, nullable=False),
    sa.Column("node", sa.Text, nullable=False),
    sa.Column("vanished", sa.Integer, nullable=False),
    sa.Column("start_s", Integer),
    sa.Column("since_s", Integer, nullable=False),
    *(
        sa.Column(f"{part}_{kind}", Integer, nullable=False)
        for part in ("reserved", "used")
        for kind in ("cpu_milli", "gpu_milli", "cpu_milli_s", "gpu_milli_s")
    ),
    sa.Column("state", sa.Text, nullable=False),
)

#: Instead of an observation: it was deleted.
GONE: Literal["gone"] = "gone"
#: Most of one amount, and of a sum: by a wrong clock a change lasts for any time, and two sums stay inside 64 bits.
MOST, MOST_SUM = 2**31, 2**61


class Observed(msgspec.Struct, frozen=True, array_like=True):
    """The amounts in one observation of a reservation; milli, 0 without a reserved amount."""

    phase: str
    node: str
    team: str | None
    user: str | None
    cpu: int = 0
    gpu: int = 0
    used_cpu: int = 0
    used_gpu: int = 0


class ReservationHistory(msgspec.Struct, frozen=True):
    """All observations of one reservation, by uid."""

    uid: str
    cluster: str
    name: str
    history: tuple[tuple[str, int, Observed | Literal["gone"]], ...] = ()
    sequence: int = 0


class Totals(NamedTuple):
    """Sums up to the newest change, in milli-seconds: of cpu and of cards."""

    reserved_cpu: int = 0
    reserved_gpu: int = 0
    used_cpu: int = 0
    used_gpu: int = 0


def keys(fact: ReservationObserved | ReservationVanished, event: Event) -> tuple[Key]:
    """One reservation: its uid."""
    return ((fact.uid,),)


def fold(
    row: ReservationHistory | None, fact: ReservationObserved | ReservationVanished, event: Event
) -> ReservationHistory:
    """The reservation with one more observation."""
    row = row or ReservationHistory(fact.uid, event.cluster, fact.name)
    value = GONE if isinstance(fact, ReservationVanished) else _observed(fact)
    history = timelines.added(row.history, fact.resource_version, event.time_us, value)
    # A name never changes; after a writer's violation, arrival must not choose.
    name = max(row.name, fact.name)
    if history == row.history and name == row.name:
        return row
    return ReservationHistory(row.uid, row.cluster, name, history, event.sequence)


def _observed(fact: ReservationObserved) -> Observed:
    found = Observed(fact.phase, fact.node, fact.team, fact.user)
    if not is_active(fact.phase, fact.node):
        return found
    cpu, gpu = _charged(fact.allocatable)
    used_cpu, used_gpu = _charged(fact.allocated)
    return msgspec.structs.replace(
        found, cpu=cpu, gpu=gpu, used_cpu=min(used_cpu, cpu), used_gpu=min(used_gpu, gpu)
    )


def _charged(texts: Mapping[str, str] | None) -> tuple[int, int]:
    """Milli-cores and thousandths of cards, charged as for a pod with these requests."""
    found = charged(PodResources((ContainerResources(dict(texts or {})),)))
    return min(found.cpu_millicores, MOST), min(found.gpu_milligpus, MOST)


def totals(changes: list[tuple[int, Any]]) -> Totals:
    """The reserved and used amounts up to the newest change."""
    cpu = gpu = used_cpu = used_gpu = 0
    for (start, status), (end, _) in pairwise(changes):
        if status != GONE:
            seconds = max(0, end - start)
            cpu, gpu = cpu + status.cpu * seconds, gpu + status.gpu * seconds
            used_cpu, used_gpu = (
                used_cpu + status.used_cpu * seconds,
                used_gpu + status.used_gpu * seconds,
            )
    return Totals(*(min(one, MOST_SUM) for one in (cpu, gpu, used_cpu, used_gpu)))


def _shown(row: ReservationHistory) -> dict[str, Any]:
    changes = timelines.changes(row.history)
    since_s, newest = changes[-1]
    last = next((one for _, one in reversed(changes) if one != GONE), Observed("", "", None, None))
    now = Observed(last.phase, last.node, last.team, last.user) if newest == GONE else newest
    sums = totals(changes)
    return {
        "team": now.team,
        "user_name": now.user,
        "phase": now.phase,
        "node": now.node,
        "vanished": int(newest == GONE),
        "start_s": next((second for second, one in changes if one != GONE and (one.cpu or one.gpu)), None),
        "since_s": since_s,
        "reserved_cpu_milli": now.cpu,
        "reserved_gpu_milli": now.gpu,
        "used_cpu_milli": now.used_cpu,
        "used_gpu_milli": now.used_gpu,
        "reserved_cpu_milli_s": sums.reserved_cpu,
        "reserved_gpu_milli_s": sums.reserved_gpu,
        "used_cpu_milli_s": sums.used_cpu,
        "used_gpu_milli_s": sums.used_gpu,
    }  # fmt: skip


projection = Projection(
    name="reservations",
    version=1,
    table=reservations,
    facts=(ReservationObserved, ReservationVanished),
    keys=keys,
    fold=fold,
    codec=Codec(ReservationHistory, reservations, packed={"state": ("history",)}, shown=_shown),
)
