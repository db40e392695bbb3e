"""``bursar manifests``: what is applied to a cluster so that Bursar runs there."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from deploy.cli.options import CommandContext, Format, command
from deploy.commands.installation import Act, Mode, Size

if TYPE_CHECKING:
    from deploy.commands.installation import Installed


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    command(app, "manifests")(manifests)


SizeOption = Annotated[Size, typer.Option("--size", help="How much there is to do.")]
ModeOption = Annotated[
    Mode,
    typer.Option("--mode", help="watch reads only, shadow decides reviews and refuses nothing."),
]
ActOption = Annotated[
    list[Act], typer.Option("--act", help="What Bursar may do by itself; give it again for more.")
]
ImageOption = Annotated[
    str,
    typer.Option("--image", help="The image of your registry; else bursar:VERSION of the node."),
]


def manifests(
    asked: CommandContext,
    size: SizeOption = Size.SMALL,
    mode: ModeOption = Mode.WATCH,
    act: ActOption = [],  # noqa: B006
    image: ImageOption = "",
) -> None:
    """Print what runs Bursar in a cluster, for `kubectl apply -f -`.

    Without options it is one pod that reads and changes nothing. Each mode and each --act brings the rights that it needs and
    no others. What each writes to the cluster, and which Secrets it needs: docs/install.md.

    \b
    bursar manifests | kubectl apply -f -
    bursar manifests --mode shadow | kubectl apply -f -
    bursar manifests --mode enforce --act culling --act queues | kubectl apply -f -
    bursar manifests --size standard --image registry.example.org/bursar:1 > bursar.yaml
    """
    from deploy.cli.rendering.output import as_json
    from deploy.cli.rendering.yaml_text import as_yaml

    found = [one.object for one in _installation(size, mode, act, image)]
    if asked.output is Format.JSON:
        print(as_json({"apiVersion": "v1", "kind": "List", "items": found}))
    else:
        sys.stdout.write("---\n".join(map(as_yaml, found)))


def _installation(size: Size, mode: Mode, acts: list[Act], image: str) -> list[Installed]:
    from importlib import metadata

    from deploy.commands.installation import installation

    return installation(size, mode, acts, image or f"bursar:{metadata.version('bursar')}")
