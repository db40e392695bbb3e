"""The cost of a restart of a training job now, its nodes with many failures, and the end of its steps: the present state in
``bursar why``.

The steps of a job come from its annotation ``bursar.io/steps``, as ``1200/5000``, by any writer. The rate is that from the
first report since the steps restarted to the newest.

Source: docs/jobs.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from bus.clock import SECOND_US, format_stamp
from bus.events.workloads import WorkloadObserved
from deploy.cli.quotas.finding import Found
from deploy.cli.rendering.units import MILLI_HOUR
from projections.pod_runs.shape import held_segments, pod_runs
from projections.quota_trees.queries import Select, archived, facts

#: Kinds whose new pods begin their work again.
KINDS = frozenset(
    {"TFJob", "PyTorchJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob", "JobSet", "TrainJob"}
)
STEPS = "bursar.io/steps"
#: Twelve digits: no job has more steps, and no sum of them is too large.
_STEPS = re.compile(r"([0-9]{1,12})/([0-9]{1,12})", re.ASCII)
#: A longer estimate is useless, and stamps have an end.
_LONGEST_S = 10 * 365 * 86_400

#: The time of a report, the finished steps, and all steps.
Report = tuple[int, int, int]


def steps(
    select: Select, cluster: str, objects: Iterable[Found], now_s: int
) -> Iterator[dict[str, Any]]:
    """A step for each job, or pod of one, with current holdings, and for each of its nodes with many failures; and
    one for each job with reported steps.
    """
    failing: dict[str, str] | None = None
    for one in objects:
        if one.vanished or (one.kind not in KINDS and one.kind != "Pod"):
            continue
        cost = _cost(select, cluster, one, now_s)
        if cost:
            yield _step(one, now_s, "restart", "would_lose", cost)
            if failing is None:
                failing = _failing(select, cluster, now_s)
            for node in sorted(failing.keys() & _nodes(select, cluster, one)):
                yield _step(one, now_s, "node", "fails_more", f"{node}: {failing[node]}")
        if one.kind in KINDS:
            cost = left(list(_reports(select, cluster, one)), now_s)
            if cost:
                yield _step(one, now_s, "progress", "steps", cost)


def _cost(select: Select, cluster: str, one: Found, now_s: int) -> str:
    """The past holdings of its currently holding pods; "" without such pods."""
    runs, held = pod_runs.c, held_segments.c
    seconds = sa.func.coalesce(held.end_s, now_s) - held.start_s
    sums = [
        sa.func.sum(amount * sa.case((seconds > 0, seconds), else_=0))
        for amount in (held.cpu_milli, held.gpu_milli)
    ]
    query = (
        sa.select(runs.name, runs.start_s, *sums)
        .join(held_segments, held.uid == runs.uid)
        .where(runs.cluster == cluster, runs.end_s.is_(None), runs.start_s.is_not(None), *_pods(one))
        .group_by(runs.uid, runs.name, runs.start_s)
    )  # fmt: skip
    rows = [(int(gpu), int(cpu), name, start) for name, start, cpu, gpu in select(query)]
    if not rows:
        return ""
    gpus, cpus, _, starts = zip(*rows, strict=True)
    gpu, cpu, longest = sum(gpus), sum(cpus), min(starts)
    since = format_stamp(longest * SECOND_US)
    if len(rows) == 1:
        return f"begun again now it loses what it held since {since}: {_hours(cpu, gpu)}"
    most = max(rows)
    text = f"begun again now it loses what its {len(rows)} pods held, the first since {since}"
    return f"{text}: {_hours(cpu, gpu)}; most of one pod, {most[2]}: {_hours(most[1], most[0])}"


def _failing(select: Select, cluster: str, now_s: int) -> dict[str, str]:
    """The sentence on each node of the cluster with many failures."""
    # It looks at every pod of a training job: only where the answer may need it.
    from deploy.queries import job_nodes

    return {
        one.node: one.sentence
        for one in job_nodes.failures(select, now_s, cluster=cluster)
        if one.is_outlier
    }


def _nodes(select: Select, cluster: str, one: Found) -> set[str]:
    """The nodes of its currently holding pods."""
    runs = pod_runs.c
    query = sa.select(runs.node).where(
        runs.cluster == cluster, runs.end_s.is_(None), runs.start_s.is_not(None), *_pods(one)
    )
    return {node for (node,) in select(query) if node}


def _pods(one: Found) -> list[sa.ColumnElement[bool]]:
    runs = pod_runs.c
    if one.kind == "Pod":
        kinds = sa.or_(*(runs.workload.like(f"{kind}/%") for kind in sorted(KINDS)))
        return [runs.uid == one.uid, kinds]
    tops = [f"{one.kind}/{one.name}"]
    if one.owner is not None and one.owner.kind in KINDS:
        tops.append(f"{one.owner.kind}/{one.owner.name}")
    return [runs.namespace == one.namespace, runs.workload.in_(tops)]


def _hours(cpu_milli_s: int, gpu_milli_s: int) -> str:
    cards = f", {gpu_milli_s / MILLI_HOUR:,.1f} GPU-hours" if gpu_milli_s else ""
    return f"{cpu_milli_s / MILLI_HOUR:,.1f} core-hours{cards}"


def _reports(select: Select, cluster: str, one: Found) -> Iterator[Report]:
    types = (WorkloadObserved.wire_type,)
    for event, fact in facts(archived(select, cluster, types, key=one.uid)):
        assert isinstance(fact, WorkloadObserved)
        found = steps_in(fact.annotations)
        if found is not None:
            yield (event.time_us, *found)


def steps_in(annotations: Mapping[str, str]) -> tuple[int, int] | None:
    """The finished steps, and all of them; None without a readable report."""
    found = _STEPS.fullmatch(annotations.get(STEPS, ""))
    if found is None:
        return None
    done, total = int(found[1]), int(found[2])
    return (done, total) if done <= total and total else None


def left(reports: list[Report], now_s: int) -> str:
    """Its progress, and its end at its past rate; "" without a report."""
    if not reports:
        return ""
    last_us, done, total = reports[-1]
    text = f"{done:,} of {total:,} steps"
    if done == total:
        return text
    first_us, begun, _ = reports[-1]
    after = done
    for at_us, steps_, _ in reversed(reports):
        # More steps than later: it was begun again in between.
        if steps_ > after:
            break
        first_us, begun, after = at_us, steps_, steps_
    if done == begun or last_us <= first_us:
        return f"{text}; how long the others take is known once it says more"
    seconds = (last_us - first_us) * (total - done) // ((done - begun) * SECOND_US)
    ends_us = last_us + seconds * SECOND_US
    per_day = (done - begun) * 86_400 * SECOND_US // (last_us - first_us)
    stored_at = format_stamp(last_us // SECOND_US * SECOND_US)
    pace = f"{per_day // 24:,} steps an hour" if per_day >= 24 else f"{per_day:,} steps a day"
    rate = f"at {pace}, as of {stored_at}"
    if seconds > _LONGEST_S:
        return f"{text}; {rate}: years"
    late = " (which is past)" if ends_us < now_s * SECOND_US else ""
    return f"{text}; done at {format_stamp(ends_us // SECOND_US * SECOND_US)}{late} {rate}"


def _step(one: Found, now_s: int, step: str, reason: str, numbers: str) -> dict[str, Any]:
    return {
        "sequence": None, "time": format_stamp(now_s * SECOND_US), "step": step,
        "about": f"{one.kind} {one.namespace}/{one.name}", "quota": "", "reason": reason,
        "numbers": numbers, "based_on": None, "id": "",
    }  # fmt: skip
