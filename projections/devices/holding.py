"""Holders of each part of each card, second by second: pods, or no pod while a claim is reserved.

A pure function of the pods around some claims, these claims and the slices of their devices.

Source: docs/devices.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import msgspec

from bus.clock import SECOND_US
from bus.events.devices import DeviceResult
from projections.devices.claims import ClaimAllocation, ClaimHistory
from projections.devices.sizes import Size

#: Clocks of the servers may differ by so many seconds.
GRACE_S = 1
#: A future end.
OPEN = 2**62


class Span(msgspec.Struct, frozen=True, gc=False):
    """A pod's time on a node, for claims: [``start_s``, ``end_s``), None while it is open; never bound: start None."""

    uid: str
    cluster: str
    namespace: str
    start_s: int | None
    end_s: int | None
    names: frozenset[str] = frozenset()
    #: Resources backed by a claim.
    claimed: frozenset[str] = frozenset()
    #: Seconds after its end with possible holdings.
    unknown_s: int = 0


def meet(one: Span, other: Span) -> bool:
    """Whether both held at some moment."""
    if one.start_s is None or other.start_s is None:
        return False
    ends = [OPEN if span.end_s is None else span.end_s for span in (one, other)]
    return one.start_s < ends[1] and other.start_s < ends[0]


class Use(msgspec.Struct, gc=False):
    """One result of an allocation, and its holding pods over time."""

    claim: ClaimHistory
    given: ClaimAllocation
    result: DeviceResult
    size: Size
    pods: list[tuple[Span, int, int]] = []

    @property
    def order(self) -> tuple[int, str, str, str]:
        """The order among pods with a share of the rest: the first hold, the claim, the request, the share."""
        first = min((start for _, start, _ in self.pods), default=OPEN)
        return (first, self.claim.uid, self.result.request, self.result.share_id)


class HeldResult(msgspec.Struct, frozen=True, gc=False):
    """A pod's part of one result over [``from_s``, ``to_s``)."""

    uid: str
    from_s: int
    to_s: int
    use: Use
    gpu_milli: int
    gpu_memory_mib: int


def claims_of(
    pod: Span, named: Callable[[str], Iterable[ClaimHistory]], own: Iterable[ClaimHistory]
) -> list[ClaimHistory]:
    """The claims of a pod: those made for it, and of each name in its spec the claim not made for another pod."""
    found = {
        claim.uid: claim
        for claim in own
        if claim.is_generated and claim.owner and claim.owner.uid == pod.uid
    }
    # A pod without an observed bind may have begun with its unknown time.
    start_s = pod.end_s if pod.start_s is None and pod.unknown_s else pod.start_s
    for name in sorted(pod.names):
        free = [one for one in named(name) if not one.is_generated]
        if free and start_s is not None:
            start_us = start_s * SECOND_US + SECOND_US - 1
            free.sort(key=lambda one: (one.created_us or 0, one.uid))
            before = [one for one in free if (one.created_us or 0) <= start_us]
            chosen = before[-1] if before else free[0]
            found[chosen.uid] = chosen
    return list(found.values())


def spans(
    pod: Span, given: Sequence[ClaimAllocation]
) -> tuple[list[tuple[ClaimAllocation, int, int]], set[str]]:
    """When the pod holds each allocation of a claim of its, and flags.

    From its start to its end, as an allocation precedes the bind and outlasts the end by unstamped moments; but
    from the allocation's begin, if the claim was observed without it before and it begins later; to its end if that
    is earlier. Clocks may differ by a second.
    """
    if pod.start_s is None:
        return [], set()
    flags: set[str] = set()
    found: list[tuple[ClaimAllocation, int, int]] = []
    end_s = OPEN if pod.end_s is None else pod.end_s
    for one in given:
        begin_s = one.begin_us // SECOND_US
        over_s = OPEN if one.end_us is None else one.end_us // SECOND_US
        if over_s <= pod.start_s:
            continue
        from_s, to_s, more = pod.start_s, end_s, set()
        if found or (one.after_another and begin_s > pod.start_s + GRACE_S):
            from_s = max(begin_s, pod.start_s)
            more.add("alloc_observed")
        if over_s < end_s - GRACE_S:
            to_s = over_s
            more.add("deallocated_early")
        if from_s < to_s:
            flags |= more
            found.append((one, from_s, to_s))
    return found, flags


def divided(amount: int, pods: Sequence[Span]) -> dict[str, int]:
    """``amount`` divided among its holders: as even as integers are, the rest one by one by start, then uid."""
    each, rest = divmod(amount, len(pods))
    order = sorted(pods, key=lambda pod: (pod.start_s or 0, pod.uid))
    return {pod.uid: each + (number < rest) for number, pod in enumerate(order)}


def held(uses: Sequence[Use]) -> list[HeldResult]:
    """Each pod's part of these results. All results on one device are there."""
    by_device: dict[tuple[str, str, str], list[Use]] = defaultdict(list)
    for use in uses:
        by_device[use.result.driver, use.result.pool, use.result.device].append(use)
    found: list[HeldResult] = []
    for together in by_device.values():
        seconds = sorted({s for use in together for _, a, b in use.pods for s in (a, b)})
        for from_s, to_s in pairwise(seconds):
            found += _held_at(together, from_s, to_s)
    return found


def _held_at(together: Sequence[Use], from_s: int, to_s: int) -> Iterable[HeldResult]:
    now = [(use, [pod for pod, a, b in use.pods if a <= from_s < b]) for use in together]
    now = [(use, pods) for use, pods in now if pods]
    rest = [use for use, _ in now if use.size.is_rest]
    shares: dict[int, int] = {}
    if rest:
        taken = sum(use.size.gpu_milli for use, _ in now if not use.size.is_rest)
        left = max(0, rest[0].size.gpu_milli - taken)
        each, more = divmod(left, len(rest))
        for number, use in enumerate(sorted(rest, key=lambda use: use.order)):
            shares[id(use)] = each + (number < more)
    for use, pods in now:
        milli = divided(shares.get(id(use), use.size.gpu_milli), pods)
        memory = divided(use.size.gpu_memory_mib, pods)
        for pod in pods:
            yield HeldResult(pod.uid, from_s, to_s, use, milli[pod.uid], memory[pod.uid])
