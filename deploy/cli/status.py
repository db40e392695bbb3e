"""``bursar status``: the state of the ledger, the bus and Bursar's parts."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import sqlalchemy as sa
import typer

from bus import embedded
from bus.clock import SECOND_US, SystemClock, format_stamp
from bus.errors import BursarError
from bus.stored_blocks import last_sequence
from bus.streams import history
from deploy.cli import times
from deploy.cli.notes import oversubscribed, unassigned
from deploy.cli.notes.governed import governed, governed_line
from deploy.cli.notes.lacking import filling, filling_lines, of_ledger
from deploy.cli.notes.position import seen_until, standing
from deploy.cli.notes.proven import admission_lines, enforces_nothing, is_failing
from deploy.cli.notes.segments import segments_line, segments_of
from deploy.cli.notes.unread import devices_unread, unread, unread_lines
from deploy.cli.options import CommandContext, command
from deploy.cli.program.exits import Exit
from deploy.cli.rendering import Format
from deploy.cli.rendering.clocks import clock_offset, clock_trouble
from deploy.cli.rendering.output import write
from deploy.hints import hint
from deploy.runtime.ledgers import reading
from deploy.settings.addresses import masked, unverified
from projections.engine.segments.reading import selecting, trimmed_until
from projections.engine.store import LEDGER
from projections.engine.tables import checkpoints, events
from projections.pod_runs import pod_runs
from projections.reports import ended_pods

if TYPE_CHECKING:
    from bus.jetstream import GuardLine
    from deploy.settings.place import LedgerPlace

#: How far back `gaps` looks; `bursar verify` looks at all.
LOOKED_AT = 100_000

#: Counters of a source, shown unless they are 0.
_ODD = {"refused": "refused", "late": "first seen late", "moved": "moved to another node"}


class BusView(msgspec.Struct):
    """The known state of the bus. ``sequence``: its last event; None: it is unknown."""

    sequence: int | None = None
    is_running: bool = False
    url: str = ""
    trouble: str = ""
    #: Its first event, and the bytes of its messages; None where no server was asked.
    first: int | None = None
    bytes: int | None = None
    #: It takes no writes, or cannot be reached.
    is_faulty: bool = False
    guard: list[GuardLine] = []


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    command(app, "status", question=True, past=False)(status)


def status(
    asked: CommandContext,
    live: Annotated[bool, typer.Option("--live", help="Also fail when no bus is running.")] = False,
    most: Annotated[int, typer.Option("--max-lag", help="Most events that may wait.")] = 10_000,
) -> None:
    """Health of Bursar: ledger, bus, sources, parked events. Exit code 0 when healthy, else 7.

    \b
    bursar status
    bursar status -o json --live --max-lag 1000      for a monitor
    """
    settings = asked.place
    with reading(settings) as connection:
        stands = standing(connection)
        gaps = _gaps(connection, stands.sequence)
        pods, flags = _pods(connection), _flags(connection)
        nobody = unassigned.holding(connection)
        held = governed(connection)
        segments = segments_of(selecting(connection))
        stream = connection.scalar(
            sa.select(checkpoints.c.stream).where(checkpoints.c.name == LEDGER)
        )
        excess = oversubscribed.nodes(connection)
        parts = of_ledger(connection)
    view, process = _look(settings, stream), _process_state(settings)
    admission = process.get("admission")
    ahead = 0 if view.sequence is None else max(stands.sequence - view.sequence, 0)
    lag = None if view.sequence is None or ahead else view.sequence - stands.sequence
    if ahead:
        ends = f"the bus ends at event {view.sequence:,}, the ledger has {ahead:,} more"
        view.trouble = f"{ends}: `{hint('recover')}` brings them back"
    lacking = 0 if view.first is None else max(view.first - 1 - segments["sealed"], 0)
    if lacking and stands.sequence:
        lost = f"the bus begins at event {view.first:,}, and {lacking:,} before it are not sealed"
        view.trouble, view.is_faulty = f"{lost}: `{hint('recover')}` brings them back", True
    row: dict[str, Any] = {
        "paused": _pause(process.get("paused")),
        "sequence": view.sequence,
        "projected": stands.sequence,
        "lag": lag,
        "ahead": ahead,
        "parked": stands.parked,
        "filling": filling(parts, process.get("filling")),
        "gaps": gaps,
        "segments": {**segments, "trouble": process.get("unsealed", "")},
        "guard": [msgspec.to_builtins(line) for line in view.guard],
        "bus": {
            "running": view.is_running,
            "url": view.url,
            "trouble": view.trouble,
            "first": view.first,
            "bytes": view.bytes,
        },
        "ledger": masked(settings.ledger_url),
        "ledger_unverified": unverified(settings.ledger_url),
        "observed": times.stamp(stands.observed_s) if stands.sequence else None,
        "evidence": seen_until(stands),
        "pods": pods,
        "flags": flags,
        "unassigned": nobody,
        "quotas": held,
        "oversubscribed": excess,
        "sources": process.get("sources", {}),
        "blocked": process.get("blocked", []),
        "admission": admission,
        "jobs": process.get("run_by", {}).get("jobs", {}),
    }
    if (key := settings.user_key) is not None:
        there = (
            "under a key"
            if key.is_file()
            else f"there is no {key}: answers show tokens, and nothing is written"
        )
        row["user_names"] = there
    row["unread"] = unread(row["sources"])
    row["devices_unread"] = devices_unread(row["sources"])
    row["clock"] = clock_trouble(row["sources"])
    bad = [line for line in view.guard if line.state == "UNSAFE"]
    is_well = not (
        stands.parked
        or parts
        or gaps
        or bad
        or row["unread"]
        or row["devices_unread"]
        or row["clock"]
        or segments["missing"]
        or row["segments"]["trouble"]
        or enforces_nothing(admission)
        or is_failing(admission, SystemClock().now_us())
        or (lag or 0) > most
        or ahead
        or view.is_faulty
        or (live and not view.is_running)
    )
    row["healthy"] = is_well
    if asked.output is Format.TABLE:
        row = _for_people(row, view)
    write([row], asked.output, one=True, title="Bursar")
    if not is_well:
        raise typer.Exit(Exit.UNHEALTHY)


def _pause(paused: dict[str, Any] | None) -> dict[str, Any] | None:
    """The pause of all reactors as the running process knows it; None where there is none."""
    if paused is None:
        return None
    since = format_stamp(paused["since_us"])
    return {"author": paused["author"], "since": since, "reason": paused["reason"]}


def _gaps(connection: sa.Connection, last: int) -> int:
    """Sequences missing among the last :data:`LOOKED_AT` of the archive."""
    line = trimmed_until(selecting(connection))
    behind = events.c.sequence > line
    first = connection.scalar(sa.select(sa.func.min(events.c.sequence)).where(behind))
    if first is None:
        return last - line
    begin = max(line + 1 if line else first, last - LOOKED_AT + 1)
    count = connection.scalar(
        sa.select(sa.func.count()).select_from(events).where(events.c.sequence >= begin)
    )
    return int(last - begin + 1 - (count or 0))


def _pods(connection: sa.Connection) -> dict[str, int]:
    runs = pod_runs.c
    holding, waiting = connection.execute(
        sa.select(
            sa.func.count().filter(runs.start_s.is_not(None)),
            sa.func.count().filter(runs.start_s.is_(None)),
        ).where(runs.end_s.is_(None))
    ).one()
    return {
        "all": ended_pods(connection) + holding + waiting,
        "holding": holding,
        "waiting": waiting,
    }


def _flags(connection: sa.Connection) -> dict[str, int]:
    """Pods by flag; a pod with two flags counts with each."""
    flags, found = pod_runs.c.flags, Counter[str]()
    # As the condition of the index has it.
    flagged = sa.select(flags, sa.func.count()).where(sa.text("flags <> '[]'")).group_by(flags)
    for names, count in connection.execute(flagged):
        for name in msgspec.json.decode(names):
            found[name] += count
    return dict(sorted(found.items()))


def _process_state(settings: LedgerPlace) -> dict[str, Any]:
    """The last report of a running `bursar up`; empty if none runs."""
    try:
        state = msgspec.json.decode(settings.state_file.read_bytes())
        os.kill(state["pid"], 0)
        return dict(state)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError):
        return {}


def _look(settings: LedgerPlace, stream: str | None) -> BusView:
    """Ask the bus; of a stopped embedded one the files are read. ``stream``: the one behind the ledger."""
    view = BusView()
    if settings.bus.is_embedded:
        view.is_running = embedded.running(settings.data) is not None
        if not view.is_running:
            _read_store(view, settings.data / "bus" / "store", stream)
            return view
    # Importing the bus takes half a second.
    from deploy.runtime.bootstrap import run

    run(_ask(settings, view), has_threads=False)
    return view


def _read_store(view: BusView, store: Path, stream: str | None) -> None:
    """The end of a store by its files. A ledger without a stream (an old imported one, or a hub's) has none here."""
    try:
        if store.is_dir():
            view.sequence = last_sequence(store, history().name)
        else:
            view.trouble = "no history in the data folder"
            view.sequence = 0 if stream == history().name else None
    except OSError as error:
        view.trouble, view.is_faulty = f"{store} cannot be read: {error.strerror or error}", True


async def _ask(settings: LedgerPlace, view: BusView) -> None:
    from deploy.runtime.bootstrap import bus

    try:
        async with bus(settings, is_checked=False) as opened:
            view.is_running = not opened.started
            view.url, view.guard = opened.url, opened.guard
            head = await opened.transport.head()
            view.sequence, view.first = head.last_sequence, head.first_sequence
            view.bytes = await opened.transport.size()
            if refusal := await opened.transport.refusal(*opened.monitor_urls):
                view.trouble, view.is_faulty = f"the server is unhealthy: {refusal}", True
    except BursarError as error:
        view.trouble, view.is_faulty = str(error), True


def _for_people(row: dict[str, Any], view: BusView) -> dict[str, Any]:
    row = dict(row)
    if (pause := row.pop("paused")) is not None:
        reason = f": {pause['reason']}" if pause["reason"] else ""
        line = f"all reactors, by {pause['author']} since {pause['since']}{reason}"
        row = {"paused": [line, f"`{hint('resume')}` ends the pause"], **row}
    # A separate acting process follows no source itself.
    acts = row["sources"] or row["admission"] is not None
    row["clock"] = row["clock"] or clock_offset(row["sources"])
    row["evidence"] = [
        f"{name} until {seen['observed']}"
        + (f", {seen['unknown_s']:,} s unknown since" if seen["unknown_s"] else "")
        for name, seen in row["evidence"].items()
    ] or "none"
    safe = sum(line.state == "OK" for line in view.guard)
    others = [
        f"{line.state} {line.property}: {line.found}, wanted {line.wanted}"
        for line in view.guard
        if line.state != "OK"
    ]
    running = (
        f"running at {view.url}" if view.is_running else f"not running (`{hint('up')}` starts it)"
    )
    if view.first is not None and view.bytes is not None:
        running += f"; from event {view.first:,}, {view.bytes / 2**20:,.1f} MiB before compression"
    row["bus"] = f"{running}; {view.trouble}" if view.trouble else running
    row["guard"] = (
        [f"{safe} of {len(view.guard)} properties OK", *others] if view.guard else "not asked"
    )
    if host := row.pop("ledger_unverified"):
        anybody = (
            f"who answers for {host} is not checked: sslmode=verify-full does (docs/install.md)"
        )
        row["ledger"] = [row["ledger"], anybody]
    row["pods"] = "{all:,}: {holding:,} holding, {waiting:,} waiting".format(**row["pods"])
    row["flags"] = [f"{count:,} {name}" for name, count in row["flags"].items()] or "none"
    row["segments"] = segments_line(row["segments"])
    row["filling"] = filling_lines(row["filling"])
    row["unassigned"] = unassigned.holding_line(row["unassigned"])
    row["quotas"] = governed_line(row["quotas"])
    row["oversubscribed"] = oversubscribed.lines(row["oversubscribed"])
    row["admission"] = admission_lines(row["admission"], SystemClock().now_us())
    row["jobs"] = [f"{count:,} run by {name}" for name, count in row["jobs"].items()] or "none run"
    # Without a followed cluster no process acts, so no action is blocked either.
    idle = f"nothing acts here: `{hint('evictions')}` and `{hint('notebooks')}` say what is due"
    row["blocked"] = [_blocked(one) for one in row["blocked"]] or (
        "nothing is held back" if acts else idle
    )
    row["sources"] = [
        _source(name, state) for name, state in row["sources"].items()
    ] or "none followed"
    row["unread"] = unread_lines(row["unread"])
    row["devices_unread"] = row["devices_unread"] or "none"
    if view.sequence is None:
        row["sequence"] = row["lag"] = "unknown"
    return row


def _blocked(one: dict[str, Any]) -> str:
    more = f", and {one['count'] - 1:,} more" if one["count"] > 1 else ""
    return f"{one['first']}{more}: {one['sentence']}"


def _source(name: str, state: dict[str, Any]) -> str:
    if state.get("absent_us", 0) > state.get("heard_us", 0) and not state.get("trouble"):
        looked = format_stamp(state["absent_us"] // SECOND_US * SECOND_US)
        return (
            f"{name}: not installed; waits until the cluster serves it, looked for it at {looked}"
        )
    heard_us, text = state.get("heard_us", 0), f"{state.get('published', 0):,} published"
    heard = (
        f"heard {format_stamp(heard_us // SECOND_US * SECOND_US)}" if heard_us else "not heard yet"
    )
    odd = "".join(
        f", {state[counter]:,} {what}" for counter, what in _ODD.items() if state.get(counter)
    )
    trouble = f", {state['trouble']}" if state.get("trouble") else ""
    return f"{name}: {heard}, {text}{odd}{trouble}"
