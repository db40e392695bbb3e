"""``bursar replay``, ``verify``, ``recover`` and ``parked``: comparing the ledger with its history, and repairing it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import sqlalchemy as sa
import typer

from bus.clock import format_stamp
from bus.errors import LedgerError
from deploy.cli.options import CommandContext, command
from deploy.cli.program.exits import Exit
from deploy.cli.rendering import Format
from deploy.cli.rendering.answers import answer, field
from deploy.cli.rendering.bars import bar, fill_bar
from deploy.cli.rendering.output import say, write
from deploy.errors import LedgerBusyError
from deploy.runtime.ledgers import held_ledger, ledger, reader, reading
from projections.engine.segments.reading import event_at, selecting
from projections.engine.store import Store
from projections.engine.tables import parked as parked_events

if TYPE_CHECKING:
    from deploy.queries.decisions import AllRederived
    from deploy.settings.place import LedgerPlace
    from projections.engine.anchors import AnchorPlace
    from projections.engine.verify import Report
    from reactors.engine.verify import RederivedDecisions

T = TypeVar("T")

_UNANCHORED = "keep the key, or a copy of heads.jsonl, elsewhere, and name it with --key or --heads"


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    command(app, "replay")(replay)
    command(app, "verify", of_cluster=True)(verify)
    command(app, "recover")(recover)
    command(app, "list", question=True)(parked_list)
    command(app, "show", of_cluster=True)(parked_show)
    command(app, "redrive")(parked_redrive)


@contextmanager
def looking(place: LedgerPlace) -> Iterator[Store]:
    """The ledger, only to look at. Raises AbsentLedgerError."""
    made = reader(place)
    try:
        yield Store(made)
    finally:
        made.dispose()


@contextmanager
def writing(asked: CommandContext, purpose: str) -> Iterator[Store]:
    """The ledger for this process alone. Raises AbsentLedgerError and LedgerBusyError."""
    reader(asked.place).dispose()
    with held_ledger(asked.settings, purpose) as (store, _):
        yield store


def replay(
    asked: CommandContext,
    swap: Annotated[
        bool, typer.Option("--swap", help="Put the rebuilt rows in place; end `bursar up` first.")
    ] = False,
) -> None:
    """Compute all rows again from the history, and compare. Exit code 6 where they differ.

    \b
    bursar replay                  does the ledger follow from its history, to the last column?
    bursar replay --swap           put the rebuilt rows in place
    """
    from projections.catalogue import MODEL
    from projections.engine import replay as engine

    if not swap:
        _fill_free(asked)
    with writing(asked, "replay") if swap else _beside(asked) as store:
        missing = MODEL.missing(store.checkpoint(MODEL.version).version)
        with (
            bar("rebuilding") as progress,
            engine.rebuild(MODEL, store, progress=progress) as rebuilt,
        ):
            compared = engine.compare(store, rebuilt)
            digest = engine.digest(MODEL, rebuilt.store)
            if missing.parts and not swap:
                compared = engine.without(compared, missing)
                names = ", ".join(part.name for part in missing.parts)
                say(f"warning: another process fills {names}: these tables are not compared")
            if swap:
                engine.swap(store, rebuilt)
        engine.discard(store)
    differences = [
        {
            "table": d.table,
            "rows": d.rows,
            "first": [[str(one), str(other)] for one, other in d.first],
        }
        for d in compared.differences
    ]
    row: dict[str, Any] = {
        "events": compared.sequence,
        "digest": digest,
        "equal": compared.equal,
        "rows": compared.rows,
        "swapped": swap,
        "differences": differences,
    }
    if asked.output is Format.TABLE:
        row["differences"] = [f"{d['table']}: {d['rows']} rows" for d in differences] or "none"
    write([row], asked.output, title="Replay", one=True)
    if not compared.equal and not swap:
        raise typer.Exit(Exit.DIFFERENT)


def _fill_free(asked: CommandContext) -> None:
    """Fill what an upgrade changed, where no other process writes the ledger and fills it itself."""
    with suppress(LedgerBusyError), writing(asked, "replay") as store:
        _fill(store)


def _fill(store: Store) -> None:
    from deploy.runtime.bootstrap import run
    from projections.catalogue import MODEL
    from projections.engine.fill import fill_ledger

    with fill_bar() as progress:
        run(fill_ledger(MODEL, store, progress))


@contextmanager
def _beside(asked: CommandContext) -> Iterator[Store]:
    """The ledger beside its writer: a rebuild writes in its own place only."""
    reader(asked.place).dispose()
    with ledger(asked.settings) as store:
        yield store


def verify(
    asked: CommandContext,
    heads: Annotated[
        str | None,
        typer.Option(
            "--heads",
            metavar="FILE|s3://…|configmap://…|rekor+https://…",
            help="A copy of heads.jsonl, kept elsewhere, or the place of `ledger.anchor`.",
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            metavar="HEX",
            help="Public key that must have signed, noted elsewhere; repeatable.",
        ),
    ] = None,
    decisions: Annotated[
        bool,
        typer.Option(
            "--decisions",
            help="Also decide all again, answers to reviews, evictions and releases of queues included, and compare; "
            "and the newest snapshots with what the history gives.",
        ),
    ] = False,
    require_anchor: Annotated[
        bool,
        typer.Option(
            "--require-anchor",
            help="Exit code 10 where nothing outside the data folder vouches for the history.",
        ),
    ] = False,
) -> None:
    """Check hash chain, signed heads, snapshots and views.

    A person with write access to the ledger can forge all of it, and sign with the key beside it. So the answer reports the
    newest event that something outside of the data folder vouches for: a copy of heads.jsonl, or the public key, which is worth
    as much as the private one is safe. Exit code 6 on a finding, else 0. With --require-anchor, --heads or --key: 10 without an
    anchor outside.

    \b
    bursar verify --heads /mnt/elsewhere/heads.jsonl
    bursar verify --heads s3://anchors/c1
    bursar verify --heads configmap://bursar-anchors
    bursar verify --heads rekor+https://rekor.example.org --key 9a41…
    bursar verify --key 9a41…
    bursar verify --decisions
    """
    from projections.catalogue import MODEL
    from projections.engine.verify import verify as check

    keys, outside = _keys(key), _outside(asked, heads)
    inside = own if (own := asked.settings.heads_file).exists() else None

    def checked() -> Report:
        with looking(asked.place) as store, bar("verifying") as progress:
            return check(MODEL, store, outside, keys=keys, own_file=inside, progress=progress)

    found, again = _beside_decisions(asked.place, checked) if decisions else (checked(), None)
    is_table = asked.output is Format.TABLE
    row = _verified(found, is_table=is_table)
    if again is not None:
        row |= _decided_again(again, is_table=is_table) | {"ok": found.ok and again.is_right}
    write([row], asked.output, title="Verification", one=True)
    if not row["ok"]:
        raise typer.Exit(Exit.DIFFERENT)
    if (require_anchor or heads or key) and not found.anchored_until:
        raise typer.Exit(Exit.UNANCHORED)


def _keys(texts: list[str] | None) -> list[bytes]:
    """The public keys of ``--key``. Raises typer.BadParameter."""
    try:
        return [bytes.fromhex(text) for text in texts or ()]
    except ValueError:
        raise typer.BadParameter("not hexadecimal", param_hint="--key") from None


def _outside(asked: CommandContext, heads: str | None) -> Path | AnchorPlace | None:
    """The copy of heads of ``--heads``. The file written by the ledger's own process is no independent witness."""
    from deploy.runtime.anchor_places import is_place, place_of

    if heads is None:
        return None
    if is_place(heads):
        return place_of(heads, asked.settings)
    own, outside = asked.settings.heads_file, Path(heads)
    is_own = own.exists() and outside.exists() and outside.samefile(own)
    return None if is_own else outside


