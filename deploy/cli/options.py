"""Common options of every command, before or after its name, and the declaration of commands.

A command is a function whose first parameter is :class:`CommandContext`. The decorator gives it the common options; one
given after the command's name wins over the same one given before it.
"""

from __future__ import annotations

import functools
import inspect
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from deploy.cli.light import LightCommand
from deploy.cli.rendering import Format
from deploy.cli.rendering.user_names import names_by, token

if TYPE_CHECKING:
    from deploy.settings.place import LedgerPlace
    from deploy.settings.shape import Settings

#: Exit code when the reader of the output went away, as a shell has it for SIGPIPE.
PIPE = 141


@dataclass
class Given:
    """Common options as given so far."""

    data: Path | None = None
    ledger: str | None = None
    bus: str | None = None
    config: Path | None = None
    output: Format | None = None
    debug: bool = False


class CommandContext:
    """The context of a command: the settings (read when first needed) and the output format.

    A question to the ledger needs its :attr:`place` only, and reading that is faster than reading all :attr:`settings`.
    """

    def __init__(
        self,
        given: Given,
        at: str | None = None,
        cluster: str | None = None,
        *,
        is_filtered: bool = False,
        only_asks: bool = True,
    ) -> None:
        """``cluster``: the chosen one. ``is_filtered``: the command itself filters its rows, if there are several.
        ``only_asks``: it sends nothing to the cluster, so a hub's ledger is enough.
        """
        self._given = given
        self._at = at
        self._cluster = cluster
        self._is_filtered = is_filtered
        self._only_asks = only_asks

    @functools.cached_property
    def settings(self) -> Settings:
        """Options, environment, file, defaults; those of one cluster's folder of a hub. Raises SettingsError."""
        from deploy.settings.load import load

        found = load(self.given_options, self._given.config)
        if self._cluster is None:
            return found
        from deploy.settings.place import place_of

        ledger = self._of_cluster(place_of(found))
        named = found.cluster.model_copy(update={"name": ledger.cluster})
        return found.model_copy(update={"data": ledger.data, "cluster": named})

    @functools.cached_property
    def place(self) -> LedgerPlace:
        """Where the ledger is, and its cluster; with ``--at`` as it was then. Raises SettingsError."""
        from deploy.cli.notes.lacking import watch_looks
        from deploy.settings.place import place

        here = place(self.given_options, self._given.config)
        names_by(here.user_key)
        watch_looks()
        found = self._of_cluster(here)
        if self._at is None:
            return found
        from deploy.cli.past import place_at

        return place_at(found, self._at)

    def _of_cluster(self, found: LedgerPlace) -> LedgerPlace:
        """The ledger of the chosen cluster. Raises typer.BadParameter if there is none."""
        if self._cluster is None:
            return found
        from deploy.runtime.clusters import is_hub, places

        if is_hub(found) and not self._only_asks:
            there = "a hub sends nothing to a cluster: use the cluster's own Bursar"
        elif is_hub(found):
            ledgers = {one.cluster: one for one in places(found)}
            if self._cluster in ledgers:
                return ledgers[self._cluster]
            there = f"this hub has no ledger of it, but of {', '.join(ledgers)}"
        elif self._is_filtered:
            return found
        else:
            there = "this ledger is no hub's, and its rows are not told apart by clusters here"
        raise typer.BadParameter(f"{self._cluster!r}: {there}", param_hint="--cluster")

    def user(self, name: str | None) -> str | None:
        """The ledger's form of a user's name. Raises SettingsError if its key is invalid."""
        _ = self.place  # Finding the place loads the key.
        return token(name)

    @property
    def config(self) -> Path | None:
        """The settings file named on the command line."""
        return self._given.config

    @property
    def given_options(self) -> dict[str, Any]:
        """Settings given as options, nested as the settings are; None for absent ones."""
        given = self._given
        return {
            "data": given.data,
            "ledger": None if given.ledger is None else {"url": given.ledger},
            "bus": None if given.bus is None else {"url": given.bus},
        }

    @property
    def output(self) -> Format:
        """How rows are written; a table unless asked otherwise, and a wide table is one."""
        given = self._given.output or Format.TABLE
        return Format.TABLE if given is Format.WIDE else given

    @property
    def is_wide(self) -> bool:
        """Whether a table shall have every column, however wide it becomes."""
        return self._given.output is Format.WIDE


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
    typer.Option("--output", "-o", help="Format of the answer.", rich_help_panel=_PANEL),
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


