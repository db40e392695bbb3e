"""``bursar version``."""

from __future__ import annotations

from importlib import metadata

import typer

from deploy.cli.options import CommandContext, command


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    command(app, "version")(version)


def version(asked: CommandContext) -> None:
    """The version of this program."""
    print(description())


def description() -> str:
    """Name and version."""
    return f"bursar {metadata.version('bursar')}"
