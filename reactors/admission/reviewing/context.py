"""The context of reviews: the observed objects, the journals of the trees, and the queues.

Source: docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bus.clock import Clock
from reactors.admission.deciding.appending import TreeDecisions
from reactors.admission.deciding.mapping import QuotaRef
from reactors.admission.deciding.withdrawing import Withdrawals
from reactors.admission.reviewing.children import Children
from reactors.admission.state.state import AdmissionState
from reactors.engine.journals import Journals

Ahead = Callable[[QuotaRef, str], int]
"""The number of workloads in a quota's queue before a new one of this priority class."""


class Context(msgspec.Struct, frozen=True):
    """The parts of one process that answer reviews together."""

    view: AdmissionState
    journals: Journals
    children: Children
    decisions: TreeDecisions
    clock: Clock
    ahead: Ahead
    #: None: a decision stored too late for its answer lapses.
    withdrawals: Withdrawals | None
