"""Views of training jobs: holdings by job and by attempt (one pod in one slot), and the cost of restarts.

Every pod with the labels of a training job and under its control is an attempt, whatever its creator. Of a JobSet
made by a TrainJob under its own name, it is every pod of its Jobs. Attempts at one slot are numbered by their
creation. The holdings of an attempt are lost if a later one took its slot: work starts again there, as far as the
ledger knows.

Source: Kubeflow training-operator v1; JobSet v1alpha2, ``jobset_types.go``; docs/jobs.md.
"""

from __future__ import annotations

from projections.views.shape import (
    AMOUNTS,
    CLUSTER,
    NAMESPACE,
    Column,
    View,
    at,
    hours,
    is_,
    moment,
)

_LABEL = "training.kubeflow.org/"
_JOBSET_LABEL = "jobset.sigs.k8s.io/"
_UNTIL = f"COALESCE(s.end_s, {moment('s.cluster')})"
_HELD = f"CASE WHEN {_UNTIL} > s.start_s THEN {_UNTIL} - s.start_s ELSE 0 END"
_SUMS = tuple(
    f"CAST(SUM(s.{name.removesuffix('_s')} * ({_HELD})) AS bigint) AS {name}" for name in AMOUNTS
)
_SLOT = "PARTITION BY p.cluster, p.namespace, p.job_uid, p.replica, p.slot"
_KINDS = ("TFJob", "PyTorchJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob")
#: The creator of a pod writes its labels and its owner: the observed owner decides, and else the pod's own labels.
_IS_TRAINING = f"""CASE WHEN w.uid IS NULL THEN {" OR ".join(f"r.workload LIKE '{kind}/%'" for kind in _KINDS)}
    ELSE w.namespace = r.namespace AND w.kind IN ({", ".join(f"'{kind}'" for kind in _KINDS)}) END"""


def _label(key: str, missing: str = "''") -> str:
    value = f"(SELECT CAST(l.value AS text) FROM pairs(r.labels) l WHERE l.key = '{key}')"
    return f"COALESCE(NULLIF({value}, ''), {missing})"


_POD = """r.uid, r.cluster, r.namespace, r.name, r.workload, r.team, r.user_name, COALESCE(r.node, '') AS node, r.phase,
    COALESCE(r.disruption, '') AS disruption, r.created_us, r.start_s, r.end_s, r.sequence"""
#: Each pod of a Job without indexed completions has a slot of its own.
_IN_JOBSET = f"""{_label(f"{_JOBSET_LABEL}job-index")} || '-' || {_label("batch.kubernetes.io/job-completion-index", "r.name")}"""


#: The reason in a pod's condition DisruptionTarget, in short: the words of a cause.
_DISRUPTIONS = {
    "DeletionByPodGC": "node lost",
    "DeletionByTaintManager": "node tainted",
    "DeletionByDeviceTaintManager": "device tainted",
    "TerminationByKubelet": "ended by kubelet",
    "PreemptionByScheduler": "preempted",
    "EvictionByEvictionAPI": "evicted",
}
#: The ones caused by the node. Preemption and eviction are requested.
_OF_NODES = ("DeletionByPodGC", "DeletionByTaintManager", "DeletionByDeviceTaintManager", "TerminationByKubelet")  # fmt: skip
_DISRUPTED = " ".join(f"WHEN '{reason}' THEN '{cause}'" for reason, cause in _DISRUPTIONS.items())
_EVICTED = """EXISTS (SELECT 1 FROM decisions e
    WHERE e.key = n.uid AND e.type = 'decision.evict' AND e.result = 'done')"""
_FAILED = f"""CASE WHEN n.phase = 'Succeeded' THEN 0
    WHEN n.disruption IN ({", ".join(f"'{one}'" for one in _OF_NODES)}) THEN 1
    WHEN n.phase <> 'Failed' OR n.disruption <> '' OR {_EVICTED} THEN 0 ELSE 1 END"""

