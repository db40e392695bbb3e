"""Pod runs in a ledger: selects the runs to derive again when a fact or a row changes.

The run of a pod is computed from the pod, its namespace, its nodes, its owners, the quotas around it, the complete
lists and the heartbeats of the source of pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from bus.envelope import Event
from bus.events.admissions import AdmissionDecided
from bus.events.observations import ObjectsListed, SourceHeard
from bus.events.pods import PodObserved, PodsListed, PodState, PodVanished
from bus.events.vocabulary import Fact
from bus.events.workloads import WorkloadObserved, WorkloadVanished
from projections import namespaces, nodes, quotas, timelines, workloads
from projections.devices import claims, supply
from projections.devices.claimed import ClaimedPods
from projections.devices.held import Cards
from projections.devices.shape import (
    card_segments,
    claim_cards,
    claim_devices,
    claim_lists,
    pod_claims,
)
from projections.engine.changes import Changes, Columns
from projections.engine.contract import Key
from projections.engine.model import Derivation, Restate
from projections.engine.rows import Rows
from projections.evidence import PODS
from projections.lists.parts import PodListPart, everything, part_of
from projections.lists.recent import RecentLists
from projections.lists.rows import claim_departures, pod_beats, pod_departures, pod_lists
from projections.pod_runs import queries
from projections.pod_runs.below import Below
from projections.pod_runs.derive import derive
from projections.pod_runs.fold import fold, is_same_run
from projections.pod_runs.memory import PodMemory
from projections.pod_runs.observed_ends import ObservedEnds
from projections.pod_runs.serving import Serving
from projections.pod_runs.shape import (
    PodHistory,
    PodRun,
    codec,
    held_segments,
    pod_runs,
    segment_columns,
)
from projections.pod_runs.surroundings import Surroundings
from projections.quota_trees import own

#: Ended pods in memory: a repeated or late event needs no database.
ENDED_KEPT = 20_000

#: Parts of complete lists in memory.
PARTS_KEPT = 64


class PodRuns:
    """The pods of a folder and their runs: see :class:`projections.engine.model.Derived`."""

    def __init__(
        self,
        rows: Rows,
        restate: Restate,
        *,
        ended_kept: int = ENDED_KEPT,
        parts_kept: int = PARTS_KEPT,
    ) -> None:
        self._rows = rows
        self._restate = restate
        self._pods = PodMemory(rows.reader, ended_kept)
        self._lists = RecentLists(rows.reader.select, parts_kept)
        self._below = Below(rows.reader)
        self._serving = Serving()
        self._around = Surroundings(rows)
        of_claims = RecentLists(rows.reader.select, parts_kept, claim_lists, None, claim_departures)
        self._claimed = ClaimedPods(rows, self._pods, self._around, of_claims)
        self._resegmented: set[str] = set()
        self._observed = ObservedEnds(rows.reader.select, self._pods)

    def open(self) -> None:
        """Load the live rows."""
        self._pods.open()
        self._lists.open()
        self._observed.open()
        self._serving.open(self._rows.reader.select)
        self._claimed.open()

    def begin(self, facts: Sequence[tuple[Event, Fact]]) -> None:
        """Read the observed pods, and all rows around them."""
        uids: dict[str, None] = {}
        # Many pods of a batch are in one namespace, on one node, below one owner: each is asked for once.
        around: dict[tuple[str, str], None] = {}
        under: dict[tuple[str, str], None] = {}
        above: dict[tuple[str], None] = {}
        controllers: list[str] = []
        for event, fact in facts:
            if isinstance(fact, PodState):
                uids[fact.uid] = None
                around[(event.cluster, fact.namespace)] = None
                if fact.node is not None:
                    under[(event.cluster, fact.node)] = None
                if fact.owner is not None:
                    self._rows.want(own.projection, (fact.uid,))
                    above[(fact.owner.uid,)] = None
            elif isinstance(fact, (WorkloadObserved, WorkloadVanished)):
                controllers.append(fact.uid)
            elif isinstance(fact, AdmissionDecided):
                controllers += [one.uid for one in own.parts(fact)]
        self._below.expect(controllers)
        for projection, keys in (
            (namespaces.projection, around), (nodes.projection, under),
            (workloads.projection, above), (own.projection, above),
        ):  # fmt: skip
            for key in keys:
                self._rows.want(projection, key)
        self._claimed.begin(facts)
        self._pods.load(uids)

    def apply(self, event: Event, fact: Fact) -> None:
        """Take an observation of a pod, a complete list, or a beat of the source of pods."""
        if isinstance(fact, PodState):
            self._pod(event, fact)
        elif isinstance(fact, PodsListed):
            self._list(event, fact)
        elif isinstance(fact, ObjectsListed) and fact.kind == claims.KIND:
            self._derive_again(self._claimed.listed(part_of(event, fact)), event.sequence)
        elif isinstance(fact, SourceHeard) and fact.resource == PODS:
            self._beat(event.cluster, event.time_us, event.sequence)

    def check(self, row: Any) -> None:
        """Any row can be followed."""

    def follow(self, before: Any, after: Any, sequence: int) -> None:
        """Derive again every pod affected by a changed row."""
        if isinstance(after, namespaces.NamespaceHistory):
            since = timelines.first_difference(before.owners() if before else [], after.owners())
            if since is not None:
                self._claimed.namespace_changed((after.cluster, after.name), since)
            self._follow_namespace((after.cluster, after.name), since, sequence)
        elif isinstance(after, nodes.NodeHistory):
            of_model = timelines.first_difference(before.models() if before else [], after.models())
            of_cards = timelines.first_difference(
                before.sharing() if before else [], after.sharing()
            )
            seconds = [one for one in (of_model, of_cards) if one is not None]
            if seconds:
                key, since = (after.cluster, after.name), min(seconds)
                self._claimed.node_changed(key, since)
                found = self._pods.on_node(key, since)
                self._derive_again(found, sequence)
        elif isinstance(after, workloads.WorkloadHistory):
            self._below.changed(before, after)
            if not workloads.is_same_word(before, after):
                self._follow_owner(after.uid, sequence)
        elif isinstance(after, quotas.QuotaHistory):
            self._follow_quota(after, sequence)
        elif isinstance(after, (claims.ClaimHistory, supply.Supply)):
            self._derive_again(self._claimed.follow(before, after, sequence), sequence)
        elif isinstance(after, own.OwnCharge):
            self._derive_again((after.uid,), sequence)
            self._follow_owner(after.uid, sequence)

    def changes(self) -> Changes:
        """The pods changed in the batch, their changed segments, and the additions of lists."""
        touched, self._pods.touched = self._pods.touched, {}
        self._below.settle()
        resegmented, self._resegmented = sorted(self._resegmented), set()
        segments = [c for uid in resegmented for c in segment_columns(touched[uid])]
        upserts: dict[sa.Table, list[Columns]] = {
            pod_runs: [codec.columns(row) for row in touched.values()],
            held_segments: segments,
        }
        listed, given = self._lists.changes(), self._claimed.changes()
        upserts |= listed.upserts | given.upserts
        return Changes(
            [(held_segments, "uid", resegmented), *listed.deletes, *given.deletes],
            {table: rows for table, rows in upserts.items() if rows},
        )

    def settle(self) -> None:
        """Drop rows not needed in memory."""
        self._pods.settle()
        self._lists.settle()
        self._claimed.settle()
        self._around.settle()

    # facts

    def _pod(self, event: Event, fact: PodState) -> None:
        known = self._pods.get(fact.uid)
        before = known.pod if known else None
        pod = fold(before, fact, event)
        if pod is before:
            return
        self._claimed.named(before, pod, event.sequence)
        if known is not None and known.run.is_settled and is_same_run(before, pod):
            self._pods.put(PodRun(pod, known.run, event.sequence, known.run_sequence))
        else:
            self._derive(known, pod, event.sequence)

    def _list(self, event: Event, fact: PodsListed) -> None:
        part = part_of(event, fact)
        is_late = self._lists.add(part)
        if is_late is None:
            return
        missing = {uid for uid in self._pods.live[event.cluster] if part.covers(uid)} - part.uids
        vanished = {uid for uid in self._vanished(part) if is_late or uid in part.uids}
        proven = self._observed.after(part, part.uids | self._lists.replaced)
        self._derive_again(missing | vanished | proven, event.sequence)

    def _beat(self, cluster: str, time_us: int, sequence: int) -> None:
        is_late = self._lists.add_beat(cluster, time_us, sequence)
        if is_late is None:
            return
        again = self._observed.between(cluster, time_us, self._lists.next_beat(cluster, time_us))
        if is_late:
            again |= self._vanished(everything(cluster, time_us))
        self._derive_again(again, sequence)

    def _vanished(self, part: PodListPart) -> set[str]:
        """Pods that ``part`` covers whose end is known only from a list, brought into memory."""
        stored = queries.vanished(self._rows.reader.select, part)
        self._pods.load(stored)
        touched = [uid for uid in self._pods.touched if part.covers(uid)]
        return {
            uid
            for uid in (*stored, *touched)
            if (row := self._pods.get(uid)) is not None
            and row.run.vanished
            and row.pod.cluster == part.cluster
        }

    # rows

    def _follow_namespace(self, key: Key, since: int | None, sequence: int) -> None:
        if since is not None:
            self._derive_again(self._pods.of_namespace(key, since), sequence)

    def _follow_quota(self, quota: quotas.QuotaHistory, sequence: int) -> None:
        """Derive again the pods of a quota with a changed rule, or of one below it, or served by an elastic one."""
        for namespace, second in self._serving.declare_elastic(quota).items():
            self._follow_namespace((quota.cluster, namespace), second, sequence)
        since = self._serving.declare(quota)
        if since is None:
            return
        uids = {*self._pods.live[quota.cluster], *self._pods.touched}
        uids |= self._pods.stored(queries.of_quotas(quota.cluster, since))
        pods = [row.pod for uid in uids if (row := self._pods.get(uid)) is not None]
        named = self._serving.concerned(quota, pods, self._around.above, self._around.owners)
        self._derive_again(named, sequence)

    def _follow_owner(self, uid: str, sequence: int) -> None:
        """Derive again the pods below a workload: by stored rows, and changes of this batch."""
        reached = {uid}
        frontier = {uid}
        for _ in range(workloads.DEPTH):
            frontier = self._below.workloads(frontier) - reached
            if not frontier:
                break
            reached |= frontier
        self._derive_again(self._pods.of_owners(reached, self._below.pods(reached)), sequence)

    # runs

    def _derive_again(self, uids: Iterable[str], sequence: int) -> None:
        for uid in sorted(uids):
            row = self._pods.get(uid)
            if row is not None:
                self._derive(row, row.pod, sequence)

    def _derive(self, known: PodRun | None, pod: PodHistory, sequence: int) -> None:
        """Derive the run of a pod. After another start or end, the pods sharing its claims hold another part."""
        derived = self._derive_one(known, pod, sequence)
        for uid in sorted(self._claimed.beside(known, derived)):
            row = self._pods.get(uid)
            if row is not None:
                self._derive_one(row, row.pod, sequence)

    def _derive_one(self, known: PodRun | None, pod: PodHistory, sequence: int) -> PodRun:
        run = derive(
            pod,
            self._around.owners((pod.cluster, pod.namespace)),
            lambda node: self._around.models((pod.cluster, node)),
            self._around.above(pod),
            self._lists,
            self._serving.around(pod.cluster, pod.namespace),
            Cards(self._claimed.given, lambda node: self._around.sharing((pod.cluster, node))),
        )
        self._observed.put(pod.cluster, run.observed_us)
        if known is not None and known.run == run:
            if pod is not known.pod:
                known = PodRun(pod, run, sequence, known.run_sequence)
                self._pods.put(known)
            return known
        is_resegmented = known is None or (
            known.run.segments != run.segments or known.run.workload != run.workload
        )
        row = PodRun(
            pod, run, sequence, sequence if is_resegmented or known is None else known.run_sequence
        )
        if is_resegmented:
            self._resegmented.add(pod.uid)
        self._restate(known, row, sequence)
        self._pods.put(row)
        self._claimed.moved(pod)
        return row


derivation = Derivation(
    name="pod_runs",
    version=16,
    tables=(
        pod_runs,
        held_segments,
        pod_lists,
        pod_departures,
        pod_beats,
        pod_claims,
        claim_devices,
        claim_lists,
        claim_departures,
        claim_cards,
        card_segments,
    ),
    facts=(PodObserved, PodVanished, PodsListed, SourceHeard, ObjectsListed),
    follows=(
        namespaces.projection,
        nodes.projection,
        workloads.projection,
        quotas.projection,
        own.projection,
        claims.projection,
        supply.projection,
    ),
    begin=PodRuns,
)
