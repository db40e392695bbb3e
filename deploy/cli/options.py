"""Options that every command takes, before or after its name, and how a command is declared.

A command is a function whose first parameter is :class:`Asked`. The decorator gives it the common options; one
given after the command's name wins over the same one given before it.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import msgspec
import typer

from deploy.settings import Settings, load

#: Exit code when the reader of the output went away, as a shell has it for SIGPIPE.
PIPE = 141


class Format(StrEnum):
    """How rows are written."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"


class Given(msgspec.Struct):
    """Common options as given so far."""

    data: Path | None = None
    ledger: str | None = None
    bus: str | None = None
    config: Path | None = None
    output: Format | None = None
    debug: bool = False


class Asked:
    """What a command is asked with: the settings (read when first needed) and the output format."""

    def __init__(self, given: Given) -> None:
        self._given = given

    @functools.cached_property
    def settings(self) -> Settings:
        """Options, environment, file, defaults. Raises SettingsError."""
        given = self._given
        options = {
            "data": given.data,
            "ledger": None if given.ledger is None else {"url": given.ledger},
            "bus": None if given.bus is None else {"url": given.bus},
        }
        return load(options, given.config)

    @property
    def output(self) -> Format:
        """How rows are written; a table unless asked otherwise."""
        return self._given.output or Format.TABLE


_PANEL = "Common options"

Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Folder of the embedded ledger and bus.",
        rich_help_panel=_PANEL,
    ),
]
Ledger = Annotated[
    str | None,
    typer.Option(
        "--ledger", metavar="URL", help="Ledger elsewhere: postgresql://…", rich_help_panel=_PANEL
    ),
]
Bus = Annotated[
    str | None,
    typer.Option(
        "--bus", metavar="URL", help="A NATS of your own: nats://…", rich_help_panel=_PANEL
    ),
]
Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Settings file (YAML).", rich_help_panel=_PANEL),
]
Output = Annotated[
    Format | None,
    typer.Option("--output", "-o", help="How to write the answer.", rich_help_panel=_PANEL),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.", rich_help_panel=_PANEL)]

COMMON: dict[str, Any] = {
    "data": Data,
    "ledger": Ledger,
    "bus": Bus,
    "config": Config,
    "output": Output,
    "debug": Debug,
}


def remember(context: typer.Context, **options: Any) -> Given:
    """Keep what was given beside what was given before, and return all of it."""
    known = context.obj if isinstance(context.obj, Given) else Given()
    changed = {name: value for name, value in options.items() if value not in (None, False)}
    given = msgspec.structs.replace(known, **changed)
    context.obj = given
    # Errors are shown at the root, after the command's context is gone.
    context.find_root().obj.debug |= given.debug
    return given


def command(
    app: typer.Typer, name: str | None = None, **options: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Declare a command of ``app`` with the common options. Its function takes :class:`Asked` first."""

    def declare(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        own = list(inspect.signature(function).parameters.values())[1:]

        @functools.wraps(function)
        def called(**values: Any) -> None:
            context = values.pop("context")
            common = {name: values.pop(name) for name in COMMON}
            try:
                function(Asked(remember(context, **common)), **values)
                sys.stdout.flush()
            except BrokenPipeError:
                # Caught here: further out the library ends with 1, which says that something failed.
                raise typer.Exit(PIPE) from None

        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = [inspect.Parameter("context", keyword, annotation=typer.Context)]
        parameters += [p.replace(kind=keyword, annotation=hints[p.name]) for p in own]
        parameters += [
            inspect.Parameter(n, keyword, default=False if n == "debug" else None, annotation=a)
            for n, a in COMMON.items()
        ]
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {p.name: p.annotation for p in parameters}
        app.command(name, **options)(called)
        return function

    return declare
