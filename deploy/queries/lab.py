"""The recorded history of a cluster under another policy: reads the ledger, changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
from pydantic import BaseModel, ValidationError

from bus.envelope import Event
from bus.errors import EnvelopeError
from bus.events.namespaces import NamespaceObserved
from bus.events.notebooks import Evidence, NotebookSampled
from bus.events.pods import PodObserved
from bus.events.policies import Mode, PolicyChanged
from bus.events.workloads import WorkloadObserved
from deploy.errors import SettingsError
from deploy.settings.file import read_settings_file
from projections.pod_runs.queries import held_at
from projections.quota_trees.queries import Select, archived
from reactors.catalogue import REACTORS
from reactors.culling.policy import CullingPolicy
from reactors.culling.settings import CullingSettings
from reactors.culling.state import NAME, CullingState
from reactors.engine.snapshots import at
from reactors.lab.culling.trial import CullingPlayed, Lab
from reactors.lab.pods import nobody
from reactors.lab.rules import RULES, Rule

#: A file with each section, on one line.
EXAMPLES = {
    "culling": "culling: {policy: {idle_seconds: 7200, warning_seconds: 900}}",
    "evictions": "evictions: {policy: {monitor_all_quotas: true, delay_evict_seconds: 300}}",
    "quotas": 'quotas: {vision: {limits.cpu: "96"}}',
    "rebalancing": "rebalancing: {policy: {most_moves: 10}}",
    "scheduling": "scheduling: {policy: {preemption: on}}",
}


def missing(path: Path, section: str) -> SettingsError:
    """The error of a file without the tried section, with an example of it."""
    return SettingsError(f"{path}: section {section} is missing; example: {EXAMPLES[section]}")


class Proposed(msgspec.Struct, frozen=True):
    """A policy for a trial. ``mode`` off: it stops nothing."""

    mode: Mode
    culling: CullingPolicy


S = TypeVar("S", bound=BaseModel)


def proposed(path: Path) -> Proposed:
    """The policy in a settings file, as `bursar up` would take it. Raises SettingsError naming file and line."""
    section = section_of(path, NAME, CullingSettings)
    if section.kubeflow or section.policy.kubeflow is not None:
        raise SettingsError(
            f"{path}: {NAME}.kubeflow is not tried here: bursar cull simulate --like kubeflow does"
        )
    # A policy starts in shadow mode; the question is about its effect when on.
    return Proposed("off" if section.mode == "off" else "on", section.policy)


def section_of(path: Path, name: str, settings: type[S]) -> S:
    """The tried section of a settings file. Raises SettingsError naming file and line."""
    file = read_settings_file(path)
    section = file.values.get(name)
    if not isinstance(section, dict):
        raise missing(path, name)
    try:
        return settings.model_validate(section)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = (name, *(str(part) for part in first["loc"]))
        why = "there is no such setting" if first["type"] == "extra_forbidden" else first["msg"]
        raise SettingsError(
            f"{path}, line {file.line(place)}: {'.'.join(place)}: {why.removeprefix('Value error, ')}"
        ) from None


class TriedRules(msgspec.Struct, frozen=True):
    """The results of the rules on the history by ``policy``. ``modes``: the recorded modes of culling, in order."""

    played: list[CullingPlayed]
    policy: CullingPolicy
    modes: tuple[Mode, ...]


class Recording:
    """The history of a cluster after one event up to another, for trials of policies."""

    def __init__(self, select: Select, cluster: str, first: int, last: int) -> None:
        self._select, self._cluster = select, cluster
        self._first, self._last = first, last
        self._recorded = _recorded(select, cluster, first, last)
        self._known = at(select, REACTORS, cluster, first) if first else None

    @property
    def policy(self) -> CullingPolicy:
        """The newest policy on record; the default where there is none."""
        return self._recorded[-1].policy if self._recorded else CullingPolicy()

    def tried(
        self, policies: Sequence[tuple[CullingPolicy, Mode]], rules: Sequence[Rule] = RULES,
        progress: Callable[[int, int], None] = lambda done, of: None,
    ) -> list[TriedRules]:  # fmt: skip
        """Policies on the recording, each in a mode, in one reading of it. ``progress`` gets the events read, and all."""
        select, cluster = self._select, self._cluster
        # The probes of the recording limit the check period.
        seconds = max((one.policy.check_period_seconds for one in self._recorded), default=1)
        tried = [
            (
                one.model_copy(
                    update={"check_period_seconds": max(one.check_period_seconds, seconds)}
                ),
                mode,
            )
            for one, mode in policies
        ]
        lab = Lab(
            cluster, tried, earlier=self._newest, known=self._known, rules=rules, held_at=partial(held_at, select),
        )  # fmt: skip
        after, until = self._first, self._last
        for part in archived(select, cluster, lab.reads, after=after, until=until, apart=False):
            lab.play(part)
            progress(part[-1].sequence - after, until - after)
        modes = tuple(dict.fromkeys(one.mode for one in self._recorded))
        return [
            TriedRules(played, policy, modes)
            for played, (policy, _) in zip(lab.end(), tried, strict=True)
        ]

    def history(self) -> Iterator[Event]:
        """The input of culling: the last observation of all existing objects before the history, then its events."""
        yield from self._opening()
        reads = Lab(self._cluster, [(self.policy, "on")], earlier=nobody, rules=RULES[:1]).reads
        after, until = self._first, self._last
        for part in archived(
            self._select, self._cluster, reads, after=after, until=until, apart=False
        ):
            yield from part

    def _opening(self) -> Iterator[Event]:
        if self._known is None:
            return
        state, view = self._known.cluster_state, self._known.states[NAME]
        assert isinstance(view, CullingState)
        exists = {**state.pods, **state.workloads}
        types = [one.wire_type for one in (PodObserved, WorkloadObserved, NamespaceObserved)]
        newest: dict[tuple[str, str], Event] = {}
        for part in archived(self._select, self._cluster, types, until=self._first, apart=False):
            for event in part:
                if event.type == NamespaceObserved.wire_type or event.key in exists:
                    newest[event.type, event.key] = event
        yield from sorted(newest.values(), key=lambda event: event.sequence)
        for uid in view.notebooks:
            yield from _looks(view, uid, self._cluster, self._first)

    def _newest(self, uid: str) -> PodObserved | None:
        """A pod as it last ran before."""
        return newest_pod(self._select, self._cluster, uid, self._first)


def _looks(view: CullingState, uid: str, cluster: str, sequence: int) -> Iterator[Event]:
    """The known activity of a notebook, as samples."""
    found: dict[int, list[Evidence]] = {}
    for _, seen in view.activity[uid].sources:
        if seen.ok is not None:
            known = msgspec.structs.replace(seen.ok, active_us=seen.active_us)
            found.setdefault(seen.ok_us, []).append(known)
        if seen.failed is not None:
            found.setdefault(seen.failed_us, []).append(seen.failed)
    for at_us, evidence in sorted(found.items()):
        fact = NotebookSampled(uid=uid, image=view.images.get(uid, ""), evidence=tuple(evidence))
        event = fact.event(
            cluster=cluster, key=uid, id=f"{uid}/{at_us}/known", source="lab", time_us=at_us
        )
        yield msgspec.structs.replace(event, sequence=sequence)


class _Recorded(msgspec.Struct, frozen=True):
    """A policy of culling on record."""

    mode: Mode
    policy: CullingPolicy


def _recorded(select: Select, cluster: str, first: int, last: int) -> list[_Recorded]:
    """The policies in force between two events, in order. An unreadable one is skipped."""
    found: list[_Recorded] = []
    for part in archived(select, cluster, (PolicyChanged.wire_type,), until=last):
        for event in part:
            try:
                fact = PolicyChanged.read(event)
                if fact.reactor != NAME:
                    continue
                one = _Recorded(fact.mode, CullingPolicy.model_validate(fact.policy))
            except (EnvelopeError, ValidationError):
                continue
            # Of those before it only the newest is in force.
            found = [one] if event.sequence <= first else [*found, one]
    return found


def newest_pod(select: Select, cluster: str, uid: str, until: int) -> PodObserved | None:
    """A pod as it last ran up to an event."""
    found = None
    for part in archived(select, cluster, (PodObserved.wire_type,), key=uid, until=until):
        for event in part:
            try:
                fact = PodObserved.read(event)
            except EnvelopeError:
                continue
            if fact.deletion is None and fact.phase == "Running":
                found = fact
    return found