def _verified(found: Report, *, is_table: bool) -> dict[str, Any]:
    """The chain, its heads and the findings."""
    row: dict[str, Any] = {
        "ok": found.ok,
        "events": found.events,
        "sequence": found.sequence,
        "chain": found.chain.hex(),
        "heads": found.heads,
        "signed_until": found.signed_until,
        "key": found.key.hex(),
        "anchored": found.anchored_until > 0,
        "anchored_until": found.anchored_until,
        "found": found.found,
        "findings": [msgspec.structs.asdict(finding) for finding in found.findings],
    }
    if is_table:
        row["anchored"] = "yes" if row["anchored"] else f"no: {_UNANCHORED}"
        findings = [f"{f.what} at {f.sequence:,}: {f.reason}" for f in found.findings]
        row["findings"] = findings or "none"
    return row


def _decided_again(again: AllRederived, *, is_table: bool) -> dict[str, Any]:
    """Decisions, reviews, observations and snapshots that were derived again."""
    passed = again.passed_over
    by_reason = ", ".join(f"{n:,} {reason}" for reason, n in passed.items()) or "none"
    return {
        "decisions": again.decisions.same,
        "decisions_by_other_rules": again.decisions.passed_over,
        "decisions_different": _named(again.decisions),
        "releases": again.releases.same,
        "releases_different": _named(again.releases),
        "reviews": again.reviews.same,
        "reviews_different": _named(again.reviews),
        "observed": again.observed.same,
        "observed_different": _named(again.observed),
        "entries_passed_over": by_reason if is_table else passed,
        "snapshots": again.snapshots.same,
        "snapshots_different": [msgspec.structs.asdict(one) for one in again.snapshots.differences],
    }


