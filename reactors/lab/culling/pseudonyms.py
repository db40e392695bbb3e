"""Pseudonyms: a recording without its names, with the same decisions as the recording itself. Pure but for its own state.

Names become numbers in the order of the names, so anything sorted by name stays in its order. Only fields read by culling are
carried over: labels, commands, texts of people, and annotations other than culling's are left out. Patterns of the policy become
rules for the names matching them.

Source: docs/lab.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from bus.clock import parse_stamp
from bus.envelope import Event
from bus.errors import BursarError, EnvelopeError, TimestampError
from bus.events import VOCABULARY
from bus.events.clock import ClockTicked
from bus.events.decisions import Decision, EffectSettled, RestoreAsked, Target
from bus.events.histories import HistoryRecovered
from bus.events.namespaces import NamespaceObserved
from bus.events.notebooks import Evidence, NotebookSampled
from bus.events.observations import ObjectsListed
from bus.events.pods import Owner, PodsListed, PodState
from bus.events.policies import PauseChanged
from bus.events.vocabulary import Fact, read
from bus.events.workloads import WorkloadObserved, WorkloadVanished
from bus.kube.crds.culling import SNOOZED_UNTIL
from reactors.culling.policy import (
    CULL_IDLE_AFTER,
    DO_NOT_CULL,
    CullingPolicy,
    CullingRule,
    parse_duration,
)
from reactors.culling.state import NAME

CLUSTER = "c"
#: Most rules made of patterns.
MOST_RULES = 2_000
#: Replaces an unreadable annotation, since its text could identify its author.
_UNREADABLE = "?"


class Pseudonyms:
    """Pseudonyms of a recording. :meth:`learn` reads all events first; :meth:`event` and :meth:`policy` then leave names out."""

    def __init__(self) -> None:
        self._seen: dict[str, set[str]] = {
            kind: set() for kind in ("uid", "namespace", "name", "team", "image", "node")
        }
        self._names: dict[str, dict[str, str]] = {}

    def learn(self, event: Event) -> None:
        """The names in an event."""
        self._written(event, self._learnt)

    def event(self, event: Event) -> Event | None:
        """The event without names; None if culling reads nothing in it."""
        fact = self._written(event, self._named)
        if fact is None:
            return None
        made = fact.event(
            cluster=CLUSTER, key=getattr(fact, "uid", ""), id=f"{event.type}/{event.sequence}",
            source="pseudonyms", time_us=event.time_us,
        )  # fmt: skip
        return msgspec.structs.replace(made, sequence=event.sequence)

    def policy(self, policy: CullingPolicy) -> CullingPolicy:
        """The policy for the same notebooks. Raises BursarError if its patterns would become too many rules."""
        rules: list[CullingRule] = []
        for rule in policy.rules:
            fitting = [
                self._fitting(kind, getattr(rule, kind)) for kind in ("namespace", "team", "image")
            ]
            for namespace, team, image in itertools.product(*fitting):
                named = {"namespace": namespace, "team": team, "image": image}
                rules.append(rule.model_copy(update=named))
                if len(rules) > MOST_RULES:
                    raise BursarError(f"the policy's patterns fit more than {MOST_RULES:,} names")
        return policy.model_copy(update={"rules": tuple(rules)})

    def _fitting(self, kind: str, pattern: str) -> list[str]:
        if pattern == "*":
            return ["*"]
        return [
            self._named(kind, name)
            for name in sorted({"", *self._seen[kind]})
            if fnmatchcase(name, pattern)
        ]

    def _learnt(self, kind: str, name: str) -> str:
        self._seen[kind].add(name)
        return name

    def _named(self, kind: str, name: str) -> str:
        if not self._names:
            self._names = {of: _numbered(of, names) for of, names in self._seen.items()}
        return self._names[kind].get(name, "") if name else ""

    def _written(self, event: Event, named: Callable[[str, str], str]) -> Fact | None:
        try:
            fact = read(event, VOCABULARY)
        except EnvelopeError:
            return None
        write = next((w for kind, w in _WRITERS if isinstance(fact, kind)), None)
        return write(fact, named) if write is not None else None


def _numbered(kind: str, names: set[str]) -> dict[str, str]:
    return {name: f"{kind}-{place:09}" for place, name in enumerate(sorted(names - {""}), 1)}


_Named = Callable[[str, str], str]


def _pod(fact: PodState, named: _Named) -> Fact:
    return type(fact)(
        uid=named("uid", fact.uid), namespace=named("namespace", fact.namespace), name=named("name", fact.name),
        resource_version=fact.resource_version, created=fact.created, phase=fact.phase,
        node=None if fact.node is None else named("node", fact.node), scheduled=fact.scheduled,
        deletion=fact.deletion, grace_seconds=fact.grace_seconds, owner=_owner(fact.owner, named),
        team=None if fact.team is None else named("team", fact.team),
        annotations=_annotations(fact.annotations), resources=fact.resources,
    )  # fmt: skip


def _workload(fact: WorkloadObserved, named: _Named) -> Fact:
    return WorkloadObserved(
        uid=named("uid", fact.uid), kind=fact.kind, namespace=named("namespace", fact.namespace),
        name=named("name", fact.name), resource_version=fact.resource_version, created=fact.created,
        owner=_owner(fact.owner, named), annotations=_annotations(fact.annotations),
    )  # fmt: skip


def _workload_gone(fact: WorkloadVanished, named: _Named) -> Fact:
    return WorkloadVanished(
        uid=named("uid", fact.uid), kind=fact.kind, namespace=named("namespace", fact.namespace),
        name=named("name", fact.name), resource_version=fact.resource_version,
    )  # fmt: skip


def _namespace(fact: NamespaceObserved, named: _Named) -> Fact:
    return NamespaceObserved(
        uid=named("uid", fact.uid), name=named("namespace", fact.name), resource_version=fact.resource_version,
        team=None if fact.team is None else named("team", fact.team),
    )  # fmt: skip


def _listed(fact: Any, named: _Named) -> Fact:
    uids = tuple(sorted(named("uid", uid) for uid in fact.uids))
    first, until = named("uid", fact.first), named("uid", fact.until)
    found: Fact = msgspec.structs.replace(fact, uids=uids, first=first, until=until)
    return found


def _sampled(fact: NotebookSampled, named: _Named) -> Fact:
    evidence = tuple(
        Evidence(
            source=one.source, outcome=one.outcome, busy=one.busy, active_us=one.active_us,
            starting_since_us=one.starting_since_us, connected=one.connected,
        )
        for one in fact.evidence
    )  # fmt: skip
    uid, image = named("uid", fact.uid), named("image", fact.image)
    return NotebookSampled(uid=uid, image=image, evidence=evidence)


def _decision(fact: Decision, named: _Named) -> Fact | None:
    if fact.reactor != NAME and not fact.is_destructive:
        return None
    target = fact.target
    of = Target(
        target.kind, named("namespace", target.namespace), named("name", target.name),
        named("uid", target.uid), named("node", target.node),
    )  # fmt: skip
    more = {"beneficiary": ""} if hasattr(fact, "beneficiary") else {}
    # A restore is about a decision, all others are about a pod.
    key = fact.key if fact.is_asked else named("uid", fact.key)
    return msgspec.structs.replace(fact, key=key, target=of, quota="", **more)


def _as_it_is(fact: Fact, named: _Named) -> Fact:
    return fact


_WRITERS: tuple[tuple[Any, Callable[[Any, _Named], Fact | None]], ...] = (
    (ClockTicked, _as_it_is),
    (NotebookSampled, _sampled),
    (PodState, _pod),
    (WorkloadObserved, _workload),
    (WorkloadVanished, _workload_gone),
    ((PodsListed, ObjectsListed), _listed),
    (NamespaceObserved, _namespace),
    (Decision, _decision),
    (EffectSettled, lambda fact, named: msgspec.structs.replace(fact, message="")),
    (RestoreAsked, lambda fact, named: msgspec.structs.replace(fact, author="")),
    (PauseChanged, lambda fact, named: msgspec.structs.replace(fact, author="", reason="")),
    (HistoryRecovered, _as_it_is),
)


def _owner(owner: Owner | None, named: _Named) -> Owner | None:
    return owner and Owner(owner.kind, named("name", owner.name), named("uid", owner.uid))


def _annotations(given: dict[str, str]) -> dict[str, str]:
    """The owners' readable culling annotations."""
    found = {}
    for name, is_readable in _ASKED.items():
        if name in given:
            found[name] = given[name] if is_readable(given[name]) else _UNREADABLE
    return found


def _is_stamp(text: str) -> bool:
    try:
        parse_stamp(text)
    except TimestampError:
        return False
    return True


_ASKED: dict[str, Callable[[str], bool]] = {
    CULL_IDLE_AFTER: lambda text: parse_duration(text) is not None,
    DO_NOT_CULL: lambda text: text in ("true", "false"),
    SNOOZED_UNTIL: _is_stamp,
}
