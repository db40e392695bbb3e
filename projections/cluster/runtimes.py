"""The demand of TrainJobs, as far as their training runtimes are known.

A TrainJob's demand includes its runtime's once both are known. Later changes of a runtime have no effect on it:
Kubeflow Trainer makes its JobSet once, and a JobSet's further demand is charged in its own right. A suspended
TrainJob with another size asks anew.

Source: docs/jobs.md ("TrainJobs").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from sys import intern

import msgspec

from bus.errors import DemandError
from bus.events.runtimes import RuntimeTemplate, RuntimeUse, TrainingRuntimeObserved
from bus.kube.kinds import Ask
from bus.kube.kinds.runtime_use import NAMESPACED_KIND
from bus.kube.kinds.runtimes import as_before, with_runtime
from projections.cluster.index import Groups
from projections.cluster.objects import Change
from projections.cluster.rows import Workload

#: Kind, namespace and name of a runtime.
_Name = tuple[str, str, str]


class TrainingRuntime(msgspec.Struct, gc=False):
    """A training runtime."""

    kind: str
    uid: str
    namespace: str
    name: str
    version: str
    seen_us: int
    #: None where it cannot be read.
    template: RuntimeTemplate | None = None
    last_us: int = 0
    listed_us: int = 0


def training_runtime(
    fact: TrainingRuntimeObserved, time_us: int, known: TrainingRuntime | None
) -> TrainingRuntime:
    """The row of a training runtime."""
    return TrainingRuntime(
        intern(fact.kind), fact.uid, intern(fact.namespace), fact.name, fact.resource_version, time_us,
        fact.template, time_us,
    )  # fmt: skip


class Runtimes:
    """Derived from the rows of a cluster's state; changes those of TrainJobs."""

    def __init__(
        self,
        workloads: MutableMapping[str, Workload],
        runtimes: Mapping[str, TrainingRuntime],
        named: Callable[[str, str, str], str],
    ) -> None:
        self._workloads = workloads
        self._runtimes = runtimes
        self._named = named
        #: TrainJobs with an unobserved or unreadable runtime.
        self._waiting: Groups[_Name] = Groups()

    def restore(self) -> None:
        """Begin with the saved rows and their saved demands."""
        for row in self._workloads.values():
            self._wait(row)

    def asked(self, ask: Ask, namespace: str, uid: str = "") -> Ask:
        """An ask with its runtime's demand. ``uid``: of the TrainJob; it keeps its earlier demand."""
        if not ask.runtime:
            return ask
        before = self._workloads.get(uid)
        return self._asked(ask, namespace, None if before is None else _written(before))

    def follow(self, changes: list[Change]) -> None:
        """Rows changed: the demand of TrainJobs may change. Changes of others are added to ``changes``."""
        for change in tuple(changes):
            before, after = change.before, change.after
            if isinstance(after, TrainingRuntime):
                for uid in sorted(self._waiting[after.kind, after.namespace, after.name]):
                    self._again(uid, changes)
                continue
            known = before if isinstance(before, Workload) else None
            if known is not None and known.ask.runtime:
                self._waiting.discard(_name(known.ask.runtime, known.namespace), known.uid)
            if isinstance(after, Workload) and after.ask.runtime:
                written = None if known is None else _written(known)
                after.ask = self._asked(after.ask, after.namespace, written)
                self._wait(after)

    def _again(self, uid: str, changes: list[Change]) -> None:
        before = self._workloads[uid]
        ask = self._asked(before.ask, before.namespace, None)
        if ask != before.ask:
            after = self._workloads[uid] = msgspec.structs.replace(before, ask=ask, written=None)
            assert before.ask.runtime
            self._waiting.discard(_name(before.ask.runtime, before.namespace), uid)
            changes.append(Change(after.kind, uid, before, after))

    def _wait(self, row: Workload) -> None:
        use = row.ask.runtime
        if use and use.pods is None:
            self._waiting.add(_name(use, row.namespace), row.uid)

    def _asked(self, ask: Ask, namespace: str, before: Ask | None) -> Ask:
        use = ask.runtime
        assert use
        if before is not None and (before.demand or before.wanted) and before.runtime:
            is_found = before.runtime.pods is not None
            if is_found and msgspec.structs.replace(before.runtime, pods=None) == use:
                return as_before(ask, before)
        row = self._runtimes.get(self._named(*_name(use, namespace)))
        if row is None or row.template is None:
            return ask
        try:
            return with_runtime(ask, row.template)
        except DemandError:
            # No API server could run so much: it stays unknown, and quotas refuse it.
            return ask


def _name(use: RuntimeUse, namespace: str) -> _Name:
    return (use.kind, namespace if use.kind == NAMESPACED_KIND else "", use.name)


def _written(row: Workload) -> Ask:
    return row.ask if row.written is None else row.written
