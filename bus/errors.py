"""Every error of Bursar, sorted by the reaction of its catcher.

One root, two branches: a `RetryableError` may pass by itself, so the adapter tries again; a `PermanentError` will
not, so the message is parked, the component stops, or the caller is told, as the class says. A refused request is a
decision in the history and no exception.

The first line of a class's docstring is its message; the raiser adds keyword fields, kept as attributes and
appended as `name=value`, so a log line is readable and a handler needs no parsing. Texts are shown by `repr`, so
foreign input cannot start a new log line. Shape: procrastinate's `exceptions.py`; the reactions:
docs/architecture.md, docs/reliability.md.
"""

from __future__ import annotations


class BursarError(Exception):
    """Something in Bursar failed.

    Never raised itself; caught only where a process ends or a task is supervised.
    """

    fields: dict[str, object]

    def __init__(self, message: str | None = None, /, **fields: object) -> None:
        self.fields = fields
        for name, value in fields.items():
            setattr(self, name, value)
        # Docstrings are absent under `python -OO`; the class name still names the error.
        text = message or (type(self).__doc__ or type(self).__name__).partition("\n")[0].rstrip(".")
        if fields:
            text += ": " + " ".join(f"{name}={value!r}" for name, value in fields.items())
        super().__init__(text)


class RetryableError(BursarError):
    """Something outside did not answer as it should, and may do so later.

    Only adapters retry. `delay_seconds` is the shortest wait before the next attempt: the other side's request
    (`Retry-After`), else one second; the adapter adds its own growth and jitter.
    """

    delay_seconds: float

    def __init__(
        self, message: str | None = None, /, *, delay_seconds: float = 1.0, **fields: object
    ) -> None:
        super().__init__(message, **fields)
        self.delay_seconds = delay_seconds


class PermanentError(BursarError):
    """Trying again would fail in the same way.

    Park the message, refuse the request or stop the component; the subclass names the reaction.
    """


# --- published bytes are unreadable ------------------------------------------------------------


class QuantityError(PermanentError):
    """A quantity or amount is not acceptable.

    Deny the request, or park the event. Fields: `text` (shortened) or `resource` and `value`;
    `reason`.
    """

    reason: str = ""


class DemandError(PermanentError):
    """The pods or resource requests of a workload cannot be read.

    Refuse the object. Fields: `path` of the offending field, `reason`. No value is repeated.
    """

    path: str = ""
    reason: str = ""


class MalformedJsonError(PermanentError):
    """The bytes are not strict JSON.

    Park them raw; a watch line also asks for a new list, as it may have been a delete. Fields:
    `reason`, and `offset` in bytes where it is known. Nothing of the content is repeated: it may
    hold secrets.
    """

    reason: str = ""
    offset: int | None = None


class EnvelopeError(PermanentError):
    """A message is not an event of this history.

    Park it; a wrong source or cluster also counts as a security matter (docs/wrong-input.md E3).
    """


class UnknownEventTypeError(PermanentError):
    """No event type of this name is known.

    Park the message; it can be driven again once the code knows the type.
    """


class UnsupportedVersionError(PermanentError):
    """The event was written by newer code: upgrade this one.

    Park it and stop the projection (docs/wrong-input.md E2): going on would charge less than was observed.
    """


class ObservationError(PermanentError):
    """A watch record cannot be translated into a fact.

    Park the raw record and list again, so the object is not lost.
    """


class TimestampError(PermanentError):
    """A time stamp is not acceptable RFC 3339.

    Use the time of receipt and flag it if a rule allows it (docs/wrong-input.md A23), else park the record.
    """

    reason: str = ""


# --- the other side is away ----------------------------------------------------------------------


class BusUnavailableError(RetryableError):
    """The bus cannot be reached.

    Nothing was published: wait and try again; go unready when it lasts.
    """


class BusTlsError(PermanentError):
    """The connection to the bus is not encrypted as it should be.

    Send nothing over it, and stop: a password or an event would be readable. Fields: `reason`, and `path` of a file.
    """


class PublishUnknownError(RetryableError):
    """A publish got no answer in time: whether it was stored is unknown.

    Publish again with the same id and the same body; another id could double the event.
    """