Watch = Annotated[
    bool, typer.Option("--watch", "-w", help="Repeat every two seconds, until Ctrl-C.")
]
At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="EVENT|TIME",
        help="Answer from the ledger as of this event or time.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="NAME",
        help="The cluster, where the ledger or the hub has several.",
    ),
]
#: Between two answers of a watching command.
WATCH_SECONDS = 2.0


def _once(
    function: Callable[..., None],
    asked: CommandContext,
    values: dict[str, Any],
    *,
    is_watched: bool,
) -> None:
    """One answer. A watched one begins at the top of the terminal, and goes on where a code says that not all is well."""
    if is_watched and sys.stdout.isatty():
        sys.stdout.write("\x1b[H\x1b[2J")
    try:
        function(asked, **values)
    except typer.Exit:
        if not is_watched:
            raise
    sys.stdout.flush()


def remember(context: typer.Context, **options: Any) -> Given:
    """Add these options to earlier ones, and return all of them."""
    known = context.obj if isinstance(context.obj, Given) else Given()
    changed = {name: value for name, value in options.items() if value not in (None, False)}
    given = replace(known, **changed)
    context.obj = given
    # Errors are shown at the root, after the command's context is gone.
    context.find_root().obj.debug |= given.debug
    return given


def command(
    app: typer.Typer, name: str | None = None, **options: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Declare a command of ``app`` with the common options. Its function takes :class:`CommandContext` first.

    With ``question=True`` it only reads, and takes ``--watch``, and ``--at`` unless ``past=False``; with ``past=True`` any
    command does. All these take ``--cluster``, too, to choose a hub's ledger, unless ``of_cluster=False``, and others with
    ``of_cluster=True``; a function with a parameter ``cluster`` filters its rows itself.
    """

    is_question = options.pop("question", False)
    has_past = options.pop("past", is_question)
    of_cluster = options.pop("of_cluster", is_question or has_past)

    def declare(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        own = list(inspect.signature(function).parameters.values())[1:]
        is_filtered = any(one.name == "cluster" for one in own)

        @functools.wraps(function)
        def called(**values: Any) -> None:
            context = values.pop("context")
            common = {name: values.pop(name) for name in COMMON}
            again = values.pop("watch", False)
            at = values.pop("at", None) if has_past else None
            cluster = values.get("cluster") if is_filtered else values.pop("cluster", None)
            given = remember(context, **common)
            try:
                while True:
                    asked = CommandContext(
                        given, at, cluster, is_filtered=is_filtered, only_asks=of_cluster
                    )
                    _once(function, asked, values, is_watched=again)
                    if not again:
                        return
                    time.sleep(WATCH_SECONDS)
            except BrokenPipeError:
                # Caught here: further out the library ends with 1, the code of a failure.
                raise typer.Exit(PIPE) from None

        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = [inspect.Parameter("context", keyword, annotation=typer.Context)]
        parameters += [p.replace(kind=keyword, annotation=hints[p.name]) for p in own]
        if is_question:
            watched = inspect.Parameter("watch", keyword, default=False, annotation=Watch)
            parameters.append(watched)
        if has_past:
            parameters.append(inspect.Parameter("at", keyword, default=None, annotation=At))
        if of_cluster and not is_filtered:
            parameters.append(
                inspect.Parameter("cluster", keyword, default=None, annotation=Cluster)
            )
        parameters += [
            inspect.Parameter(n, keyword, default=False if n == "debug" else None, annotation=a)
            for n, a in COMMON.items()
        ]
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {p.name: p.annotation for p in parameters}
        app.command(name, cls=LightCommand, **options)(called)
        return function

    return declare
