"""Facts about the history itself: that it was put together again after a loss.

Source: ``house.md`` 3.9; ``reliability.md`` P29.
"""

from __future__ import annotations

from typing import ClassVar

from bus.events.vocabulary import Fact


class HistoryRecovered(Fact, frozen=True, kw_only=True):
    """`bursar recover` brought stream and ledger together: what came before may have been seen in pieces. Key: ``history``.

    ``published`` events were brought back, ``taken`` had not been in the ledger, ``altered`` contradicted it.
    """

    wire_type: ClassVar[str] = "history.recovered"

    incarnation: int
    published: int = 0
    taken: int = 0
    altered: int = 0
