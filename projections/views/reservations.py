"""Reservations: their reserved and used amounts on nodes."""

from __future__ import annotations

from projections.views.shape import CLUSTER, SEQUENCE, VANISHED, Column, View, at, is_, moment

_MOMENT = moment("reservations.cluster")
#: Most of a sum (projections.reservations.MOST_SUM).
MOST_SUM = 2**61


def _sum(part: str, kind: str) -> str:
    """The sum up to the newest change, and the open part since then up to the moment of its cluster."""
    amount, seconds = f"{part}_{kind}", f"({_MOMENT} - since_s)"
    most = f"{seconds} > {MOST_SUM} / NULLIF({amount}, 0)"
    since = f"CASE WHEN {most} THEN {MOST_SUM} ELSE {amount} * {seconds} END"
    return f"({amount}_s + CASE WHEN {_MOMENT} > since_s THEN {since} ELSE 0 END)"


def _sums() -> tuple[Column, ...]:
    found: list[Column] = []
    for kind, unit, short, what in (
        ("cpu_milli", "milli-core-seconds", "core_hours", "CPU"),
        ("gpu_milli", "milli-card-seconds", "gpu_hours", "GPU"),
    ):
        reserved, used = _sum("reserved", kind), _sum("used", kind)
        for name, text in (
            ("reserved", reserved),
            ("used", used),
            ("idle", f"({reserved} - {used})"),
        ):
            found += [
                is_(f"{name}_{kind}_s", f"{what} {name}, in {unit}: the exact amount.", text),
                is_(f"{name}_{short}", f"{what} {name}, in hours.", f"CAST({text} AS double precision) / 3600000"),
            ]  # fmt: skip
    return tuple(found)


_RESERVATIONS = View(
    "v1_reservations",
    "One row for each Reservation that was ever seen, by uid: what it keeps, and how much of that pods use.",
    (
        is_("uid", "Its uid: a re-created namesake is another one."),
        CLUSTER,
        is_("name", "Its name."),
        is_("team", "The team that its label names, to which what is idle belongs; NULL for none."),
        is_("user_name", "The user that its label names; NULL for none."),
        is_("phase", "The phase of its newest observation."),
        is_("node", "Its node; empty for none."),
        is_("start_s", "When it was first seen to keep room; NULL if it never was."),
        at("start_at", "The same as text.", "start_s"),
        VANISHED,
        is_(
            "reserved_cpu_milli", "CPU that it keeps now, its users' part included, in milli-cores."
        ),
        is_("used_cpu_milli", "Of it what pods use now. They are charged for it themselves."),
        is_("reserved_gpu_milli", "Cards that it keeps now, in thousandths."),
        is_("used_gpu_milli", "Of them what pods use now."),
        *_sums(),
        SEQUENCE,
    ),
    "FROM reservations",
)

RESERVATIONS = (_RESERVATIONS,)
