"""Other cullers' decisions on recorded evidence: the cullers possibly in use in a cluster before Bursar.

Each culler has its own rules and defaults, and one pass for each probe (or for each of its own, longer periods). It reads its own
probe's part of the evidence. So its faults show as well: Kubeflow's stops a notebook after one failed probe, and only Bursar's
detects gaps. Hours saved, false culls and gaps are counted as in :mod:`reactors.culling.simulate`.

Two readings are assumptions. JupyterHub's own activity stamp is taken to be the newest activity of all sources. The script of a
workspace's probe is taken to report that same activity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol, TypeAlias

import msgspec

from bus.clock import SECOND_US, format_stamp
from bus.events.notebooks import Evidence, NotebookSampled
from bus.go_time import Stamp
from bus.notebooks import jupyter
from bus.notebooks.go_json import SOURCE, Kernel, kernels_of
from bus.notebooks.prober import ProbeResponse
from reactors.culling.hub import HubOptions, HubServer, HubUser, hub_requests
from reactors.culling.kubeflow import Notebook, ReconcilePass, reconcile, reconcile_with_terminals
from reactors.culling.kubeflow.annotations import Annotations
from reactors.culling.policy import Limits
from reactors.culling.simulate import Cull, Run, Simulation, ended, look_of, watched
from reactors.culling.workspaces import (
    PauseRule,
    pause_decision,
    probe_due_after_ms,
    script_activity,
)

#: IDLENESS_CHECK_PERIOD of Kubeflow's culler, minutes.
KUBEFLOW_PERIOD = 1
#: Between two probes of a workspace, after a failed and after a good one.
WORKSPACE_RETRY_SECONDS = 300
WORKSPACE_PROBE_SECONDS = 3600

Reconciling: TypeAlias = Callable[[Notebook, NotebookSampled, int, Stamp], ReconcilePass]


class Culler(Protocol):
    """One notebook's culler."""

    def stops(self, fact: NotebookSampled, at_us: int, run: Run, is_readable: bool) -> bool:
        """Whether this probe makes it stop the notebook. ``run`` has the newest activity on record."""

    def restarted(self) -> None:
        """The notebook was stopped, and its user came back."""


class _Kubeflow:
    """Kubeflow's culler, or one with its annotations. ``reconciling``: one pass of it, with the idle limit in minutes."""

    def __init__(self, idle_seconds: int, reconciling: Reconciling) -> None:
        self._minutes = idle_seconds // 60
        self._reconciling = reconciling
        self._stamps: Annotations = {}

    def stops(self, fact: NotebookSampled, at_us: int, run: Run, is_readable: bool) -> bool:
        notebook = Notebook("", fact.uid, self._stamps)
        done = self._reconciling(notebook, fact, self._minutes, Stamp(at_us * 1_000))
        self._stamps = done.annotations or {}
        return done.decision == "cull"

    def restarted(self) -> None:
        self._stamps = {}


def _of_kubeflow(
    notebook: Notebook, fact: NotebookSampled, idle_minutes: int, now: Stamp
) -> ReconcilePass:
    return reconcile(
        notebook,
        pod_exists=True,
        kernels=_kernels(fact),
        idle_minutes=idle_minutes,
        period_minutes=KUBEFLOW_PERIOD,
        now=now,
    )


def _of_open_data_hub(
    notebook: Notebook, fact: NotebookSampled, idle_minutes: int, now: Stamp
) -> ReconcilePass:
    terminals = _read(fact, jupyter.TERMINALS)
    if terminals is None:
        open_ones = None
    else:
        open_ones = [_stamp(terminals)] if terminals.active_us is not None else []
    return reconcile_with_terminals(
        notebook,
        pod_exists=True,
        kernels=_answer(_kernels(fact)),
        terminals=_answer(open_ones),
        idle_minutes=idle_minutes,
        period_minutes=KUBEFLOW_PERIOD,
        now=now,
    )


