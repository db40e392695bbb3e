"""``bursar config``: the settings in force, and the source of each."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from deploy.cli.options import CommandContext, command
from deploy.cli.rendering.answers import answer, field
from deploy.cli.rendering.layout import Cell

_FIELDS = ("key", "value", "from", "variable", "default", "unit")
_COLUMNS = (
    field("KEY", show=lambda value: Cell(value, "fixed")),
    field("VALUE", show=lambda value: Cell(value) if value != "" else None),
    field("UNIT", drop=2),
    field("FROM", show=lambda value: Cell(value, "words")),
    field("VARIABLE", wide=True),
    field("DEFAULT", wide=True, show=lambda value: Cell(value) if value != "" else None),
)


def register(app: typer.Typer) -> None:
    """Add the commands of ``config``."""
    command(app, "show")(show)


def show(
    asked: CommandContext,
    part: Annotated[
        str | None, typer.Argument(metavar="[PART]", help="Only this part, such as culling.")
    ] = None,
    changed: Annotated[
        bool, typer.Option("--changed", help="Only what is not as by default.")
    ] = False,
) -> None:
    """Settings in force, each with its source. A source is an option, a variable, a line of the file, or the default.

    Secrets are not shown. All keys: docs/settings.md.

    \b
    bursar config show --changed
    bursar config show culling
    bursar --config bursar.yaml config show -o json
    """
    from deploy.settings.near import absent
    from deploy.settings.origins import origins
    from deploy.settings.reference import text

    found = origins(asked.settings, asked.given_options, asked.config)
    parts = {one.key.place[0] for one in found}
    if part is not None and part not in parts:
        raise absent("part of the settings", part, parts)
    rows: list[dict[str, Any]] = [
        {
            "key": one.key.name, "value": one.shown, "from": one.origin,
            "variable": one.key.variables[0], "default": text(one.key.default), "unit": one.key.unit,
        }
        for one in found
        if part in (None, one.key.place[0]) and not (changed and one.origin == "default")
    ]  # fmt: skip
    answer(asked, rows, fields=_FIELDS, columns=_COLUMNS)