_DELETED = "FROM decisions d WHERE d.key = n.uid AND d.type = 'decision.delete_replica'"
_CAUSE = f"""CASE WHEN n.attempt = n.attempts THEN ''
    WHEN {_EVICTED} THEN 'evicted'
    WHEN n.disruption <> '' THEN CASE n.disruption {_DISRUPTED} ELSE 'disrupted' END
    WHEN n.phase = 'Failed' THEN COALESCE((SELECT 'exit ' || MIN(c.value) FROM decisions d, pairs(d.numbers) c
      WHERE d.key = n.uid AND d.type = 'decision.delete_replica' AND c.key = 'exit_code'), 'failed')
    ELSE COALESCE((SELECT MIN(d.reason) {_DELETED} AND d.is_shadow = 0), 'deleted') END"""

#: Of attempts created in one second the first ended first. If they ended in one, too, the number in the name
#: decides.
_ORDER = (
    "ORDER BY p.created_us, COALESCE(p.end_s, 9223372036854775807), LENGTH(p.name), p.name, p.uid"
)
#: A pod's owner is its job, or a Job below its JobSet: one read of each pod shows it.
_NUMBERED = f"""WITH pods AS (
  SELECT {_POD}, CASE WHEN w.kind = 'Job' THEN s.uid ELSE r.owner_uid END AS job_uid,
    CASE WHEN w.kind = 'Job' THEN s.name ELSE COALESCE(w.name, {_label(f"{_LABEL}job-name")}) END AS job,
    CASE WHEN w.kind = 'Job' THEN {_label(f"{_JOBSET_LABEL}replicatedjob-name")}
      ELSE {_label(f"{_LABEL}replica-type")} END AS replica,
    CASE WHEN w.kind = 'Job' THEN {_IN_JOBSET} ELSE {_label(f"{_LABEL}replica-index", "r.name")} END AS slot
  FROM pod_runs r LEFT JOIN workloads w ON w.cluster = r.cluster AND w.uid = r.owner_uid
  LEFT JOIN workloads s ON w.kind = 'Job' AND w.namespace = r.namespace AND s.cluster = w.cluster AND s.uid = w.owner_uid
    AND s.namespace = w.namespace AND s.kind = 'JobSet'
  WHERE r.owner_uid IS NOT NULL AND (
    (r.labels LIKE '%{_LABEL}replica-type%' AND {_IS_TRAINING})
    OR (s.uid IS NOT NULL AND r.labels LIKE '%{_JOBSET_LABEL}replicatedjob-name%'))
), numbered AS (
  SELECT p.*, ROW_NUMBER() OVER ({_SLOT} {_ORDER}) AS attempt,
    COUNT(*) OVER ({_SLOT}) AS attempts, LEAD(p.created_us) OVER ({_SLOT} {_ORDER}) AS replaced_us
  FROM pods p
)
"""
_ATTEMPT_ROWS = f"""{_NUMBERED}, held AS (
  SELECT p.uid, {", ".join(_SUMS)},
    CAST(SUM({_HELD}) AS bigint) AS held_s
  FROM pods p JOIN held_segments s ON s.uid = p.uid GROUP BY p.uid
)
"""

_JOB = is_("job", "The name of the training job; of one that was never seen, by the pod's label.")
_JOB_UID = is_("job_uid", "The job's uid; of a TrainJob, that of its JobSet.")

