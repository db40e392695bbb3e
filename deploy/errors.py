"""Errors of the program around Bursar: settings, locks and the end of a process. See :mod:`bus.errors` for the root."""

from __future__ import annotations

from signal import Signals

from bus.errors import BursarError, PermanentError


class SettingsError(PermanentError):
    """A setting cannot be used.

    Show the message, which names where it was set, and end with exit code 2.
    """


class UnprovenWebhookError(PermanentError):
    """No review arrives, so nothing would be enforced.

    Do not start. Fields: the ``address`` that the API server calls, the ``problem``, and what to ``do``.
    """

    address: str
    problem: str
    do: str


class AbsentLedgerError(PermanentError):
    """There is no ledger here yet.

    Begin one: `bursar up` or `bursar import`. Field: `ledger`.
    """

    ledger: str = ""


class OlderLedgerError(PermanentError):
    """The ledger was written by an older Bursar.

    `bursar up` brings it up to date, and so does any other command that writes to it. Fields: `ledger`, `found` and
    `wanted`, revisions of its schema.
    """

    ledger: str = ""
    found: str = ""
    wanted: str = ""


class LedgerBusyError(PermanentError):
    """Another process writes this ledger.

    Join its bus, or end it first. Field: `holder`, such as ``bursar up, process 4711``.
    """

    holder: str = ""


class LostLockError(PermanentError):
    """Another process may do by now what this one does, since the database ended the session that held the lock.

    End, and begin again: nothing more was written meanwhile. Field: `reason`.
    """

    reason: str = ""


class ConfinedError(PermanentError):
    """A limit ended the work.

    Ask for less. Fields: `reason` (``time``, ``memory`` or ``size``), `seconds` that it was given.
    """

    reason: str = ""
    seconds: float = 0


class ChildEndedError(PermanentError):
    """The process that did a part of the work ended before it was done.

    Show it. What it did until then stands; asked again, the work goes on from there.
    """


class StoppedError(BursarError):
    """A signal ended the work.

    What was committed stays, and the same command goes on from there.
    """

    signal: Signals


class AbsentObjectError(PermanentError):
    """What was asked about is not there.

    The message names it and what is near. Exit code 1.
    """
