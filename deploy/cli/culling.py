"""``bursar notebooks`` and ``bursar cull``: the state of notebooks, simulated culling, and taking a cull back."""

from __future__ import annotations

import getpass
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa
import typer

from bus.clock import SECOND_US, format_stamp
from deploy.cli import times
from deploy.cli.notes.position import footer, standing
from deploy.cli.options import Cluster, CommandContext, command
from deploy.cli.program.exits import Exit
from deploy.cli.reactors import Author
from deploy.cli.rendering.answers import answer, field
from deploy.cli.rendering.layout import Cell
from deploy.cli.rendering.output import say
from deploy.cli.rendering.tables import Column, Row
from deploy.cli.rendering.words import duration, moment, words
from deploy.errors import AbsentObjectError
from deploy.runtime.ledgers import reading
from projections.quota_trees.queries import Select
from reactors.culling.policy import parse_duration
from reactors.engine.reasons import explained

if TYPE_CHECKING:
    from reactors.culling.simulate import Simulation

_FIELDS = (
    "namespace", "pod", "uid", "state", "reason", "idle_s", "active_at", "active_source", "culls_at",
    "target", "target_kind", "evidence", "ignored", "mode", "blocked_by", "blocked_until", "blocked",
)  # fmt: skip
_SIMULATED = (
    "idle_s", "culls", "saved_hours", "false_culls", "within_s", "notebooks", "looks", "gaps",
    "unknown_hours", "rules",
)  # fmt: skip
#: Bursar's own rules, among those of other cullers.
OWN = "bursar"
#: Longest wait for the outcome of an undo.
UNDO_SECONDS = 30.0


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    command(app, "notebooks", question=True)(notebooks)
    command(app, "simulate", of_cluster=True)(simulate)
    command(app, "undo")(undo)


def notebooks(asked: CommandContext, cluster: Cluster = None) -> None:
    """Running notebooks: activity, idle time, next stop, evidence.

    STATE is the decision at the ledger's moment: keep, warn, cull, unknown (never stopped), or stopped. A line below the table
    names each delayed warning or stop, its cause, and its end.

    \b
    bursar notebooks
    bursar notebooks -o json
    """
    from deploy.queries.notebooks import notebooks as known

    with reading(asked.place) as connection:
        stands = standing(connection)
        name = cluster or asked.place.cluster
        found = known(selecting(connection), name, stands.moment_s(name) * SECOND_US)
    rows = [_row(found, one) for one in found.evaluations]
    mode = found.current.mode if found.current else "off"
    notes = [f"culling is {mode}" + (", and paused" if found.is_paused else "")]
    notes += [f"{r['namespace']}/{r['pod']}: {r['blocked']}" for r in rows if r["blocked"]]
    notes += footer(stands.sequence, stands.moment_s(name))
    answer(asked, rows, fields=_FIELDS, columns=_COLUMNS, notes=notes)


def _row(found: Any, one: Any) -> dict[str, Any]:
    verdict, pod, now_us = one.verdict, one.pod, found.now_us
    target = found.view.target(pod)
    is_stopped = pod.uid in found.view.stopped
    is_due = target is not None and verdict.decision != "unknown" and not is_stopped
    counts = verdict.reason not in ("exempt", "keep_until")
    blocked = found.blocked.get(pod.uid)
    return {
        "namespace": pod.namespace,
        "pod": pod.name,
        "uid": pod.uid,
        "state": "stopped" if is_stopped else verdict.decision,
        "reason": verdict.reason,
        "idle_s": max(now_us - verdict.last_activity_us, 0) // SECOND_US,
        "active_at": format_stamp(verdict.last_activity_us),
        "active_source": verdict.last_source,
        "culls_at": format_stamp(one.culls_us) if is_due and counts else None,
        "target": target.name if target else None,
        "target_kind": target.kind if target else None,
        "evidence": " ".join(f"{s.source}={s.outcome}" for s in one.samples),
        "ignored": " ".join(one.limits.ignored),
        "mode": found.current.mode if found.current else "off",
        "blocked_by": blocked.reason if blocked else None,
        "blocked_until": format_stamp(blocked.until_us) if blocked and blocked.until_us else None,
        "blocked": explained(blocked) if blocked else None,
    }


def _stops(row: Row) -> str | None:
    return f"{row['target_kind']}/{row['target']}" if row["target"] else None


_COLUMNS = (
    Column("NOTEBOOK", lambda row: f"{row['namespace']}/{row['pod']}"),
    Column("STATE", lambda row: Cell(f"{row['state']} ({row['reason']})", "words")),
    field("IDLE-FOR", "idle_s", show=duration),
    field("CULLS-AT", show=moment),
    Column("STOPS", _stops, drop=2),
    field("EVIDENCE", show=words, drop=1),
    field("ACTIVE-AT", show=moment, wide=True),
    field("BY", "active_source", wide=True),
    field("IGNORED", show=words, wide=True),
    field("UID", wide=True),
)


