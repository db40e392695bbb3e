"""The effects of budgets, in the process with the quota trees and the ledger: meters and judgements, status, notices."""

from __future__ import annotations

import platform
from functools import partial
from typing import TYPE_CHECKING

from reactors.budgets import NAME
from reactors.budgets.settings import BudgetSettings
from reactors.budgets.state import BudgetState

if TYPE_CHECKING:
    from reactors.engine.adapters import Adapters, EffectorTable


def effects(adapters: Adapters) -> EffectorTable:
    """No effects without trees or without a ledger. Raises OSError for a token's file."""
    # A question to the reactors needs no effects, and should not pay for the import.
    from bus.notify import tell
    from reactors.budgets.notices import BudgetNotices, telling
    from reactors.budgets.rounds import Metering
    from reactors.effectors.quota_status import StatusWriter
    from reactors.engine.adapters import EffectorTable

    replica, trees, ledger = adapters.replica, adapters.trees, adapters.ledger
    settings, state = adapters.settings, replica.states[NAME]
    assert isinstance(settings, BudgetSettings) and isinstance(state, BudgetState)
    if trees is None or ledger is None:
        return EffectorTable()
    writer = StatusWriter(adapters.cluster)
    metering = Metering(
        replica, trees, ledger, adapters.transport, adapters.clock,
        writer=writer, writes_elastic=adapters.writes_elastic,
    )  # fmt: skip
    receiver = settings.receiver
    notices = BudgetNotices(
        adapters.cluster, adapters.transport, adapters.clock, state,
        name=replica.cluster, instance=platform.node(),
        tell=partial(tell, receiver) if receiver is not None else None,
    )  # fmt: skip
    beside = metering.run, partial(telling, notices, trees)
    return EffectorTable(beside=beside, trouble=writer.trouble)
