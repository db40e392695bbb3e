"""Options and arguments that several commands about quotas take."""

from __future__ import annotations

from typing import Annotated

import typer

Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster", metavar="NAME", help="Of this cluster, where the ledger has several."
    ),
]
