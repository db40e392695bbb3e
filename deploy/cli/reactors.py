"""``bursar pause`` and ``bursar resume``: the switch for all reactors."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from deploy.cli.options import CommandContext, command
from deploy.cli.rendering.output import say, warn_of_names

Author = Annotated[
    str | None,
    typer.Option(
        "--author", metavar="NAME", help="The author on record; by default your user name."
    ),
]
Reason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="The reason, recorded in the history.")
]


def register(app: typer.Typer) -> None:
    """Add both commands to the program."""
    command(app, "pause")(pause)
    command(app, "resume")(resume)


def pause(asked: CommandContext, reason: Reason = "", author: Author = None) -> None:
    """Stop all reactors: no decisions, no actions. Probes and quotas continue. `bursar resume` ends the pause.

    \b
    bursar pause --reason "the API server is being restored"
    """
    _order(asked, True, reason, author)


def resume(asked: CommandContext, reason: Reason = "", author: Author = None) -> None:
    """Start paused reactors again. Decisions from before the pause are decided again.

    \b
    bursar resume
    """
    _order(asked, False, reason, author)


def _order(asked: CommandContext, is_paused: bool, reason: str, author: str | None) -> None:
    from deploy.commands.orders import pause as order
    from deploy.runtime.bootstrap import run

    warn_of_names(reason, asked.settings.labels.user_key)
    by = asked.settings.labels.author(author or getpass.getuser())
    sequence = run(order(asked.settings, is_paused=is_paused, author=by, reason=reason))
    words = "paused" if is_paused else "running again"
    say(f"all reactors of cluster {asked.place.cluster} are {words} (event {sequence:,})")
