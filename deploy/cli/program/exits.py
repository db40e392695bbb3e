"""Exit codes of every command, in one place, and the conclusions that a script may draw from them."""

from __future__ import annotations

import sys
from enum import IntEnum

from bus.errors import (
    BusTlsError,
    BusUnavailableError,
    ClusterUnavailableError,
    EnvelopeError,
    ForeignFileError,
    HistoryDivergedError,
    ObservationError,
    PermissionDeniedError,
    UnsafeBusError,
)
from deploy.cli.options import PIPE
from deploy.errors import AbsentLedgerError, LedgerBusyError, SettingsError, StoppedError


class Exit(IntEnum):
    """What a command's end means. Shown by ``bursar --help``."""

    OK = 0
    #: Something failed; one line on stderr says what.
    FAILED = 1
    #: An option, a setting or an input cannot be used. Nothing was changed.
    USAGE = 2
    #: There is no ledger here yet.
    ABSENT = 3
    #: The bus, the database or the cluster cannot be reached; later it may.
    UNREACHABLE = 4
    #: Another process writes this ledger.
    BUSY = 5
    #: Two things that must be equal are not: history and ledger, rows and replay, chain and archive.
    DIFFERENT = 6
    #: `status`: there are parked events or gaps, the bus is unsafe, or the ledger lags.
    UNHEALTHY = 7
    #: The bus would not keep what it acknowledges, or a permission is missing.
    REFUSED = 8
    #: `quota check`: something would not be admitted; `schedule check`: a pod would find no node.
    NOT_ADMITTED = 9
    #: `verify` with --require-anchor, --heads or --key: nothing outside the data folder vouches for the history.
    UNANCHORED = 10
    #: The reader of our output went away (as in `bursar acct | head`).
    PIPE = PIPE


#: Exit code → words, for the help text.
MEANINGS = {
    Exit.OK: "done",
    Exit.FAILED: "failed; one line on stderr says why",
    Exit.USAGE: "an option, setting or input cannot be used",
    Exit.ABSENT: "no ledger here yet",
    Exit.UNREACHABLE: "bus, database or cluster cannot be reached",
    Exit.BUSY: "another process writes this ledger",
    Exit.DIFFERENT: "what must be equal is not (history, rows, chain)",
    Exit.UNHEALTHY: "status: parked events, gaps, lag or an unsafe bus",
    Exit.REFUSED: "unsafe bus or missing permission",
    Exit.NOT_ADMITTED: "quota check, schedule check: something would be refused",
    Exit.UNANCHORED: "verify: nothing outside vouches for the history, and an anchor is required",
    Exit.PIPE: "the reader of the output went away",
}

_BY_ERROR: tuple[tuple[type[Exception], Exit], ...] = (
    (SettingsError, Exit.USAGE),
    (EnvelopeError, Exit.USAGE),
    (ForeignFileError, Exit.USAGE),
    (ObservationError, Exit.USAGE),
    (AbsentLedgerError, Exit.ABSENT),
    (LedgerBusyError, Exit.BUSY),
    (BusUnavailableError, Exit.UNREACHABLE),
    (ClusterUnavailableError, Exit.UNREACHABLE),
    (HistoryDivergedError, Exit.DIFFERENT),
    (UnsafeBusError, Exit.REFUSED),
    (BusTlsError, Exit.REFUSED),
    (PermissionDeniedError, Exit.REFUSED),
)


def exit_of(error: BaseException) -> int:
    """The exit code of the process after an error; 128 + the signal's number after a signal."""
    if isinstance(error, StoppedError):
        return 128 + int(error.signal)
    if is_of_database(error, "OperationalError"):
        return Exit.UNREACHABLE
    return next((code for kind, code in _BY_ERROR if isinstance(error, kind)), Exit.FAILED)


def is_of_database(error: BaseException, name: str = "SQLAlchemyError") -> bool:
    """Whether the database library raised it. If that was never imported, it did not."""
    library = sys.modules.get("sqlalchemy.exc")
    return library is not None and isinstance(error, getattr(library, name))