class _Hub:
    def __init__(self, idle_seconds: int) -> None:
        self._options = HubOptions(timeout=idle_seconds)
        self._pass_us = max(idle_seconds // 2, 1) * SECOND_US
        self._next_us = 0

    def stops(self, fact: NotebookSampled, at_us: int, run: Run, is_readable: bool) -> bool:
        if at_us < self._next_us:
            return False
        self._next_us = at_us + self._pass_us
        server = HubServer(
            last_activity=format_stamp(run.active_us),
            started=format_stamp(run.since_us),
            ready=True,
        )
        user = HubUser(fact.uid, servers={"": server})
        return bool(hub_requests([user], options=self._options, stop_status=204, now_us=at_us))

    def restarted(self) -> None:
        """A hub keeps no state of a stopped server."""


class _Workspace:
    def __init__(self, idle_seconds: int) -> None:
        self._rules = [PauseRule(idle_seconds, pause=True)]
        self._begin()

    def _begin(self) -> None:
        self._probed_ms: int | None = None
        self._succeeded = False
        self._active_ms = 0

    def stops(self, fact: NotebookSampled, at_us: int, run: Run, is_readable: bool) -> bool:
        now_ms = at_us // 1_000
        if probe_due_after_ms(
            now_ms=now_ms,
            last_start_ms=self._probed_ms,
            succeeded=self._succeeded,
            min_interval_ms=WORKSPACE_RETRY_SECONDS * 1_000,
            probe_interval_ms=WORKSPACE_PROBE_SECONDS * 1_000,
        ):
            return False
        printed = {"last_activity": format_stamp(run.active_us)}
        activity = script_activity(msgspec.json.encode(printed) if is_readable else b"unreadable")
        self._probed_ms, self._succeeded = now_ms, activity.result != "failure"
        if activity.last_activity_ms is not None:
            self._active_ms = activity.last_activity_ms
        return pause_decision(
            self._rules,
            namespace_labels={},
            size_labels={},
            last_activity_ms=self._active_ms,
            last_running_ms=run.since_us // 1_000,
            now_ms=now_ms,
            fresh_probe=self._succeeded,
        ).pause

    def restarted(self) -> None:
        self._begin()


#: By its public name: the culler of one notebook, for an idle limit in seconds.
CULLERS: dict[str, Callable[[int], Culler]] = {
    "kubeflow": partial(_Kubeflow, reconciling=_of_kubeflow),
    "opendatahub": partial(_Kubeflow, reconciling=_of_open_data_hub),
    "jupyterhub": _Hub,
    "workspaces": _Workspace,
}
#: Cullers with limits in whole minutes.
IN_MINUTES = ("kubeflow", "opendatahub")


def simulate_like(
    samples: Iterable[tuple[int, NotebookSampled]], name: str, idle_seconds: int, limits: Limits
) -> Simulation:
    """The culls of another culler, by time and uid. ``samples``: time of the probe (microseconds UTC) and fact, by time.

    ``name`` is one of :data:`CULLERS`. ``limits`` name the sources of activity, and the length of a gap.
    """
    fresh_us = limits.fresh_seconds * SECOND_US
    runs: dict[str, Run] = {}
    cullers: dict[str, Culler] = {}
    culls: list[Cull] = []
    count = gaps = unknown_us = 0
    for at_us, fact in samples:
        count += 1
        run = runs.get(fact.uid)
        if run is None:
            run = runs[fact.uid] = Run(at_us)
            cullers[fact.uid] = CULLERS[name](idle_seconds)
        look = look_of(fact, at_us, limits)
        span_us = at_us - run.last_us
        is_gap = span_us > fresh_us
        if is_gap:
            gaps, unknown_us = gaps + 1, unknown_us + span_us
        if look is not None and look.active_us is not None:
            run.active_us = max(run.active_us, look.active_us)
        culler = cullers[fact.uid]
        if run.cull is not None:
            watched(run, at_us, 0 if is_gap else span_us, culls)
            if run.cull is None:
                culler.restarted()
        elif culler.stops(fact, at_us, run, look is not None):
            run.cull = Cull(fact.uid, at_us, "idle", run.active_us)
        run.last_us = at_us
    culls += [ended(run.cull, run.saved_us) for run in runs.values() if run.cull is not None]
    culls.sort(key=lambda cull: (cull.at_us, cull.uid))
    return Simulation(tuple(culls), len(runs), count, gaps, unknown_us)


def _read(fact: NotebookSampled, *sources: str) -> Evidence | None:
    """The evidence of the first of these sources with a readable answer."""
    found = {one.source: one for one in fact.evidence if one.outcome == "ok"}
    return next((found[source] for source in sources if source in found), None)


def _kernels(fact: NotebookSampled) -> list[Kernel] | None:
    """The server's kernels as Kubeflow's rules see them; None = its probe would have failed."""
    evidence = _read(fact, SOURCE, jupyter.KERNELS)
    if evidence is None:
        return None
    if evidence.starting_since_us is not None:
        # To these rules every state other than idle is busy.
        return [Kernel("", "starting")]
    return kernels_of(evidence)


def _stamp(evidence: Evidence) -> Kernel:
    return Kernel(format_stamp(evidence.active_us or 0), "")


def _answer(entries: list[Kernel] | None) -> ProbeResponse | None:
    if entries is None:
        return None
    return ProbeResponse(
        200, msgspec.json.encode([msgspec.structs.asdict(entry) for entry in entries])
    )
