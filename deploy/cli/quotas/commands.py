"""The commands about quotas."""

from __future__ import annotations

import typer

from deploy.cli.options import command
from deploy.cli.quotas import check, explain, listing, show

quota = typer.Typer(
    no_args_is_help=True,
    help="Quotas: the tree, one of them, what counts against it, and what would be admitted.",
)
get = typer.Typer(no_args_is_help=True, help="What there is, one line each.")


def register(app: typer.Typer) -> None:
    """Add ``quota`` and ``get`` to the program."""
    command(quota, "tree")(listing.tree)
    command(quota, "show")(show.show)
    command(quota, "explain")(explain.explain)
    command(quota, "check")(check.check)
    command(get, "quotas")(listing.quotas)
    app.add_typer(quota, name="quota")
    app.add_typer(get, name="get")