def _beside_decisions(place: LedgerPlace, checked: Callable[[], T]) -> tuple[T, AllRederived]:
    """The result of ``checked``, and all decisions derived again, each by a process of its own."""
    from deploy.runtime.forked import Child, Tell, child

    async def decide(tell: Tell) -> None:
        from deploy.queries.decisions import rederived
        from projections.engine.collecting import seldom_collecting

        with looking(place) as store, seldom_collecting():
            tell(rederived(store.select))

    async def all_results(beside: Child) -> list[AllRederived]:
        return [finding async for finding in beside.results()]

    async def both(beside: Child) -> tuple[T, AllRederived]:
        found, (again,) = await asyncio.gather(asyncio.to_thread(checked), all_results(beside))
        return found, again

    with child(decide) as beside:
        return asyncio.run(both(beside))


def _named(again: RederivedDecisions) -> list[dict[str, Any]]:
    return [msgspec.structs.asdict(one) for one in again.mismatches]


def recover(
    asked: CommandContext,
    yes: Annotated[
        bool, typer.Option("--yes", help="Also make the stream anew where it holds other events.")
    ] = False,
) -> None:
    """Repair bus and ledger after one of them lost data. Acknowledged events are kept.

    End `bursar up` first. Events that the stream lost are published again from the archive. Events that the ledger missed are
    folded. A stream with other events than the archive, or with holes, is created again only with --yes; the embedded bus keeps
    its old store beside. `lost` counts events that the bus lost before the ledger read them.

    \b
    bursar recover
    bursar recover --yes
    """
    from deploy.commands.recover import recovered
    from deploy.runtime.bootstrap import run

    with writing(asked, "recover") as store:
        with bar("recovering") as progress:
            work = recovered(
                asked.settings, store, renews=yes, progress=lambda _, a, b: progress(a, b)
            )
            found = run(work)
        _fill(store)
    write([msgspec.structs.asdict(found)], asked.output, title="Recovery", one=True)


def parked_list(asked: CommandContext) -> None:
    """Parked events, each with its reason.

    Example: bursar parked list
    """
    with reading(asked.place) as connection:
        query = sa.select(parked_events).order_by(parked_events.c.sequence)
        rows = [dict(row._mapping) for row in connection.execute(query)]
    fields = list(parked_events.columns.keys())
    answer(asked, rows, fields=fields, columns=[field(name.upper(), name) for name in fields])
    if not rows and asked.output is Format.TABLE:
        say("nothing is parked")


def parked_show(
    asked: CommandContext,
    sequence: Annotated[int, typer.Argument(min=1, metavar="SEQUENCE")],
) -> None:
    """One parked event as it was published.

    Example: bursar parked show 4711
    """
    with reading(asked.place) as connection:
        why = connection.scalar(
            sa.select(parked_events.c.reason).where(parked_events.c.sequence == sequence)
        )
        event = event_at(selecting(connection), sequence)
    if why is None or event is None:
        raise LedgerError("no event of this sequence is parked", sequence=sequence)
    shown = {
        "sequence": event.sequence, "reason": why, "type": event.type, "key": event.key, "id": event.id,
        "source": event.source, "time": format_stamp(event.time_us), "defect": event.defect,
        "body": event.body.decode("utf-8", "replace"),
    }  # fmt: skip
    write([shown], asked.output, title="Parked", one=True)


def parked_redrive(asked: CommandContext) -> None:
    """Fold parked events again, after a fix. Each keeps its place in the history. End `bursar up` first.

    Example: bursar parked redrive
    """
    from projections.catalogue import MODEL
    from projections.engine.replay import redrive

    with writing(asked, "parked redrive") as store, bar("folding again") as progress:
        left = redrive(MODEL, store, progress=progress)
    write([{"parked": left}], asked.output, title="Redrive", one=True)
    if left:
        raise typer.Exit(Exit.UNHEALTHY)
