"""``bursar backup`` and ``bursar restore``: the history in a folder elsewhere, and a ledger made of it again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from deploy.cli.options import CommandContext, command
from deploy.cli.rendering import Format
from deploy.cli.rendering.bars import bar
from deploy.cli.rendering.output import say, write
from deploy.hints import hint


def register(app: typer.Typer) -> None:
    """Add both commands to the program."""
    command(app, "backup")(backup)
    command(app, "restore")(restore)


def backup(
    asked: CommandContext,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the backup.")],
    with_key: Annotated[
        bool,
        typer.Option(
            "--with-key",
            help="Also the private key that signs heads: whoever has it can sign another history.",
        ),
    ] = False,
) -> None:
    """Keep the whole history in a folder elsewhere, also while `bursar up` runs. Again: what came since is added.

    Rows are not in it, as they follow from the history. A backup that is broken off is the one before it.

    \b
    bursar backup /mnt/elsewhere/bursar
    """
    from deploy.commands import backup as backups

    warnings: list[str] = []
    with bar("writing") as told:
        found = backups.backup(
            asked.settings, folder, with_key=with_key, told=told, warned=warnings.append
        )
    for line in warnings:
        say(line)
    write([msgspec.structs.asdict(found)], asked.output, title="Backup", one=True)


def restore(
    asked: CommandContext,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the backup.")],
    at: Annotated[
        int | None, typer.Option("--at", metavar="EVENT", min=1, help="The last event to restore.")
    ] = None,
) -> None:
    """Make a ledger from a backup: every file is checked, every row folded anew. What was broken off goes on.

    The ledger must be empty. With --at it is as it was after that event. `bursar recover` then gives an empty bus the history,
    or takes from the old one what came after the backup.

    \b
    bursar restore /mnt/elsewhere/bursar --data /var/lib/bursar
    bursar restore /mnt/elsewhere/bursar --data ./yesterday --at 9000
    """
    from deploy.commands import backup as backups

    warnings: list[str] = []
    with bar("folding") as told:
        found = backups.restore(asked.settings, folder, at, told=told, warned=warnings.append)
    for line in warnings:
        say(line)
    write([msgspec.structs.asdict(found)], asked.output, title="Restore", one=True)
    if asked.output is Format.TABLE:
        say(f"next: {hint('recover')}, which brings bus and ledger together, then {hint('up')}")
