"""``bursar manifests`` and ``bursar install``: the objects to apply to a cluster, and the changes that they make there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deploy.cli.options import CommandContext, command
from deploy.cli.program.exits import Exit
from deploy.cli.rendering import Format
from deploy.cli.rendering.answers import field
from deploy.cli.rendering.layout import Cell
from deploy.cli.rendering.output import say
from deploy.commands.installation import Act, Mode, Size
from deploy.errors import SettingsError

if TYPE_CHECKING:
    from deploy.commands.installation import Installed


_FIELDS = ("object", "namespace", "change", "fields", "grants", "purpose")


def _words(values: tuple[str, ...]) -> Cell | None:
    return Cell("; ".join(values), "words") if values else None


_COLUMNS = (
    field("OBJECT", show=lambda value: Cell(value, "fixed")),
    field("NAMESPACE", wide=True),
    field("CHANGE"),
    field("FOR", "purpose", show=lambda value: Cell(value, "words")),
    field("GRANTS", wide=True, show=_words),
    field("FIELDS", wide=True, show=_words),
)


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    command(app, "manifests")(manifests)
    command(app, "install")(install)


SizeOption = Annotated[Size, typer.Option("--size", help="How much there is to do.")]
ModeOption = Annotated[
    Mode,
    typer.Option("--mode", help="watch reads only, shadow decides reviews and refuses nothing."),
]
ActOption = Annotated[
    list[Act], typer.Option("--act", help="What Bursar may do by itself; give it again for more.")
]
FloorOption = Annotated[
    bool,
    typer.Option("--floor", help="Hold jobs of queues back while no webhook answers, by a policy."),
]
ApiOption = Annotated[
    bool, typer.Option("--api", help="Answer questions over HTTPS, for `kubectl bursar`.")
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
    floor: FloorOption = False,
    api: ApiOption = False,
    image: ImageOption = "",
    chart: Annotated[
        Path | None,
        typer.Option(
            "--chart", help="Write a Helm chart of all sizes and modes into a new folder."
        ),
    ] = None,
    registration: Annotated[
        bool,
        typer.Option(
            "--registration",
            help="Print the webhook configurations instead, as these settings want them; where `bursar up` runs.",
        ),
    ] = False,
    nats: Annotated[
        bool,
        typer.Option(
            "--nats",
            help="Print the configuration of a NATS of your own instead: TLS and a user for each process.",
        ),
    ] = False,
    koordinator: Annotated[
        bool,
        typer.Option(
            "--koordinator",
            help="Print Koordinator's kinds instead, for a cluster without Koordinator: Reservation, Device and others.",
        ),
    ] = False,
) -> None:
    """Print manifests of Bursar for `kubectl apply -f -`.

    Without options they are one pod that reads and changes nothing. Each mode and each --act adds the rights that it needs and
    no others; `bursar install --dry-run` explains each. What each writes to the cluster, and the Secrets it needs:
    docs/install.md.

    \b
    bursar manifests | kubectl apply -f -
    bursar manifests --mode shadow | kubectl apply -f -
    bursar manifests --mode enforce --act culling --act queues --floor | kubectl apply -f -
    bursar manifests --api | kubectl apply -f -
    bursar manifests --size standard --image registry.example.org/bursar:1 > bursar.yaml
    bursar manifests --chart charts/bursar
    bursar manifests --nats > nats.conf
    bursar manifests --koordinator | kubectl apply -f -
    kubectl -n bursar-system exec bursar-0 -- bursar manifests --registration | kubectl apply --server-side --force-conflicts -f -
    """
    is_chosen = (size, mode, act, floor, api, image) != (
        Size.SMALL,
        Mode.WATCH,
        [],
        False,
        False,
        "",
    )
    if registration:
        if is_chosen or chart is not None or nats or koordinator:
            raise SettingsError("--registration goes alone: the settings say the rest")
        from deploy.runtime.registering import printed

        _print(asked, printed(asked.settings))
        return
    if koordinator:
        if is_chosen or chart is not None or nats:
            raise SettingsError(
                "--koordinator goes alone: its kinds are the same for every size and mode"
            )
        from deploy.commands.installation import koordinator_kinds

        _print(asked, koordinator_kinds())
        return
    if nats:
        if is_chosen or chart is not None:
            raise SettingsError("--nats goes alone: it is for every size and mode")
        from bus.jetstream.rights import configuration

        print(configuration(), end="")
        return
    if chart is not None:
        if is_chosen:
            raise SettingsError("--chart has every size and mode: say them to Helm, as values")
        _write_chart(chart)
        return
    found = _installation(size, mode, act, image, floor=floor, api=api)
    _print(asked, [one.object for one in found])


def _print(asked: CommandContext, found: list[dict[str, Any]]) -> None:
    from deploy.cli.rendering.output import as_json
    from deploy.cli.rendering.yaml_text import as_yaml

    if asked.output is Format.JSON:
        print(as_json({"apiVersion": "v1", "kind": "List", "items": found}))
    else:
        sys.stdout.write("---\n".join(map(as_yaml, found)))


def _write_chart(folder: Path) -> None:
    from importlib import metadata

    from deploy.commands.chart import chart

    if folder.exists() and any(folder.iterdir()):
        raise SettingsError(f"{folder}: not empty")
    for name, text in chart(metadata.version("bursar")).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    say(
        f"a chart in {folder}: helm install bursar {folder} --namespace bursar-system --create-namespace"
    )


def install(
    asked: CommandContext,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Ask the API server what would change.")
    ] = False,
    size: SizeOption = Size.SMALL,
    mode: ModeOption = Mode.WATCH,
    act: ActOption = [],  # noqa: B006
    floor: FloorOption = False,
    api: ApiOption = False,
    image: ImageOption = "",
) -> None:
    """Preview an installation: changes and rights. It changes nothing.

    The API server checks each object in a dry run with your rights, except objects of a namespace that does not exist yet.
    Objects that a smaller installation would no longer need are not shown. -o wide shows the changed fields and the rights of
    each role. Exit code 1 where the server refuses an object. To install: `bursar manifests | kubectl apply -f -`.

    \b
    bursar install --dry-run
    bursar install --dry-run --mode enforce --act culling -o wide
    """
    from deploy.cli.rendering.answers import answer

    if not dry_run:
        raise SettingsError(
            "install only shows, with --dry-run; what installs is `bursar manifests | kubectl apply -f -`"
        )
    found = _installation(size, mode, act, image, floor=floor, api=api)
    changes = _previewed(asked, found)
    answer(asked, changes, fields=_FIELDS, columns=_COLUMNS, notes=list(_steps(found)))
    refused = [one for one in changes if one["change"] == "refused"]
    for one in refused:
        say(f"{one['object']}: {' '.join(one['fields'])}")
    if refused:
        raise typer.Exit(Exit.FAILED)


def _previewed(asked: CommandContext, found: list[Installed]) -> list[dict[str, Any]]:
    import msgspec

    from deploy.commands.preview import preview
    from deploy.runtime.bootstrap import run
    from deploy.settings.load import cluster_access

    settings = asked.settings
    access = cluster_access(settings)
    if access is None:
        raise SettingsError("no cluster found: no kubeconfig and no service account")

    async def ask() -> list[dict[str, Any]]:
        from bus.kube import client

        cluster = await client.connect(access, trust_env=settings.cluster.trust_env)
        try:
            return [msgspec.structs.asdict(one) for one in await preview(cluster, found)]
        finally:
            await cluster.close()

    return run(ask())


def _steps(found: list[Installed]) -> Iterator[str]:
    """Steps of people beside the installation: Secrets before its pods can start, the webhook after."""
    specs = [one.object.get("spec", {}).get("template", {}).get("spec", {}) for one in found]
    volumes = [volume for spec in specs for volume in spec.get("volumes", ())]
    names = dict.fromkeys(one["secret"]["secretName"] for one in volumes if "secret" in one)
    if names:
        yield f"its pods wait for the Secrets {', '.join(names)}: docs/install.md"
    if any(one.object["metadata"]["name"] == "bursar-registrar" for one in found):
        yield "then register the webhook with your own rights: docs/webhook.md"


def _installation(
    size: Size, mode: Mode, acts: list[Act], image: str, *, floor: bool, api: bool
) -> list[Installed]:
    from importlib import metadata

    from deploy.commands.installation import installation

    image = image or f"bursar:{metadata.version('bursar')}"
    return installation(size, mode, acts, image, floor=floor, api=api)