_ATTEMPTS = View(
    "v1_attempts",
    "One row for each pod of a training job: which attempt at its slot it was, what it held, and why it was begun again.",
    (
        CLUSTER,
        NAMESPACE,
        _JOB,
        _JOB_UID,
        is_("workload", "The top of the chain of controllers, `Kind/name`."),
        is_("team", "The team charged last; empty for a pod that never held."),
        is_("user_name", "The user charged last; empty for a pod that never held."),
        is_("replica", "The replica type, in lower case; of a JobSet, its replicated job."),
        is_("slot", "The index of the replica, as text; of a JobSet, of Job and completion (`0-3`); without one, the pod's name."),
        is_("attempt", "Which attempt at this slot, the first created is 1.", "n.attempt"),
        is_("name", "The pod's name."),
        is_("uid", "The pod's uid.", "n.uid"),
        is_("node", "The node it was bound to; empty if it never was."),
        is_("phase", "The phase of its newest observation."),
        at("start_at", "When it began to hold; NULL if it never was bound.", "start_s"),
        at("end_at", "When it stopped holding; NULL while it is open.", "end_s"),
        is_("held_s", "Seconds that it held, an open one up to its cluster's moment.", "COALESCE(h.held_s, 0)"),
        *hours({name: f"COALESCE(h.{name}, 0)" for name in AMOUNTS}),
        is_("is_lost", "1 where a later attempt took its slot.", "CASE WHEN n.attempt < n.attempts THEN 1 ELSE 0 END"),
        is_(
            "cause",
            "Why a later attempt took its slot: `evicted`, `node lost`, `node tainted`, `device tainted`, `ended by kubelet`,"
            " `preempted`, `exit CODE`, `failed` where no code is known, the reason of Bursar's own decision, else `deleted`;"
            " empty where none did.",
            _CAUSE,
        ),
        is_(
            "is_failed",
            "1 where it failed, or its node failed it, whether another took its slot or not; what was deleted, evicted or"
            " preempted did not.",
            _FAILED,
        ),
        is_("sequence", "The last event that touched the pod's row; join `v1_events` on it."),
    ),
    "FROM numbered n LEFT JOIN held h ON h.uid = n.uid",
    _ATTEMPT_ROWS,
)  # fmt: skip

#: The columns for reports, pod by pod: without holdings. Stamps are microseconds.
PLACES = View(
    "attempt_places",
    "Which attempt each pod is.",
    tuple(
        is_(name, meaning, text)
        for name, meaning, text in (
            ("uid", "The pod's uid.", "n.uid"),
            ("job", _JOB.meaning, "n.job"),
            ("attempt", "Which attempt at its slot.", "n.attempt"),
            ("cause", "Why a later attempt took its slot.", _CAUSE),
            ("replaced_us", "When that was created.", "n.replaced_us"),
        )
    ),
    "FROM numbered n",
    _NUMBERED,
)


def _sum(column: str, when: str = "") -> str:
    return (
        f"CAST(SUM({f'CASE WHEN {when} THEN {column} ELSE 0 END' if when else column}) AS bigint)"
    )


def _lost(amount: str, unit: str, noun: str, factor: int) -> tuple[Column, Column]:
    exact = _sum(amount, "is_lost = 1")
    return (
        is_(f"lost_{amount}", f"Of it what lost attempts held: {noun}, the exact amount.", exact),
        is_(f"lost_{unit}", "The same in hours.", f"CAST({exact} AS double precision) / {factor}"),
    )


_JOBS = View(
    "v1_jobs",
    "One row for each training job, by uid: its pods, what they held, and what of it was lost by restarts. Sums of `v1_attempts`.",
    (
        CLUSTER,
        is_("namespace", NAMESPACE.meaning, "MIN(namespace)"),
        is_("job", _JOB.meaning, "MIN(job)"),
        _JOB_UID,
        is_("team", "The team charged last.", "MAX(team)"),
        is_("user_name", "The user charged last.", "MAX(user_name)"),
        is_(
            "slots",
            "Its slots that had a pod.",
            "COUNT(DISTINCT namespace || '/' || replica || '/' || slot)",
        ),
        is_("attempts", "Its pods.", "COUNT(*)"),
        is_("restarts", "Pods that a later attempt replaced.", _sum("is_lost")),
        is_("held_s", "Seconds that its pods held, together.", _sum("held_s")),
        *hours({name: _sum(name) for name in AMOUNTS}),
        *_lost("cpu_milli_s", "core_hours", "milli-core-seconds", 3_600_000),
        *_lost("gpu_milli_s", "gpu_hours", "milli-card-seconds", 3_600_000),
        is_("sequence", "The last event that touched one of its pods.", "MAX(sequence)"),
    ),
    "FROM v1_attempts GROUP BY cluster, job_uid",
)

JOBS = (_ATTEMPTS, _JOBS)
