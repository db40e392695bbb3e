"""Opens the ledger: for its writer, with its schema migrated, or for one consistent read.

Part of the composition root (:mod:`deploy.runtime.bootstrap`), apart from it because a question needs no bus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import sqlalchemy as sa

import migrations
from bus.errors import LedgerNewerError, PermanentError
from deploy.errors import AbsentLedgerError, LedgerBusyError, OlderLedgerError
from deploy.settings.addresses import masked
from projections.engine.store import Store, engine

if TYPE_CHECKING:
    from deploy.runtime.locking import HeldLock


#: Called at the start of each consistent read: servers of answers take the number of its last event from it.
looks: list[Callable[[sa.Connection], None]] = []


class Located(Protocol):
    """Settings, or the part of them with the ledger's place."""

    @property
    def data(self) -> Path:
        """The data folder."""

    @property
    def ledger_url(self) -> str:
        """The ledger's URL. May hold a password."""


@contextmanager
def ledger(settings: Located) -> Iterator[Store]:
    """The ledger for a writer: made if missing, its schema brought up to date. To be held before, see :func:`held_ledger`."""
    # Importing alembic takes a second; questions to the ledger should not pay for it.
    from migrations.schema import upgrade

    _make_folder(settings)
    made = engine(settings.ledger_url)
    try:
        upgrade(made)
        yield Store(made)
    finally:
        made.dispose()


@contextmanager
def held_ledger(settings: Located, purpose: str) -> Iterator[tuple[Store, HeldLock]]:
    """The ledger for this process alone. Raises LedgerBusyError if another process writes it.

    The lock is taken before the migration: a newer version must change no schema while an older version writes.
    """
    from deploy.runtime.locking import writer_lock

    _make_folder(settings)
    made = engine(settings.ledger_url)
    try:
        with writer_lock(settings.ledger_url, made, purpose) as lock, ledger(settings) as store:
            yield store, lock
    finally:
        made.dispose()


@contextmanager
def joined_ledger(settings: Located, purpose: str) -> Iterator[tuple[Store, HeldLock | str]]:
    """As :func:`held_ledger`. If another process writes the ledger: the ledger as it is, and the name of that process.

    Raises LedgerBusyError beside an import, as its bus ends with it. Raises AbsentLedgerError,
    OlderLedgerError and LedgerNewerError if the writer has another version.
    """
    with ExitStack() as stack:
        found: tuple[Store, HeldLock | str]
        try:
            found = stack.enter_context(held_ledger(settings, purpose))
        except LedgerBusyError as error:
            if "import" in error.holder:
                raise
            reader(settings).dispose()
            made = engine(settings.ledger_url)
            stack.callback(made.dispose)
            found = Store(made), error.holder
        yield found


def clusters(connection: sa.Connection) -> list[str]:
    """The names of the clusters with events in the ledger."""
    from projections.engine.segments.reading import clusters as of_history
    from projections.engine.segments.reading import selecting
    from projections.evidence import evidence

    # The table of sources has a row for each cluster and kind; the history is read only if it is empty.
    seen = {name for (name,) in connection.execute(sa.select(evidence.c.cluster).distinct())}
    return sorted(name for name in seen or of_history(selecting(connection)) if name)


@contextmanager
def reading(settings: Located) -> Iterator[sa.Connection]:
    """One consistent look at the ledger, also while it is written. Raises AbsentLedgerError."""
    made = reader(settings)
    try:
        with made.connect() as connection:
            if connection.dialect.name == "postgresql":
                connection.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )
            with connection.begin():
                for look in looks:
                    look(connection)
                yield connection
    finally:
        made.dispose()


def reader(settings: Located) -> sa.Engine:
    """A read-only engine: the ledger, or its past state if the place has one.

    Raises AbsentLedgerError and OlderLedgerError, since reads must not create or change a ledger, and LedgerNewerError.
    """
    url = settings.ledger_url
    parsed = sa.make_url(url)
    if parsed.get_backend_name() == "sqlite" and not Path(parsed.database or "").is_file():
        raise AbsentLedgerError(ledger=masked(url))
    made = engine(url, read_only=True)
    if not sa.inspect(made).has_table("checkpoints"):
        made.dispose()
        raise AbsentLedgerError(ledger=masked(url))
    try:
        _check_revision(made, masked(url))
    except PermanentError:
        made.dispose()
        raise
    past = getattr(settings, "past", None)
    if past is None:
        return made
    from projections.engine.past import past_engine
    from projections.views import VIEWS

    made.dispose()
    views = [one.created("sqlite").replace("CREATE", "CREATE TEMP", 1) for one in VIEWS]
    return past_engine(past.path, made, past.sequence, views)


def _check_revision(made: sa.Engine, ledger: str) -> None:
    with made.connect() as connection:
        found = str(connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar())
    # By the names of the steps: asking alembic costs a second, too much for a question.
    steps = (Path(migrations.__file__).parent / "versions").glob("[0-9]*_*.py")
    wanted = max(migrations.number_of(step.name) for step in steps)
    if migrations.number_of(found) < wanted:
        raise OlderLedgerError(ledger=ledger, found=found, wanted=wanted)
    if migrations.floor_of(found) > wanted:
        raise LedgerNewerError(ledger=found, program=wanted)


def _make_folder(settings: Located) -> None:
    # A question makes no folder, so it need not import this.
    from bus.private_files import own_folder

    for folder in (settings.data, _folder(settings.ledger_url)):
        if folder is not None:
            own_folder(folder)


def _folder(url: str) -> Path | None:
    parsed = sa.make_url(url)
    is_file = parsed.get_backend_name() == "sqlite"
    return Path(parsed.database or "").absolute().parent if is_file else None
