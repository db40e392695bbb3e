"""The context of scheduling plugins: the states read by their hooks."""

from __future__ import annotations

import msgspec

from reactors.scheduling.columns.table import Columns
from reactors.scheduling.gangs.state import Gangs
from reactors.scheduling.queueing.quota_state import QuotaState
from reactors.scheduling.reservations.state import Reservations


class PluginContext(msgspec.Struct, frozen=True):
    """The columns of a cluster, with the gangs, quotas and reservations of its pods. None = the scheduler keeps none of these."""

    columns: Columns
    gangs: Gangs | None = None
    quotas: QuotaState | None = None
    reservations: Reservations | None = None