def simulate(
    asked: CommandContext,
    idle: Annotated[
        list[str],
        typer.Option("--idle", metavar="SPAN", help="Idle limit, 30m or 2h; again for more."),
    ],
    warning: Annotated[
        str, typer.Option("--warning", metavar="SPAN", help="From the warning to the stop.")
    ] = "15m",
    within: Annotated[
        str, typer.Option("--within", metavar="SPAN", help="Used again so soon = a false cull.")
    ] = "30m",
    begin: times.From = None,
    end: times.To = None,
    zone: times.Zone = "UTC",
    culls: Annotated[bool, typer.Option("--culls", help="Each cull, instead of sums.")] = False,
    like: Annotated[
        list[str],
        typer.Option(
            "--like",
            metavar="CULLER",
            help="Whose rules: bursar, kubeflow, opendatahub, jupyterhub or workspaces; again for more.",
        ),
    ] = [OWN],  # noqa: B006 - the program only reads it
    cluster: Cluster = None,
) -> None:
    """Stops by an idle limit on recorded evidence. Hours saved, and users who returned soon after.

    Bursar's own rules run in the lab, as in `bursar lab`, with likely hours; all other limits are those of the settings. --like
    applies the rules of another culler to the same evidence: Kubeflow's, its fork of Open Data Hub, jupyterhub-idle-culler, or
    Kubeflow Notebooks 2.0 (workspaces). Those send no warning and ignore gaps in the evidence.

    \b
    bursar cull simulate --idle 30m --idle 2h --from 2026-11-01
    bursar cull simulate --idle 1h --like bursar --like kubeflow
    bursar cull simulate --idle 1h --culls -o csv
    """
    spans = list(dict.fromkeys(seconds_of(text, "--idle") for text in idle))
    _check_cullers(like, spans)
    where, warning_s = times.zone_of(zone), seconds_of(warning, "--warning")
    with reading(asked.place) as connection:
        period = _period(begin, end, where, standing(connection).moment_s(cluster))
        name = cluster or asked.place.cluster
        found = _simulated(asked, connection, name, like, spans, warning_s, *period)
    within_s = seconds_of(within, "--within")
    runs = [(rules, span_s) for span_s in spans for rules in dict.fromkeys(like)]
    if culls:
        rows = [
            row | {"rules": rules}
            for rules, span_s in runs
            for row in _culls(found[rules, span_s], span_s)
        ]
        answer(asked, rows, fields=_CULLS, columns=_CULL_COLUMNS)
        return
    rows = [
        _sums(found[rules, span_s], span_s, within_s) | {"rules": rules} for rules, span_s in runs
    ]
    answer(asked, rows, fields=_SIMULATED, columns=_SUM_COLUMNS)


def _simulated(
    asked: CommandContext, connection: sa.Connection, cluster: str, like: list[str], spans: list[int], warning_s: int,
    since_us: int | None, until_us: int,
) -> dict[tuple[str, int], Simulation]:  # fmt: skip
    """Each culler's rules by each idle limit."""
    from deploy.queries.lab_simulated import simulated
    from deploy.queries.notebooks import samples
    from reactors.culling.alike import simulate_like
    from reactors.culling.policy import NotebookSubject, limits_of
    from reactors.culling.reactor import reactor
    from reactors.culling.settings import CullingSettings

    section = asked.settings.section(reactor)
    assert isinstance(section, CullingSettings)
    limits = limits_of(section.policy, NotebookSubject(""))
    looked = samples(selecting(connection), cluster, since_us, until_us)
    found: dict[tuple[str, int], Simulation] = {}
    if set(like) == {OWN}:
        uids = Counter(fact.uid for _, fact in looked)
    else:
        seen = sorted(((event.time_us, fact) for event, fact in looked), key=lambda one: one[0])
        uids = Counter(fact.uid for _, fact in seen)
        for rules in {*like} - {OWN}:
            for span_s in spans:
                found[rules, span_s] = simulate_like(seen, rules, span_s, limits)
    if OWN in like:
        counted = len(uids), uids.total()
        own = simulated(
            connection, cluster, section.policy, spans, warning_s, since_us, until_us, counted
        )
        found |= {(OWN, span_s): one for span_s, one in zip(spans, own, strict=True)}
    return found


