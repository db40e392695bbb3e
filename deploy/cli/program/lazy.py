"""A lazy group of commands: it has their names and purposes, and imports a command when it is called.

Importing the needs of all commands takes two seconds of CPU, and one command alone needs the longest part of it. So the
list of commands is plain data (:mod:`deploy.cli.program.commands`), and each command's module is imported at its call.
"""

from __future__ import annotations

import difflib
import importlib
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from deploy.cli.light import Light
from deploy.cli.program.commands import COMMANDS, Group

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typer._click import Command, Context

    from deploy.cli.program.commands import Entry


class Lazy(Light, TyperGroup):
    """The commands of one table. The outermost group has the whole one."""

    table: Mapping[str, Entry | Group] = COMMANDS
    #: See :attr:`deploy.cli.program.commands.Group.default`.
    default: str = ""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """The arguments, with the default command if only options are given."""
        if self.default and args and args[0].startswith("-") and args[0] not in ("-h", "--help"):
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Context) -> list[str]:
        """Names in the order of the table."""
        return list(self.table)

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """The command of this name; its module is imported now. None where there is none."""
        entry = self.table.get(cmd_name)
        if entry is None:
            return None
        if cmd_name not in self.commands:
            is_group = isinstance(entry, Group)
            self.commands[cmd_name] = (
                _group(cmd_name, entry) if is_group else _command(cmd_name, entry)  # type: ignore[arg-type]
            )
        return self.commands[cmd_name]

    def resolve_command(
        self, ctx: Context, args: list[str]
    ) -> tuple[str | None, Command | None, list[str]]:
        """The command of the first argument. The error for an unknown name proposes near ones, here or in a group."""
        name = args[0]
        if name not in self.table and not name.startswith("-") and not ctx.resilient_parsing:
            known = {command: command for command in self.table}
            for group, entry in self.table.items():
                if isinstance(entry, Group):
                    known |= {
                        command: f"{group} {command}"
                        for command in entry.commands
                        if command not in known
                    }
            near = [repr(known[one]) for one in difflib.get_close_matches(name, known, cutoff=0.7)]
            ctx.fail(
                f"No such command {name!r}."
                + (f" Did you mean {' or '.join(near)}?" if near else "")
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Context, formatter: Any) -> None:
        """The list of commands for the help, by their texts alone."""
        group = TyperGroup(
            name="",
            commands={
                name: TyperCommand(name, help=entry.help) for name, entry in self.table.items()
            },
        )
        group.format_commands(ctx, formatter)


def _group(name: str, entry: Group) -> Lazy:
    made = Lazy(
        name=name, help=entry.help, no_args_is_help=True, rich_markup_mode=None, commands={}
    )
    made.table, made.default = entry.commands, entry.default
    return made


def _command(name: str, entry: Entry) -> Command:
    made = typer.Typer(rich_markup_mode=None)
    importlib.import_module(f"deploy.{entry.module}").register(made)
    return get_group(made).commands[name]