class ForeignFileError(PermanentError):
    """Another user may control a file or folder.

    Nothing was written. The message names it and the way out.
    """

    path: str = ""


class StalledError(RetryableError):
    """A process that Bursar waits for makes no progress.

    End with it: a longer wait would never end. Fields: `waited_for`, its `goal` and current position `at`, `seconds` of
    standstill.
    """

    waited_for: str = ""
    goal: int = 0
    at: int = 0
    seconds: int = 0


class ClusterUnavailableError(RetryableError):
    """The cluster's API server cannot be reached or is overloaded.

    Wait and try again. Until then the known state grows old, and no destructive decision may rest on it. After an
    answer, `status` is the HTTP status and `message` its text.
    """

    status: int = 0
    message: str = ""


# --- going on would be wrong ---------------------------------------------------------------------


class WrongClockError(RetryableError):
    """A clock stands before the first build of this program, so it is wrong: set it, by NTP for one.

    Publish nothing until it is right: a wrong time stays in the history. Fields: `clock`, its owner, and `now`, its
    time.
    """


class UnsafeBusError(PermanentError):
    """The bus is set up in a way that can lose acknowledged events.

    Refuse to start, and show the property, its value and the wanted one (docs/architecture.md).
    """


class HistoryDivergedError(PermanentError):
    """The history is not the one that the ledger was folded from.

    The log went back, has a gap, or has another digest at the checkpoint. Stop, alarm, `bursar
    recover`.
    """


class WrongExpectationError(PermanentError):
    """The expected last sequence is stale: another writer was first.

    Nothing was stored. Read on to the present, decide again, and publish the new decision. Fields: `subject`, and
    `last_sequence` if the bus reports it: the newest one there.
    """

    last_sequence: int = 0


class DuplicateIdError(PermanentError):
    """The same event id was used for another body.

    Stop: one writer is faulty or forged (docs/wrong-input.md E4). Same id and same body is no error.
    """


class LedgerError(PermanentError):
    """The ledger rejected an operation or failed a check.

    Stop the writer; the ledger may be checked (`bursar verify`) and rebuilt by replay.
    """


class DamagedSegmentError(LedgerError):
    """A sealed segment of the history is damaged.

    The question's error names the file; `bursar verify` names all. A copy of the file heals it.
    """


class SegmentPlaceError(RetryableError):
    """Sealed segments cannot be written or read.

    Sealing tries again later and the ledger goes on; a question is told.
    """


class ObjectStoreError(RetryableError):
    """An S3-compatible store refused a request or did not answer.

    Sealing tries again later; a command ends and says so.
    """


class TransparencyLogError(RetryableError):
    """A transparency log refused a request, did not answer, or gave an invalid proof.

    Anchoring tries again later; a command ends and says so.
    """


class LedgerNewerError(LedgerError):
    """The ledger's schema is newer than this code: upgrade it.

    Refuse to start; older code would read the tables wrongly.
    """


class PermissionDeniedError(PermanentError):
    """A permission is missing.

    Go unready and show the field `permission`, as verb and resource, so an administrator can grant it. A write may
    also have been vetoed: then `message` is the API server's.
    """

    permission: str = ""
    message: str = ""


class UnknownRightsError(PermissionDeniedError):
    """The API server rejects Bursar's credentials or finds no RBAC grant for its account.

    Ask again for some seconds: a starting API server answers so to every account, until it has read its roles. A
    lasting refusal is a missing permission. A veto by a quota or a webhook is another error.
    """


# --- the cluster does not take a write ------------------------------------------------------------


class ConflictError(PermanentError):
    """The object's uid, resourceVersion or state differs from the one that the write expected.

    Nothing was written. Read the object again and decide again. Fields: `reason` (`Conflict`,
    `AlreadyExists`), `message` of the API server.
    """

    reason: str = ""
    message: str = ""


class NotFoundError(PermanentError):
    """The cluster has no such object, or no such kind.

    Drop the planned change; for a missing kind, look again later. Field: `message` of the API server.
    """

    message: str = ""


class RequestRefusedError(PermanentError):
    """The API server will never take this request.

    Refuse the request, and show the field `message` with the API server's reason. `status` is its HTTP status.
    """

    status: int = 400
    message: str = ""
