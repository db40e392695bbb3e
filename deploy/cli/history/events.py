"""``bursar export``, ``events`` and ``sql``: the history and the tables themselves."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import sqlalchemy as sa
import typer

from bus.amounts import PodResources
from bus.clock import format_stamp
from bus.errors import LedgerError
from bus.events import VOCABULARY
from bus.events.vocabulary import Fact
from deploy.cli.options import CommandContext, command
from deploy.cli.rendering.answers import answer, field
from deploy.cli.rendering.layout import Cell
from deploy.cli.rendering.output import say, write
from deploy.cli.rendering.tables import Column, Row
from deploy.cli.rendering.words import moment
from deploy.queries.sql import ROWS, ask
from deploy.runtime.ledgers import reading
from deploy.settings.near import absent
from projections.engine.segments.reading import Select, Wanted, counts, newest, selecting
from projections.engine.tables import events as archive

#: Characters of a body in a table; a wide one shows it whole.
SHOWN = 100

_FIELDS = ("sequence", "time", "type", "cluster", "key", "source", "body")


def _body(row: Row) -> Cell:
    text = row["body"]
    return Cell(text[:SHOWN] + "…" * (len(text) > SHOWN))


_COLUMNS = (
    field("SEQUENCE"),
    field("TIME", show=moment),
    field("TYPE", show=lambda text: Cell(text, "fixed")),
    field("KEY"),
    Column("BODY", _body, drop=1),
    field("CLUSTER", wide=True),
    field("SOURCE", wide=True),
    field("WHOLE BODY", "body", wide=True, show=Cell),
)


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    command(app, "export", of_cluster=True)(export)
    command(app, "events", question=True)(events)
    command(app, "sql", past=True)(sql)


def export(
    asked: CommandContext,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="FILE.ndjson, FILE.ndjson.zst, or FILE.parquet (held segments)."
        ),
    ],
    first: Annotated[
        int, typer.Option("--from-sequence", min=1, help="Begin with this event.")
    ] = 1,
    segment: Annotated[
        int, typer.Option("--segment", min=0, help="Events of one file; 0 = all in one.")
    ] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Write over files that are there.")
    ] = False,
) -> None:
    """Write the history to files for `bursar import events`. FILE.parquet gets the held segments.

    \b
    bursar export history.ndjson.zst
    bursar export history.ndjson.zst --from-sequence 100001 --segment 100000
    bursar export held.parquet               needs: pip install 'bursar[parquet]'
    """
    from deploy.commands.export import export_events, export_parquet

    with reading(asked.place) as connection:
        if file.suffix == ".parquet":
            written = export_parquet(connection, file, force=force)
        else:
            written = export_events(connection, file, first, segment, force=force)
    write([msgspec.structs.asdict(written)], asked.output, title="Exported", one=True)


def events(
    asked: CommandContext,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the vocabulary as JSON Schema.")
    ] = False,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="KEY", help="The history of one pod (uid) or name."),
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Only this type, as pod.observed.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Most events, the newest.")] = 100,
) -> None:
    """Published events: the newest, or those of one key. Also all event types.

    \b
    bursar events --key 0b6c7d3e-…
    bursar events --type pod.vanished --limit 20 -o json
    bursar events --schema > events.schema.json
    """
    if schema:
        print(json.dumps(vocabulary_schema(), indent=2))
        return
    types = None if kind is None else frozenset({kind})
    wanted = Wanted(types=types, keys=None if key is None else frozenset({key}))
    with reading(asked.place) as connection:
        select = selecting(connection)
        found = newest(select, wanted, limit)
        if not found and (key is not None or kind is not None):
            _require(select, key, kind)
    rows: list[dict[str, Any]] = [
        {
            "sequence": event.sequence,
            "time": format_stamp(event.time_us),
            "type": event.type,
            "cluster": event.cluster,
            "key": event.key,
            "source": event.source,
            "body": event.body.decode("utf-8", "replace"),
        }
        for event in found
    ]
    answer(asked, rows, fields=_FIELDS, columns=_COLUMNS)


def _require(select: Select, key: str | None, kind: str | None) -> None:
    """Raise if the key, or the type, has no event at all, with similar names; keys of untrimmed events only."""
    if key is None:
        there = {type for _, type in counts(select)}
        if kind not in there:
            raise absent("type", str(kind), there)
    elif not newest(select, Wanted(keys=frozenset({key})), 1):
        keys = {row[0] for row in select(sa.select(archive.c.key).distinct())}
        raise absent("key", key, keys)


def vocabulary_schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of every body: its wire types under ``x-types``, their shapes under ``$defs``."""
    facts = [_described(fact) for fact in VOCABULARY.values()]
    references, components = msgspec.json.schema_components(facts, ref_template="#/$defs/{name}")
    types = {
        fact.wire_type: {"version": fact.version, **reference}
        for fact, reference in zip(VOCABULARY.values(), references, strict=True)
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Bursar's events: the body (`data`) of each type",
        "x-types": types,
        "$defs": components,
    }


def _described(fact: type[Fact]) -> type[msgspec.Struct]:
    """The fact's class as a schema can describe it: resources, kept as raw JSON, under their own class."""
    fields: list[tuple[str, Any, Any]] = []
    for one in msgspec.structs.fields(fact):
        if one.type is msgspec.Raw:
            default = msgspec.field(default_factory=PodResources)
            fields.append((one.name, PodResources, default))
        elif one.required:
            fields.append((one.name, one.type, msgspec.field()))
        elif one.default_factory is not msgspec.NODEFAULT:
            default = msgspec.field(default_factory=one.default_factory)
            fields.append((one.name, one.type, default))
        else:
            fields.append((one.name, one.type, msgspec.field(default=one.default)))
    return msgspec.defstruct(
        fact.__name__, fields, kw_only=True, namespace={"__doc__": fact.__doc__}
    )


def sql(
    asked: CommandContext,
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="One SELECT; - reads it from stdin.")
    ],
    limit: Annotated[int, typer.Option("--limit", min=1, max=1_000_000, help="Most rows.")] = ROWS,
    seconds: Annotated[
        float, typer.Option("--timeout", min=0.1, max=300, help="Longest time, seconds.")
    ] = 5.0,
) -> None:
    """Query the ledger in SQL, read-only. The views v1_* are stable; see docs/views.md.

    \b
    bursar sql "SELECT team, sum(gpu_hours) FROM v1_usage_by_day GROUP BY team"
    bursar sql "SELECT * FROM v1_pod_runs LIMIT 10" -o csv
    """
    text = sys.stdin.read() if query == "-" else query
    if not text.strip():
        raise typer.BadParameter("the query is empty", param_hint="QUERY")
    if "\0" in text:
        raise LedgerError("a query holds no NUL character")
    with reading(asked.place):
        # Parts in filling are read here; the query runs in a process of its own.
        pass
    answer = ask(asked.place, text, rows=limit, seconds=seconds)
    write(
        [dict(zip(answer.columns, row, strict=True)) for row in answer.rows],
        asked.output, columns=answer.columns, wide=asked.is_wide,
    )  # fmt: skip
    if answer.is_large:
        say(f"only the first {len(answer.rows):,} rows: the answer would be larger than 64 MiB")
    elif answer.is_cut:
        say(f"only the first {limit:,} rows: --limit shows more")
