"""``bursar backup`` and ``bursar restore``: the history in another folder or bucket, and a ledger restored from it."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from deploy.cli.options import CommandContext, command
from deploy.cli.rendering import Format
from deploy.cli.rendering.bars import bar
from deploy.cli.rendering.output import say, write
from deploy.hints import hint

_WHERE = "The folder of the backup, or where it is in an S3-compatible store."


def register(app: typer.Typer) -> None:
    """Add both commands to the program."""
    command(app, "backup")(backup)
    command(app, "restore")(restore)


def backup(
    asked: CommandContext,
    where: Annotated[str, typer.Argument(metavar="DIR|s3://BUCKET/PREFIX", help=_WHERE)],
    with_key: Annotated[
        bool,
        typer.Option(
            "--with-key",
            help="Also the private key that signs heads: whoever has it can sign another history.",
        ),
    ] = False,
) -> None:
    """Back up the whole history, also while `bursar up` runs. Repeat it to add new events.

    Rows are left out: they follow from the history. An interrupted backup leaves the previous one intact. A bucket is reached
    as by the AWS tools (AWS_PROFILE, AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and so on; `pip install 'bursar[s3]'`).

    \b
    bursar backup /mnt/elsewhere/bursar
    bursar backup s3://backups/bursar
    """
    from deploy.commands import backup as backups
    from deploy.commands.backup_places import place_of

    warnings: list[str] = []
    with place_of(where) as place, bar("writing") as progress:
        found = backups.backup(
            asked.settings, place, with_key=with_key, progress=progress, warned=warnings.append
        )
    for line in warnings:
        say(line)
    write([msgspec.structs.asdict(found)], asked.output, title="Backup", one=True)


def restore(
    asked: CommandContext,
    where: Annotated[str, typer.Argument(metavar="DIR|s3://BUCKET/PREFIX", help=_WHERE)],
    at: Annotated[
        int | None, typer.Option("--at", metavar="EVENT", min=1, help="The last event to restore.")
    ] = None,
    with_key: Annotated[
        bool,
        typer.Option(
            "--with-key",
            help="Also take the key that signs heads: whoever wrote the backup may have it, too.",
        ),
    ] = False,
) -> None:
    """Restore a ledger from a backup. Every file is checked, every row computed again.

    The ledger must be empty, or an interrupted restore, which continues. With --at it ends with that event. `bursar recover`
    then publishes the history to an empty bus, or takes from the old bus the events after the backup.

    \b
    bursar restore /mnt/elsewhere/bursar --data /var/lib/bursar
    bursar restore s3://backups/bursar --data ./yesterday --at 9000
    """
    from deploy.commands import backup as backups
    from deploy.commands.backup_places import place_of

    warnings: list[str] = []
    with place_of(where) as place, bar("folding") as progress:
        found = backups.restore(
            asked.settings,
            place,
            at,
            with_key=with_key,
            progress=progress,
            warned=warnings.append,
        )
    for line in warnings:
        say(line)
    row = msgspec.structs.asdict(found)
    if asked.output is Format.TABLE:
        row["signing_key"] = found.signing_key or f"not taken: {hint('up')} makes one"
    write([row], asked.output, title="Restore", one=True)
    if asked.output is Format.TABLE:
        say(f"next: {hint('recover')}, which brings bus and ledger together, then {hint('up')}")