_SUM_COLUMNS = (
    field("RULES"),
    field("IDLE", "idle_s", show=duration),
    field("CULLS"),
    field("SAVED HOURS"),
    field("FALSE CULLS"),
    field("NOTEBOOKS", drop=1),
    field("GAPS", drop=3),
    field("UNKNOWN HOURS"),
    field("WITHIN", "within_s", show=duration, drop=2),
    field("LOOKS", wide=True),
)
_CULL_COLUMNS = (
    field("RULES"),
    field("IDLE", "idle_s", show=duration),
    field("AT", show=moment),
    field("UID"),
    field("REASON"),
    field("IDLE SINCE", show=moment, drop=1),
    field("SAVED", "saved_s", show=duration),
    field("AGAIN AT", show=moment),
)
_CULLS = ("idle_s", "uid", "at", "reason", "idle_since", "saved_s", "again_at", "rules")


def _culls(found: Any, idle_s: int) -> list[dict[str, Any]]:
    return [
        {
            "idle_s": idle_s,
            "uid": one.uid,
            "at": format_stamp(one.at_us),
            "reason": one.reason,
            "idle_since": format_stamp(one.idle_since_us),
            "saved_s": one.saved_us // SECOND_US,
            "again_at": None if one.again_us is None else format_stamp(one.again_us),
        }
        for one in found.culls
    ]


def _sums(found: Any, idle_s: int, within_s: int) -> dict[str, Any]:
    hour_us = 3600 * SECOND_US
    return {
        "idle_s": idle_s,
        "culls": len(found.culls),
        "saved_hours": round(found.saved_us / hour_us, 2),
        "false_culls": found.touched_within(within_s),
        "within_s": within_s,
        "notebooks": found.notebooks,
        "looks": found.looks,
        "gaps": found.gaps,
        "unknown_hours": None if found.unknown_us is None else round(found.unknown_us / hour_us, 2),
    }


def _check_cullers(names: list[str], spans: Iterable[int]) -> None:
    from reactors.culling.alike import CULLERS, IN_MINUTES

    for name in names:
        if name != OWN and name not in CULLERS:
            known = ", ".join((OWN, *CULLERS))
            raise typer.BadParameter(f"{name[:64]!r} is none of {known}", param_hint="--like")
        if name in IN_MINUTES and any(span_s % 60 or not span_s for span_s in spans):
            raise typer.BadParameter(f"{name} counts whole minutes", param_hint="--idle")


def _period(
    begin: str | None, end: str | None, zone: ZoneInfo, moment_s: int
) -> tuple[int | None, int]:
    from_s = times.second_of(begin, zone, "--from", moment_s)
    until_s = times.second_of(end, zone, "--to", moment_s)
    until_s = moment_s + 1 if until_s is None else until_s
    if from_s is not None and from_s >= until_s:
        raise typer.BadParameter("the period ends before it begins", param_hint="--to")
    return None if from_s is None else from_s * SECOND_US, until_s * SECOND_US


def seconds_of(text: str, option: str) -> int:
    """A span in seconds. Raises typer.BadParameter."""
    found = parse_duration(text)
    if found is None:
        raise typer.BadParameter(f"{text[:64]!r} is no span: 30m, 2h, 1d12h", param_hint=option)
    return found


def undo(
    asked: CommandContext,
    decision: Annotated[str, typer.Argument(metavar="DECISION", help="The cull's id.")],
    author: Author = None,
    cluster: Cluster = None,
) -> None:
    """Start a culled notebook again. An evicted pod is not created again.

    `bursar up` does it at its next tick, in each mode of culling, also while reactors are paused.

    \b
    bursar cull undo 3f2a1d0c9b11e47f6a5c0b6c7d3e7f21
    """
    from deploy.commands.orders import undo as order
    from deploy.queries.notebooks import cull as known
    from deploy.runtime.bootstrap import run

    with reading(asked.place) as connection:
        found = known(selecting(connection), cluster or asked.place.cluster, decision)
    if found is None:
        raise AbsentObjectError(
            f"there is no cull {decision[:64]!r}: bursar why NAMESPACE/NAME tells its id"
        )
    target = found.target
    by = asked.settings.labels.author(author or getpass.getuser())
    settled = run(order(asked.settings, decision, author=by, seconds=UNDO_SECONDS))
    what = f"{target.kind} {target.namespace}/{target.name}"
    if settled is None:
        say(
            f"{what}: asked for; nobody has done it yet (does `bursar up` run, and follow this cluster?)"
        )
        raise typer.Exit(Exit.FAILED)
    if settled.result != "done":
        say(f"{what}: not given back, {settled.result}: {settled.message}")
        raise typer.Exit(Exit.FAILED)
    say(f"{what}: given back")


def selecting(connection: sa.Connection) -> Select:
    """Reads rows of the ledger."""
    return lambda query: [tuple(row) for row in connection.execute(query)]
