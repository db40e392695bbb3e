"""All folds of the ledger over one batch of events: rows in memory, changes out.

The books hold the rows that are in use (what is live, what a batch touches, the most recent of what ended) and ask a
:class:`~projections.changes.Shelf` for the rest. They know no transaction: the runner stores what :meth:`Books.fold`
returns, reactors keep books of their own over the same folds, a replay fills empty ones.

One event at a time is folded, and what follows is derived at once: rows do not depend on where batches end.

Source: ``house.md`` sections 1, 4 and 5.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from bus.envelope import Event
from bus.errors import BursarError
from bus.events.admissions import entries
from bus.events.observations import SourceHeard
from bus.events.pods import PodsListed, PodState
from bus.events.vocabulary import Fact
from projections import histories, namespaces, nodes, pod_runs, quotas, usage, workloads
from projections.budgets import current
from projections.budgets.current import CurrentBudgets
from projections.catalogue import PROJECTIONS, SUMS
from projections.changes import Changes, Parked, Shelf, drop, refused
from projections.engine.contract import Key, Projection
from projections.engine.reading import fact_in
from projections.evidence import MOVING, PODS
from projections.pod_runs import Pod, PodRun, lists, queries
from projections.pod_runs.recent import RecentLists
from projections.serving import Serving

#: Ended pods that stay in memory, so that a repeated or late event asks no database.
ENDED_KEPT = 20_000

#: Parts of complete lists that stay in memory.
PARTS_KEPT = 64

#: Rows of each other projection that stay in memory; the cache is emptied when it is full.
ROWS_KEPT = 50_000


class Books:
    """Rows of every projection, folded event by event. Not thread-safe."""

    def __init__(
        self, shelf: Shelf, *, ended_kept: int = ENDED_KEPT, parts_kept: int = PARTS_KEPT
    ) -> None:
        self._shelf = shelf
        self._ended_kept = ended_kept
        self._projections: dict[type[Fact], list[Projection]] = defaultdict(list)
        for projection in PROJECTIONS:
            for fact in projection.facts:
                self._projections[fact].append(projection)
        self._rows: dict[str, dict[Key, Any]] = {p.name: {} for p in PROJECTIONS}
        self._pods: dict[str, PodRun | None] = {}
        self._live: dict[str, set[str]] = defaultdict(set)
        self._by_namespace: dict[Key, set[str]] = defaultdict(set)
        self._by_node: dict[Key, set[str]] = defaultdict(set)
        self._by_owner: dict[str, set[str]] = defaultdict(set)
        self._lists = RecentLists(shelf.select, parts_kept)
        self._budgets = CurrentBudgets()
        self._serving = Serving()
        self._read: dict[tuple[type, str, str], tuple[Any, list[Any]]] = {}
        self._touched: dict[str, PodRun] = {}
        self._touched_rows: dict[tuple[str, Key], Any] = {}
        self._resegmented: set[str] = set()
        self._restatements: list[usage.Restatement] = []

    def open(self) -> None:
        """Take in what is live. Call once before the first batch."""
        for row in queries.live(self._shelf.select):
            self._keep(row)
        self._lists.open()
        self._budgets.open(self._shelf.select)
        self._serving.open(self._shelf.select)

    def fold(self, events: Sequence[Event]) -> Changes:
        """Fold a batch. A poison event is parked and changes no row; the rest goes on."""
        self._touched, self._touched_rows = {}, {}
        self._resegmented = set()
        self._budgets.touched = {}
        self._restatements = [usage.Restatement(table, shares) for table, shares in SUMS]
        parked: list[Parked] = []
        facts: list[tuple[Event, Fact | None]] = []
        for event in events:
            try:
                facts += [(one, fact_in(one)) for one in entries(event)]
            except BursarError as error:
                facts.append((event, None))
                parked.append(refused(event, error))
        self._fetch([(event, fact) for event, fact in facts if fact is not None])
        for event, fact in facts:
            try:
                if isinstance(fact, MOVING):
                    self._budgets.observe(event)
                if fact is not None:
                    self._one(event, fact)
            except (BursarError, ArithmeticError, ValueError, TypeError, LookupError) as error:
                parked.append(refused(event, error))
        return self._changes(parked)

    def settle(self) -> None:
        """Let go of ended pods beyond :data:`ENDED_KEPT` and of full caches. Call when the last changes are stored."""
        for rows in self._rows.values():
            if len(rows) > ROWS_KEPT:
                rows.clear()
                self._read.clear()
        excess = len(self._pods) - ENDED_KEPT - sum(map(len, self._live.values()))
        if excess <= ENDED_KEPT // 4:
            return
        ended = [uid for uid, row in self._pods.items() if row is None or row.run.end_s is not None]
        for uid in ended[:excess]:
            self._forget(uid)

    # one event

    def _one(self, event: Event, fact: Fact) -> None:
        if isinstance(fact, PodState):
            self._pod(event, fact)
        elif isinstance(fact, PodsListed):
            self._list(event, fact)
        elif isinstance(fact, SourceHeard) and fact.resource == PODS:
            if late := self._lists.add_beat(event.cluster, event.time_us, event.sequence):
                self._derive_again(self._vanished(late), event.sequence)
        for projection in self._projections.get(type(fact), ()):
            for key, part in projection.touched(fact, event):
                before = self._rows[projection.name].get(key)
                after = projection.fold(before, part, event)
                if after is not before:
                    if isinstance(after, quotas.Quota):
                        self._budgets.declare(after, event.sequence)
                    self._rows[projection.name][key] = after
                    self._touched_rows[(projection.name, key)] = after
                    self._follow(before, after, event.sequence)

    def _pod(self, event: Event, fact: PodState) -> None:
        known = self._pods.get(fact.uid)
        before = known.pod if known else None
        pod = pod_runs.fold(before, fact, event)
        if pod is before:
            return
        if known is not None and not known.run.vanished and pod_runs.is_same_run(before, pod):
            self._put(PodRun(pod, known.run, event.sequence, known.run_sequence))
        else:
            self._derive(known, pod, event.sequence)

    def _list(self, event: Event, fact: PodsListed) -> None:
        part = lists.Part(
            event.cluster, event.time_us, fact.first, fact.until, fact.resource_version,
            event.sequence, frozenset(fact.uids),
        )  # fmt: skip
        is_late = self._lists.add(part)
        if is_late is None:
            return
        missing = {uid for uid in self._live[event.cluster] if part.covers(uid)} - part.uids
        vanished = {uid for uid in self._vanished(part) if is_late or uid in part.uids}
        for uid in sorted(missing | vanished):
            row = self._pods[uid]
            if row is not None:
                self._derive(row, row.pod, event.sequence)

    def _vanished(self, part: lists.Part) -> set[str]:
        """Pods that ``part`` covers whose end is known only from a list, brought into memory."""
        stored = queries.vanished(self._shelf.select, part)
        self._load_pods([uid for uid in stored if uid not in self._pods])
        touched = [uid for uid in self._touched if part.covers(uid)]
        return {
            uid
            for uid in (*stored, *touched)
            if (row := self._pods.get(uid)) is not None
            and row.run.vanished
            and row.pod.cluster == part.cluster
        }

    # what follows

    def _follow(self, before: Any, after: Any, sequence: int) -> None:
        """Derive again every pod whose run a changed row may touch."""
        if isinstance(after, namespaces.Namespace):
            since = histories.first_difference(before.owners() if before else [], after.owners())
            self._follow_namespace((after.cluster, after.name), since, sequence)
        elif isinstance(after, nodes.Node):
            since = histories.first_difference(before.models() if before else [], after.models())
            key = (after.cluster, after.name)
            if since is not None:
                uids = self._stored(queries.on_node(key, since))
                self._derive_again(uids | self._by_node.get(key, set()), sequence)
        elif isinstance(after, workloads.Workload):
            if not workloads.is_same_word(before, after):
                self._follow_owner(after.uid, sequence)
        elif isinstance(after, quotas.Quota):
            self._follow_quota(after, sequence)

    def _follow_namespace(self, key: Key, since: int | None, sequence: int) -> None:
        if since is not None:
            uids = self._stored(queries.of_namespace(key, since))
            self._derive_again(uids | self._by_namespace.get(key, set()), sequence)

    def _follow_quota(self, quota: quotas.Quota, sequence: int) -> None:
        """Derive again the pods that name a quota whose rule changed, or one below it, or that an elastic one serves."""
        for namespace, second in self._serving.declare_elastic(quota).items():
            self._follow_namespace((quota.cluster, namespace), second, sequence)
        since = self._serving.declare(quota)
        if since is None:
            return
        uids = {*self._live[quota.cluster], *self._touched}
        uids |= self._stored(queries.of_quotas(quota.cluster, since))
        pods = [row.pod for uid in uids if (row := self._pods.get(uid)) is not None]
        named = self._serving.concerned(quota, pods, self._above, self._owners)
        self._derive_again(named, sequence)

    def _follow_owner(self, uid: str, sequence: int) -> None:
        reached = {uid}
        frontier = {uid}
        for _ in range(workloads.DEPTH):
            below = {row[0] for row in self._shelf.select(queries.workloads_below(frontier))}
            below |= {
                key[0]
                for (name, key), row in self._touched_rows.items()
                if name == workloads.projection.name
                and row.owner is not None
                and row.owner.uid in frontier
            }
            frontier = below - reached
            if not frontier:
                break
            reached |= frontier
        affected = {pod for owner in reached for pod in self._by_owner.get(owner, ())}
        self._derive_again({*affected, *self._stored(queries.of_owners(reached))}, sequence)

    def _derive_again(self, uids: Iterable[str], sequence: int) -> None:
        for uid in sorted(uids):
            row = self._pods.get(uid)
            if row is not None:
                self._derive(row, row.pod, sequence)

    def _stored(self, query: sa.Select[Any]) -> set[str]:
        uids = {row[0] for row in self._shelf.select(query)}
        self._load_pods([uid for uid in uids if uid not in self._pods])
        return uids

    def _derive(self, known: PodRun | None, pod: Pod, sequence: int) -> None:
        run = pod_runs.derive(
            pod,
            self._owners((pod.cluster, pod.namespace)),
            lambda node: self._models((pod.cluster, node)),
            self._above(pod),
            self._lists.absence,
            self._serving.around(pod.cluster, pod.namespace),
        )
        if known is not None and known.run == run:
            if pod is not known.pod:
                self._put(PodRun(pod, run, sequence, known.run_sequence))
            return
        is_resegmented = known is None or (
            known.run.segments != run.segments or known.run.workload != run.workload
        )
        row = PodRun(
            pod, run, sequence, sequence if is_resegmented or known is None else known.run_sequence
        )
        if is_resegmented:
            self._resegmented.add(pod.uid)
            for restatement in self._restatements:
                restatement.restate(known, row)
        self._put(row)

    def _workload(self, uid: str) -> workloads.Workload | None:
        row: workloads.Workload | None = self._row(workloads.projection, (uid,))
        return row

    def _above(self, pod: Pod) -> pod_runs.Above:
        top = workloads.top(pod.owner, self._workload)
        row = self._workload(top.uid) if top else None
        if row is None:
            return pod_runs.Above(top)
        return pod_runs.Above(top, row.quotas(), row.deadline_s)

    def _owners(self, key: Key) -> list[tuple[int, namespaces.Owners]]:
        row = self._row(namespaces.projection, key)
        return self._changes_of(row, row.owners) if row else []

    def _models(self, key: Key) -> list[tuple[int, str | None]]:
        row = self._row(nodes.projection, key)
        return self._changes_of(row, row.models) if row else []

    def _changes_of(self, row: Any, read: Callable[[], list[tuple[int, Any]]]) -> list[Any]:
        """``read()``, once for each row: every pod of a namespace or node asks it again."""
        name = (type(row), row.cluster, row.name)
        known = self._read.get(name)
        if known is None or known[0] is not row:
            known = self._read[name] = (row, read())
        return known[1]

    def _row(self, projection: Projection, key: Key) -> Any:
        rows = self._rows[projection.name]
        if key not in rows:
            self._load(projection, [key])
        return rows[key]

    # rows in memory

    def _put(self, row: PodRun) -> None:
        uid = row.pod.uid
        row_before = self._pods.get(uid)
        self._touched[uid] = row
        self._keep(row, row_before)

    def _keep(self, row: PodRun, before: PodRun | None = None) -> None:
        pod = row.pod
        self._pods[pod.uid] = row
        live = self._live[pod.cluster]
        if row.run.end_s is None:
            live.add(pod.uid)
        else:
            live.discard(pod.uid)
        if before is None or before.run is not row.run or before.pod.owner != pod.owner:
            self._by_namespace[(pod.cluster, pod.namespace)].add(pod.uid)
            if pod.owner is not None:
                self._by_owner[pod.owner.uid].add(pod.uid)
            for segment in row.run.segments:
                self._by_node[(pod.cluster, segment.node)].add(pod.uid)

    def _forget(self, uid: str) -> None:
        row = self._pods.pop(uid)
        if row is None:
            return
        pod = row.pod
        drop(self._by_namespace, (pod.cluster, pod.namespace), uid)
        if pod.owner is not None:
            drop(self._by_owner, pod.owner.uid, uid)
        for segment in row.run.segments:
            drop(self._by_node, (pod.cluster, segment.node), uid)

    def _fetch(self, facts: list[tuple[Event, Fact]]) -> None:
        uids: dict[str, None] = {}
        wanted: dict[str, dict[Key, None]] = defaultdict(dict)
        for event, fact in facts:
            if isinstance(fact, PodState):
                if fact.uid not in self._pods:
                    uids[fact.uid] = None
                wanted["namespaces"][(event.cluster, fact.namespace)] = None
                if fact.node is not None:
                    wanted["nodes"][(event.cluster, fact.node)] = None
                if fact.owner is not None:
                    wanted["workloads"][(fact.owner.uid,)] = None
            for projection in self._projections.get(type(fact), ()):
                for key, _ in projection.touched(fact, event):
                    wanted[projection.name][key] = None
        self._load_pods(list(uids))
        for projection in PROJECTIONS:
            rows = self._rows[projection.name]
            self._load(projection, [k for k in wanted[projection.name] if k not in rows])

    def _load(self, projection: Projection, keys: list[Key]) -> None:
        if not keys:
            return
        rows = self._rows[projection.name]
        rows.update(dict.fromkeys(keys))
        for columns in self._shelf.rows(projection.table, keys):
            rows[columns[: len(keys[0])]] = projection.from_columns(columns)

    def _load_pods(self, uids: list[str]) -> None:
        if not uids:
            return
        self._pods.update(dict.fromkeys(uids))
        for row in queries.by_uid(self._shelf, uids):
            self._keep(row)

    def _changes(self, parked: list[Parked]) -> Changes:
        upserts: dict[sa.Table, list[tuple[Any, ...]]] = {}
        for projection in PROJECTIONS:
            touched = [
                row for (name, _), row in self._touched_rows.items() if name == projection.name
            ]
            if touched:
                upserts[projection.table] = [projection.to_columns(row) for row in touched]
        if self._touched:
            upserts[pod_runs.pod_runs] = [pod_runs.to_columns(r) for r in self._touched.values()]
        segments = [
            columns
            for uid in sorted(self._resegmented)
            for columns in pod_runs.segment_columns(self._touched[uid])
        ]
        if segments:
            upserts[pod_runs.held_segments] = segments
        upserts |= self._lists.rows()
        if budgets := self._budgets.rows():
            upserts[current.budgets] = budgets
        deletes = [
            (pod_runs.held_segments, "uid", sorted(self._resegmented)),
            (current.budgets, "uid", sorted(self._budgets.touched)),
        ]
        return Changes(deletes, upserts, self._restatements, parked)
