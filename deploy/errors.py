"""Errors of the program around Bursar: settings, locks and the end of a process. See :mod:`bus.errors` for the root."""

from __future__ import annotations

from signal import Signals

from bus.errors import BursarError, PermanentError


class SettingsError(PermanentError):
    """A setting cannot be used.

    Show the message, which names where it was set, and end with exit code 2.
    """


class AbsentLedgerError(PermanentError):
    """There is no ledger here yet.

    Begin one: `bursar up` or `bursar import`. Field: `ledger`.
    """

    ledger: str = ""


class LedgerBusyError(PermanentError):
    """Another process writes this ledger.

    Join its bus, or end it first. Field: `holder`, such as ``bursar up, process 4711``.
    """

    holder: str = ""


class StoppedError(BursarError):
    """A signal ended the work.

    What was committed stays, and the same command goes on from there.
    """

    signal: Signals
