"""The record of pods on other nodes: its recorded events still valid, and synthetic events for the others.

An arriving pod waits, whatever its node on record. From its placement under trial its recorded events are left out, and the rule
gives its end. A pod may lose its node while it would still run: the node is deleted, or a more important pod takes its place. Its
controller then creates it again, and it waits anew. Pure but for its own state.

Source: docs/lab.md.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from bus.clock import format_stamp
from bus.envelope import Event
from bus.errors import TimestampError
from bus.events.constraints import PodConstraints
from bus.events.pods import PodObserved, PodsListed, PodState, PodVanished
from bus.events.vocabulary import Fact
from projections.cluster import covers
from projections.cluster.rows import ENDED
from reactors.lab.placements.lives import DAEMON_SET, PodLife, PodLives
from reactors.lab.synthetic import event_at

PlacementRule = Literal["likely", "as_long", "gave_up"]
#: The first rule is the likely one.
RULES: tuple[PlacementRule, ...] = ("likely", "as_long", "gave_up")
_decode = msgspec.json.Decoder(PodConstraints).decode


def differing(lives: PodLives) -> set[PlacementRule]:
    """The rules differing from the likely one for some pod on record."""
    ended = [life for life in lives.of.values() if life.ended_us]
    found: set[PlacementRule] = set()
    if any(life.node and not life.is_work for life in ended):
        found.add("as_long")
    if any(not life.node for life in ended):
        found.add("gave_up")
    return found


class Stay(msgspec.Struct):
    """A pod under trial, from the start of its wait. Times in microseconds UTC; 0 = not observed yet."""

    life: PodLife
    arrived_us: int
    node: str = ""
    bound_us: int = 0
    ended_us: int = 0
    #: Evicted for a more important pod.
    is_evicted: bool = False
    #: Created again by its controller after an eviction.
    is_again: bool = False


class PlacementWorld:
    """The pods under trial. ``lives``: the lives of all recorded pods. ``schedulers``: names of the profiles under trial."""

    def __init__(self, rule: PlacementRule, lives: PodLives, schedulers: tuple[str, ...]) -> None:
        self._rule, self._lives, self._schedulers = rule, lives, schedulers
        #: All waiting pods, in the order of their arrival.
        self.stays: list[Stay] = []
        self._here: dict[str, Stay] = {}
        #: The last observation of each waiting pod.
        self._waiting: dict[str, PodObserved] = {}
        #: The observation of each pod with a node under trial.
        self._placed: dict[str, PodObserved] = {}
        self._ends: list[tuple[int, str]] = []
        self._again = 0

    @property
    def next_end_us(self) -> int | None:
        """The next end of a pod under trial."""
        while self._ends and self._ends[0][1] not in self._placed:
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else None

    def seen(self, fact: Fact, event: Event) -> Iterator[Event]:
        """The events under trial in place of ``event`` on record."""
        if isinstance(fact, PodsListed):
            present = set(fact.uids)
            for uid in [one for one in self._waiting if covers(fact, one) and one not in present]:
                if self._is_over(uid, event.time_us):
                    yield from self._end(uid, event)
            yield self._listed(fact, event)
        elif not isinstance(fact, PodState) or fact.uid not in self._lives.of:
            yield event
        elif fact.uid not in self._here:
            if not isinstance(fact, PodVanished) and fact.phase not in ENDED:
                life = self._lives.of[fact.uid]
                self._come(life, fact.uid, min(event.time_us, life.arrived_us))
                yield self._wait(fact, event)
        elif fact.uid in self._waiting:
            life = self._lives.of[fact.uid]
            is_over = isinstance(fact, PodVanished) or fact.phase in ENDED
            if not is_over:
                yield self._wait(fact, event)
            elif self._gives_up(life):
                yield from self._end(fact.uid, event)

    def place(self, uid: str, node: str, event: Event) -> Iterator[Event]:
        """Give a node to a waiting pod."""
        fact, stay = self._waiting.pop(uid, None), self._here.get(uid)
        if fact is None or stay is None:
            return
        at_us = event.time_us
        stay.node, stay.bound_us = node, max(at_us, stay.arrived_us)
        until_us = self._until_us(stay.life, stay.bound_us)
        if until_us is not None:
            heapq.heappush(self._ends, (max(until_us, at_us), uid))
        bound = msgspec.structs.replace(
            fact, node=node, scheduled=_stamp(at_us), phase="Running",
            resource_version=f"{fact.resource_version}~",
        )  # fmt: skip
        self._placed[uid] = bound
        yield event_at(bound, uid, event, at_us)

    def end_next(self, event: Event) -> Iterator[Event]:
        """End the next pod under trial. ``event``: the newest event read."""
        if self.next_end_us is not None:
            at_us, uid = heapq.heappop(self._ends)
            yield from self._end(uid, event, at_us)

    def lose(self, uid: str, event: Event, *, is_evicted: bool = False) -> Iterator[Event]:
        """Evict a running pod; its controller creates another one."""
        fact, stay = self._placed.get(uid), self._here.get(uid)
        if fact is None or stay is None:
            return
        stay.is_evicted = is_evicted
        yield from self._end(uid, event)
        if fact.owner is None or fact.owner.kind == DAEMON_SET:
            return
        self._again += 1
        again = f"{stay.life.uid}~{self._again}"
        self._come(stay.life, again, event.time_us).is_again = True
        made = msgspec.structs.replace(
            fact, uid=again, name=f"{stay.life.name}~{self._again}", created=_stamp(event.time_us),
            node=None, scheduled=None, phase="Pending",
        )  # fmt: skip
        self._waiting[again] = made
        yield event_at(made, again, event, event.time_us)

    def lose_node(self, node: str, event: Event) -> Iterator[Event]:
        """Delete a node, with its pods under trial."""
        for uid in [uid for uid, fact in self._placed.items() if fact.node == node]:
            yield from self.lose(uid, event)

    def _come(self, life: PodLife, uid: str, at_us: int) -> Stay:
        stay = Stay(life, at_us)
        self._here[uid] = stay
        self.stays.append(stay)
        return stay

    def _wait(self, fact: PodState, event: Event) -> Event:
        """A pod as observed while it waits."""
        changed: dict[str, Any] = {}
        constraints = self._constraints(fact)
        if constraints is not None:
            changed["constraints"] = constraints
        if fact.node:
            # Its devices are those of the node on record.
            changed |= {"node": None, "scheduled": None, "phase": "Pending", "card_texts": {}}
            changed["resource_version"] = f"{fact.resource_version}~"
        if changed or not isinstance(fact, PodObserved):
            fact = msgspec.structs.replace(fact, **changed)
            event = event_at(fact, fact.uid, event, event.time_us)
        assert isinstance(fact, PodObserved)
        self._waiting[fact.uid] = fact
        return event

    def _constraints(self, fact: PodState) -> msgspec.Raw | None:
        """The constraints with the first profile in place of another scheduler; None without a change."""
        constraints = _decode(fact.constraints) if bytes(fact.constraints) else PodConstraints()
        changed: dict[str, Any] = {}
        if (constraints.scheduler_name or "default-scheduler") not in self._schedulers:
            changed["scheduler_name"] = self._schedulers[0]
        known = self._lives.claims
        if any((fact.namespace, name) not in known for name in constraints.claims):
            # Volumes were not followed, so they do not limit its nodes.
            changed |= {"claims": (), "ephemeral_claims": ()}
        if not changed:
            return None
        return msgspec.Raw(msgspec.json.encode(msgspec.structs.replace(constraints, **changed), order="sorted"))  # fmt: skip

    def _is_over(self, uid: str, at_us: int) -> bool:
        """Whether a waiting pod is over on record by a moment, and so here, too."""
        life = self._here[uid].life
        return 0 < life.ended_us <= at_us and self._gives_up(life)

    def _gives_up(self, life: PodLife) -> bool:
        """Whether a pod over on record is deleted while it waits under trial."""
        if not life.node:
            # Its owner waited as long under trial as on record.
            return True
        return self._rule != "as_long" and not life.is_work

    def _until_us(self, life: PodLife, bound_us: int) -> int | None:
        """The end of a pod bound now; None = not before its end on record."""
        if not life.ended_us:
            return None
        if life.node:
            is_as_long = life.is_work or self._rule == "as_long"
            return bound_us + life.runs_us if is_as_long else life.ended_us
        if self._rule == "gave_up":
            return life.ended_us
        runs_us = self._lives.median_us(life.namespace)
        return bound_us + runs_us if runs_us else None

    def _end(self, uid: str, event: Event, at_us: int | None = None) -> Iterator[Event]:
        fact = self._placed.pop(uid, None) or self._waiting.pop(uid)
        at_us = event.time_us if at_us is None else at_us
        self._here[uid].ended_us = at_us
        gone = PodVanished(
            uid=uid, namespace=fact.namespace, name=fact.name, resource_version=f"{fact.resource_version}~"
        )  # fmt: skip
        yield event_at(gone, uid, event, at_us)

    def _listed(self, fact: PodsListed, event: Event) -> Event:
        here = {uid for uid in (*self._waiting, *self._placed) if covers(fact, uid)}
        uids = {uid for uid in fact.uids if uid not in self._here} | here
        return event_at(msgspec.structs.replace(fact, uids=tuple(sorted(uids))), event.key, event, event.time_us)  # fmt: skip


def _stamp(us: int) -> str | None:
    """None for a time without a stamp, possible with a wrong clock."""
    try:
        return format_stamp(us)
    except TimestampError:
        return None
