"""Facts about the history itself: its recovery after a loss, or its import from a file.

Source: docs/architecture.md; docs/reliability.md.
"""

from __future__ import annotations

from typing import ClassVar

from bus.events.vocabulary import Fact


class HistoryRecovered(Fact, frozen=True, kw_only=True):
    """`bursar recover` reconciled stream and ledger. Readers may have missed some of the earlier events. Key: ``history``.

    ``published`` events were brought back, ``taken`` had not been in the ledger, ``altered`` contradicted it; ``lost`` ones
    were lost by the bus before the ledger saw them.
    """

    wire_type: ClassVar[str] = "history.recovered"

    incarnation: int
    published: int = 0
    taken: int = 0
    altered: int = 0
    lost: int = 0


class HistoryImported(Fact, frozen=True, kw_only=True):
    """An import of recorded events from a file or folder began. Live events may be interleaved. Key: ``history``.

    ``input`` is the file or folder as it was named, ``digest`` the SHA-256 of the file (empty for a folder). With ``whole`` also
    decisions were taken from it.
    """

    wire_type: ClassVar[str] = "history.imported"

    input: str
    digest: str = ""
    whole: bool = False
