"""The claims around the pods of a ledger: each pod's holdings by them, and the pods to check again when one
changes.

Source: docs/devices.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from bus.clock import SECOND_US
from bus.events.devices import Allocation
from projections.devices import claims as claim_rows
from projections.devices import supply as supply_rows
from projections.devices.cards import Occupant
from projections.devices.claims import ClaimAllocation as Allocated
from projections.devices.claims import ClaimHistory, allocations
from projections.devices.held import NOTHING_GIVEN, Amounts, ClaimedCards
from projections.devices.holding import GRACE_S, OPEN, Span, Use, claims_of, held, meet, spans
from projections.devices.index import ClaimIndex
from projections.devices.sizes import Size, sized
from projections.engine.rows import Rows

#: Takes a claim; returns the time of its last observation, and of the first complete list after that without it.
Absent = Callable[[ClaimHistory], tuple[int, int | None]]
#: Takes a pod's uid; when it held, None where it is not known.
SpanOf = Callable[[str], Span | None]


class ClaimHoldings:
    """The holdings of pods by claims. ``index`` has the possible claims of each."""

    def __init__(self, rows: Rows, index: ClaimIndex, absent: Absent, span_of: SpanOf) -> None:
        self._rows = rows
        self.index = index
        self._absent = absent
        self._span_of = span_of

    def given(self, pod: Span) -> ClaimedCards:
        """A pod's holdings by its claims."""
        mine = self._claims(pod)
        if not mine and not pod.names:
            return NOTHING_GIVEN
        uses: dict[tuple[str, int, int], Use] = {}
        flags: set[str] = set()
        seen: set[str] = set()
        for claim in mine:
            found, more = self._use(claim, pod, uses)
            flags |= more
            if found:
                seen.add(claim.name)
            if not claim.is_generated:
                for uid in self.index.naming(claim.cluster, claim.namespace, claim.name) - {
                    pod.uid
                }:
                    self._share(claim, uid, pod, uses)
        if any(use.size.is_rest for use in uses.values()):
            self._add_rest(pod, uses)
        own = [use for use in uses.values() if any(span.uid == pod.uid for span, _, _ in use.pods)]
        if any(use.size.is_unseen for use in own):
            flags.add("device_unseen")
        allocated = {
            claim.name
            for claim in mine
            if any(isinstance(v, Allocation) for _, _, v in claim.history)
        }
        is_unseen = bool(pod.names - allocated)
        if is_unseen:
            flags.add("claim_unseen")
        timeline = _timeline(pod, held(list(uses.values())))
        return ClaimedCards(timeline, frozenset() if is_unseen else pod.claimed, frozenset(flags))

    def occupant(self, claim: ClaimHistory) -> Occupant:
        """A claim with its allocation, and all its pods."""
        given = self._given(claim)
        uses = [
            Use(claim, one, result, self._size(claim.cluster, one.begin_us, result), [])
            for one in given
            for result in one.allocation.results
        ]
        pods: list[Span] = []
        for uid in sorted(self.pods_of(claim)):
            pod = self._span_of(uid)
            if pod is None or (pod.start_s is None and not pod.unknown_s):
                continue
            if all(one.uid != claim.uid for one in self._claims(pod)):
                continue
            pods.append(pod)
            for one, from_s, to_s in spans(pod, given)[0]:
                for use in uses:
                    if use.given is one:
                        use.pods.append((pod, from_s, to_s))
        return Occupant(claim, uses, pods)

    def of_claim(self, claim: ClaimHistory) -> set[str]:
        """The pods to look at again when a claim changed."""
        mine = self.pods_of(claim)
        spans = [span for uid in sorted(mine) if (span := self._span_of(uid)) is not None]
        return mine | self._beside(claim, spans)

    def pods_of(self, claim: ClaimHistory) -> set[str]:
        """The pods naming a claim, and its owning pod."""
        found = set(self.index.naming(claim.cluster, claim.namespace, claim.name))
        if claim.is_generated and claim.owner:
            found.add(claim.owner.uid)
        return found

    def of_supply(self, row: supply_rows.Supply) -> set[str]:
        """The pods to look at again when a device, or a set of counters, was seen."""
        uids = self.given_of(row)
        return {pod for uid in uids if (claim := self._claim(uid)) for pod in self.of_claim(claim)}

    def given_of(self, row: supply_rows.Supply) -> set[str]:
        """The claims with a device, or with any of the pool of a set of counters."""
        device = row.name if row.kind == supply_rows.DEVICE else ""
        return self.index.given(row.cluster, row.driver, row.pool, device)

    def beside(self, pod: Span) -> set[str]:
        """The other pods with possible shares of a pod's holdings: those of its claims, at any time."""
        return {
            uid
            for claim in self._claims(pod)
            for uid in self.pods_of(claim) | self._beside(claim, [pod])
            if uid != pod.uid
        }

    def together(self, uids: Iterable[str], pods: Iterable[Span]) -> set[str]:
        """The pods with holdings at the same time as one of ``pods``: only they share with it."""
        spans = {uid: span for uid in uids if (span := self._span_of(uid)) is not None}
        return {uid for pod in pods for uid, span in spans.items() if meet(span, pod)}

    def _claims(self, pod: Span) -> list[ClaimHistory]:
        def named(name: str) -> Iterator[ClaimHistory]:
            return self._known(self.index.named(pod.cluster, pod.namespace, name))

        return claims_of(pod, named, self._known(self.index.own(pod.uid)))

    def _known(self, uids: Iterable[str]) -> Iterator[ClaimHistory]:
        for uid in sorted(uids):
            if (claim := self._claim(uid)) is not None:
                yield claim

    def _claim(self, uid: str) -> ClaimHistory | None:
        row: ClaimHistory | None = self._rows.get(claim_rows.projection, (uid,))
        return row

    def _use(
        self, claim: ClaimHistory, pod: Span, uses: dict[tuple[str, int, int], Use]
    ) -> tuple[bool, set[str]]:
        """Add the holdings of ``pod`` from a claim; returns whether there are any, and flags."""
        found, flags = spans(pod, self._given(claim))
        for given, from_s, to_s in found:
            for number, result in enumerate(given.allocation.results):
                key = (claim.uid, given.begin_us, number)
                if key not in uses:
                    size = self._size(claim.cluster, given.begin_us, result)
                    uses[key] = Use(claim, given, result, size, [])
                uses[key].pods.append((pod, from_s, to_s))
        return bool(found), flags

    def _given(self, claim: ClaimHistory) -> list[Allocated]:
        # Absence is read from lists; a released claim needs none.
        is_open = isinstance(claim.history[-1][2], Allocation)
        return allocations(claim, self._absent(claim) if is_open else None)

    def _share(
        self, claim: ClaimHistory, uid: str, pod: Span, uses: dict[tuple[str, int, int], Use]
    ) -> None:
        """Add the holdings of another pod from a claim beside ``pod``, if it is its claim."""
        span = self._span_of(uid)
        if (
            span is not None
            and meet(span, pod)
            and any(one.uid == claim.uid for one in self._claims(span))
        ):
            self._use(claim, span, uses)

    def _add_rest(self, pod: Span, uses: dict[tuple[str, int, int], Use]) -> None:
        """Add all other holdings of devices with a shared rest."""
        known = {use.claim.uid for use in uses.values()}
        for use in list(uses.values()):
            if use.size.is_rest:
                one = use.result
                uids = self.index.given(pod.cluster, one.driver, one.pool, one.device) - known
                known |= uids
                for claim in self._until(uids, pod.start_s or 0):
                    for other in self.pods_of(claim) - {pod.uid}:
                        self._share(claim, other, pod, uses)

    def _until(self, uids: Iterable[str], second: int) -> Iterator[ClaimHistory]:
        """The claims with a possible holding of the pod at a second, or later."""
        for uid in uids:
            self._rows.want(claim_rows.projection, (uid,))
        self._rows.fetch()
        for claim in self._known(uids):
            ends = [one.end_us for one in allocations(claim)[-1:]]
            if any(us is None or us // SECOND_US + GRACE_S > second for us in ends):
                yield claim

    def _beside(self, claim: ClaimHistory, pods: Iterable[Span]) -> set[str]:
        """Pods of other claims with a share of this claim's rest of a device while one of ``pods`` holds."""
        pods = [pod for pod in pods if pod.start_s is not None]
        if not pods:
            return set()
        since_s = min(pod.start_s or 0 for pod in pods)
        found: set[str] = set()
        for _, _, value in claim.history:
            for result in value.results if isinstance(value, Allocation) else ():
                row = self._supply(
                    claim.cluster, result.driver, result.pool, supply_rows.DEVICE, result.device
                )
                if row is None or not any(
                    v.device and v.device.is_shared for _, _, v in row.history
                ):
                    continue
                uids = self.index.given(claim.cluster, result.driver, result.pool, result.device)
                for other in self._until(uids - {claim.uid}, since_s):
                    found |= self.pods_of(other)
        return self.together(found, pods) if found else found

    def _size(self, cluster: str, us: int, result: Any) -> Size:
        def known(kind: str, name: str) -> supply_rows.SuppliedDevice | None:
            row = self._supply(cluster, result.driver, result.pool, kind, name)
            return row.at(us) if row else None

        return sized(result, known)

    def _supply(
        self, cluster: str, driver: str, pool: str, kind: str, name: str
    ) -> supply_rows.Supply | None:
        row: supply_rows.Supply | None = self._rows.get(
            supply_rows.projection, (cluster, driver, pool, kind, name)
        )
        return row


def _timeline(pod: Span, found: Iterable[Any]) -> list[tuple[int, Amounts]]:
    """The holdings of ``pod`` with their first seconds, from its start on."""
    mine = [one for one in found if one.uid == pod.uid]
    if not mine or pod.start_s is None:
        return []
    seconds = sorted(
        {pod.start_s, *(s for one in mine for s in (one.from_s, one.to_s) if s < OPEN)}
    )
    timeline: list[tuple[int, Amounts]] = []
    for second in seconds:
        now = [one for one in mine if one.from_s <= second < one.to_s]
        others: dict[str, int] = {}
        for one in now:
            if one.use.size.extended:
                others[one.use.size.extended] = others.get(one.use.size.extended, 0) + 1
        entries = tuple((one.use.size.model, one.gpu_milli, one.gpu_memory_mib) for one in now)
        timeline.append((second, (entries, tuple(sorted(others.items())))))
    return timeline
