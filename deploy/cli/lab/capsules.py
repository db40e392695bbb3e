"""``bursar capsule`` and ``bursar test``: a policy's decisions on a slice of history, kept in a file and compared again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bus.errors import BursarError
from deploy.cli.lab.comparisons import End, Start, recorded
from deploy.cli.options import Cluster, CommandContext, command
from deploy.cli.program.exits import Exit
from deploy.cli.rendering.answers import answer, count, field
from deploy.cli.rendering.output import say
from deploy.cli.rendering.tables import Column
from deploy.cli.rendering.words import moment

if TYPE_CHECKING:
    from reactors.culling.policy import CullingPolicy
    from reactors.lab.culling.capsule import Ran

#: Endings of capsules' names.
ENDINGS = (".capsule", ".capsule.zst")
_RESULTS = ("capsule", "result", "events", "same", "missing", "new")
_LINES = ("change", "at", "decision", "kind", "namespace", "name", "reason")

Tried = Annotated[
    Path | None,
    typer.Option("--policy", metavar="FILE", help="By this policy instead of the capsule's own."),
]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    command(app, "export", of_cluster=True)(export)
    command(app, "run")(run)
    command(app, "test")(test)


def export(
    asked: CommandContext,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Written here; compressed where the name ends in .zst."
        ),
    ],
    policy: Annotated[
        Path | None,
        typer.Option("--policy", metavar="FILE", help="By default the newest policy on record."),
    ] = None,
    start: Start = None,
    end: End = None,
    pseudonymise: Annotated[
        bool,
        typer.Option(
            "--pseudonymise", help="Names become numbers; what is decided stays the same."
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Write over a file that is there.")
    ] = False,
    cluster: Cluster = None,
) -> None:
    """Write a capsule: a slice of history, a policy and its decisions. It needs no ledger and no cluster to run.

    It has the events that culling reads: pods, workloads, namespaces, probes and ticks. With --pseudonymise names of
    namespaces, pods, nodes, teams and images are numbers, and labels and texts are left out; times and amounts stay.

    \b
    bursar capsule export weekend.capsule.zst --policy two-hours.yaml --from 2d
    bursar capsule export weekend.capsule --pseudonymise
    """
    from bus.envelope import to_line
    from deploy.commands.export import whole
    from deploy.queries.lab import Recording, proposed
    from reactors.lab.culling.capsule import SOURCE, capsule
    from reactors.lab.culling.pseudonyms import CLUSTER, Pseudonyms

    if not file.name.endswith(ENDINGS):
        raise typer.BadParameter(f"the name ends in none of {', '.join(ENDINGS)}")
    with recorded(asked, cluster, start, end) as (select, name, first, last):
        recording = Recording(select, name, first, last)
        tried = recording.policy if policy is None else proposed(policy).culling
        history = recording.history()
        if pseudonymise:
            names = Pseudonyms()
            for event in recording.history():
                names.learn(event)
            history = (one for event in history if (one := names.event(event)) is not None)
            tried, name = names.policy(tried), CLUSTER
        events = decisions = 0
        with whole(file, force) as target:
            for event in capsule(name, tried, history):
                target.write(to_line(event) + b"\n")
                decisions += event.source == SOURCE
                events += event.source != SOURCE
    say(f"{file}: {events:,} events, {decisions - 1:,} decisions expected")


def run(
    asked: CommandContext,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A capsule.")],
    policy: Tried = None,
) -> None:
    """Decide a capsule again, and show differences to its decisions.

    An empty table means that all decisions are equal. Exit code 6 where one differs.

    \b
    bursar capsule run weekend.capsule.zst
    bursar capsule run weekend.capsule.zst --policy four-hours.yaml -o json
    """
    found = _ran(file, _policy(policy))
    rows = [
        {
            "change": change, "at": line.at, "decision": line.verb, "kind": line.kind,
            "namespace": line.namespace, "name": line.name, "reason": line.reason,
        }
        for change, lines in (("missing", found.missing), ("new", found.new))
        for line in lines
    ]  # fmt: skip
    notes = [f"{found.events:,} events, {found.same:,} decisions as expected"]
    answer(asked, rows, fields=_LINES, columns=_LINE_COLUMNS, notes=notes)
    if not found.is_as_expected:
        raise typer.Exit(Exit.DIFFERENT)


def test(
    asked: CommandContext,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder with capsules.")],
    policy: Tried = None,
) -> None:
    """Run all capsules of a folder: are decisions still the same?

    For a CI: exit code 6 where one differs, and 2 where the folder has none or one cannot be read.

    \b
    bursar test capsules/
    bursar test capsules/ --policy proposed.yaml
    """
    tried = _policy(policy)
    files = sorted(path for path in _content(folder) if path.name.endswith(ENDINGS))
    if not files:
        raise typer.BadParameter(f"{folder}: there is no file that ends in {ENDINGS[0]}")
    rows: list[dict[str, Any]] = []
    for file in files:
        found = _ran(file, tried)
        rows.append(
            {
                "capsule": file.name, "result": "passed" if found.is_as_expected else "differs",
                "events": found.events, "same": found.same, "missing": len(found.missing), "new": len(found.new),
            }
        )  # fmt: skip
    notes = ["MISSING: expected, and not decided; NEW: not expected. `bursar capsule run` lists both"]  # fmt: skip
    answer(asked, rows, fields=_RESULTS, columns=_RESULT_COLUMNS, notes=notes)
    if any(row["result"] != "passed" for row in rows):
        raise typer.Exit(Exit.DIFFERENT)


def _content(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise typer.BadParameter(f"{folder}: cannot be read: {error.strerror}") from None


def _policy(path: Path | None) -> CullingPolicy | None:
    from deploy.queries.lab import proposed

    return None if path is None else proposed(path).culling


def _ran(file: Path, policy: CullingPolicy | None) -> Ran:
    from bus.sources.events import read_lines
    from deploy.errors import SettingsError
    from reactors.lab.culling.capsule import ran

    try:
        return ran(read_lines(file), policy)
    except BursarError as error:
        message = str(error)
        raise SettingsError(message if str(file) in message else f"{file}: {message}") from None


_LINE_COLUMNS = (
    field("CHANGE"),
    field("AT", show=moment),
    field("DECISION"),
    Column("NOTEBOOK", lambda row: f"{row['namespace']}/{row['name']}"),
    field("REASON", drop=1),
)
_RESULT_COLUMNS = (
    field("CAPSULE"),
    field("RESULT"),
    count("EVENTS", "events"),
    count("SAME", "same"),
    count("MISSING", "missing"),
    count("NEW", "new"),
)
