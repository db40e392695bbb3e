"""The governed kinds, one entry each.

Choices made here, where the objects leave them open:

- A *Job* runs min(parallelism, completions) pods at once, however many it makes in all.
- A *CronJob* is charged one run for as long as it exists, whether a run is due or not: admission can be refused to a
  person, not to a moment at night. That is exact for the policies Forbid and Replace. ``Allow`` lets runs overlap
  without a bound, so the charge is one run there too, and a second run at the same time is not covered by it. Suspending
  stops no run, so what is charged stays until ``status.active`` is empty.
- Pods beyond ``replicas`` while a roll-out goes on (maxSurge) are not asked for by the object, but when they are made.
- A *DaemonSet* is asked for as many pods as its controller wants, which stands in its status.
- A *Rollout* that borrows its template by ``workloadRef`` says nothing of its size itself: it is refused.
- A *RayJob*'s submitter counts where its template is written; KubeRay's own default (500m, 200Mi) is not in the object.
  An ended RayJob keeps its cluster unless ``shutdownAfterJobFinishes``. KubeRay fails a suspended one that keeps it, or
  that selects a cluster (``ValidateRayJobSpec``).
- A *TrainJob* has no templates of its own: :mod:`bus.kube.kinds.runtimes`.
- A *Pod* covers nobody: Spark's driver controls its executors, but asks for itself only.

Source: Kubernetes API reference v1.36 (apps/v1, batch/v1); Argo Rollouts; Kubeflow training-operator v1 and Notebook
v1; KubeRay v1 (``GetWorkerGroupDesiredReplicas``); JobSet v1alpha2; Kubeflow Trainer v2.2.
"""

from __future__ import annotations

from bus.kube.kinds.shape import Kind, PodSet

_REPLICAS = PodSet(replicas="replicas")
_JOB = PodSet(replicas="parallelism", at_most="completions")
_JOB_ENDED = ("Complete", "Failed")

POD = Kind(
    "",
    ("v1",),
    "pods",
    "Pod",
    (PodSet(at="", template=""),),
    deadline="spec.activeDeadlineSeconds",
    ended=(("status.phase", ("Succeeded", "Failed")),),
    covers=False,
)
DEPLOYMENT = Kind(
    "apps", ("v1",), "deployments", "Deployment", (_REPLICAS,), scales="spec", makes=("ReplicaSet",)
)
STATEFULSET = Kind("apps", ("v1",), "statefulsets", "StatefulSet", (_REPLICAS,), scales="spec")
DAEMONSET = Kind(
    "apps",
    ("v1",),
    "daemonsets",
    "DaemonSet",
    (PodSet("", "spec.template", "status.desiredNumberScheduled", default=0),),
)
REPLICASET = Kind("apps", ("v1",), "replicasets", "ReplicaSet", (_REPLICAS,), scales="spec")
JOB = Kind(
    "batch",
    ("v1",),
    "jobs",
    "Job",
    (_JOB,),
    deadline="spec.activeDeadlineSeconds",
    suspend="spec.suspend",
    ended_conditions=_JOB_ENDED,
    queues=True,
)
CRONJOB = Kind(
    "batch",
    ("v1",),
    "cronjobs",
    "CronJob",
    (PodSet("spec.jobTemplate.spec", replicas="parallelism", at_most="completions"),),
    deadline="spec.jobTemplate.spec.activeDeadlineSeconds",
    suspend="spec.suspend",
    active="status.active",
    makes=("Job",),
)
ROLLOUT = Kind(
    "argoproj.io", ("v1alpha1",), "rollouts", "Rollout", (_REPLICAS,), scales="spec",
    makes=("ReplicaSet",),
)  # fmt: skip


def _training(
    resource: str,
    kind: str,
    specs: str,
    *versions: str,
    scales: str = "",
    queues: bool = True,
    makes: tuple[str, ...] = ("Pod",),
) -> Kind:
    """A kind of the Kubeflow training operator: a map of replica types, and the run policy they share."""
    return Kind(
        "kubeflow.org",
        ("v1", *versions),
        resource,
        kind,
        (PodSet(f"spec.{specs}.*", replicas="replicas"),),
        deadline="spec.runPolicy.activeDeadlineSeconds",
        suspend="spec.runPolicy.suspend",
        ended_conditions=("Succeeded", "Failed"),
        gang="spec.runPolicy.schedulingPolicy.minAvailable",
        scales=scales,
        queues=queues,
        makes=makes,
    )


TFJOB = _training("tfjobs", "TFJob", "tfReplicaSpecs")
PYTORCHJOB = _training(
    "pytorchjobs", "PyTorchJob", "pytorchReplicaSpecs", scales="spec.pytorchReplicaSpecs.Worker"
)
XGBOOSTJOB = _training("xgboostjobs", "XGBoostJob", "xgbReplicaSpecs")
PADDLEJOB = _training("paddlejobs", "PaddleJob", "paddleReplicaSpecs")
JAXJOB = _training("jaxjobs", "JAXJob", "jaxReplicaSpecs")
# Refused rather than held: two operators serve this kind, and its suspension was tried with neither.
MPIJOB = _training(
    "mpijobs", "MPIJob", "mpiReplicaSpecs", "v2beta1", queues=False, makes=("Pod", "Job")
)
NOTEBOOK = Kind(
    "kubeflow.org",
    ("v1", "v1beta1", "v1alpha1"),
    "notebooks",
    "Notebook",
    (PodSet(),),
    stopped="kubeflow-resource-stopped",
    makes=("StatefulSet",),
)


def _ray(cluster: str, *, optional: bool) -> tuple[PodSet, ...]:
    """The head, and the worker groups: replicas within their bounds, times the hosts of each replica."""
    return (
        PodSet(f"{cluster}.headGroupSpec", optional=optional),
        PodSet(
            f"{cluster}.workerGroupSpecs.*",
            replicas="replicas",
            default=0,
            at_least="minReplicas",
            at_most="maxReplicas",
            times="numOfHosts",
            optional=True,
        ),
    )


RAYCLUSTER = Kind(
    "ray.io",
    ("v1", "v1alpha1"),
    "rayclusters",
    "RayCluster",
    _ray("spec", optional=False),
    suspend="spec.suspend",
)
RAYJOB = Kind(
    "ray.io",
    ("v1", "v1alpha1"),
    "rayjobs",
    "RayJob",
    # No cluster of its own where it selects one that is there.
    (
        *_ray("spec.rayClusterSpec", optional=True),
        PodSet("spec.submitterPodTemplate", template="", optional=True),
    ),
    deadline="spec.activeDeadlineSeconds",
    suspend="spec.suspend",
    suspends_if=(("spec.shutdownAfterJobFinishes", (True,)),),
    suspends_without=("spec.clusterSelector",),
    ended=(
        ("status.jobDeploymentStatus", ("Complete", "Failed")),
        ("spec.shutdownAfterJobFinishes", (True,)),
    ),
    queues=True,
    makes=("RayCluster", "Job"),
)
JOBSET = Kind(
    "jobset.x-k8s.io",
    ("v1alpha2",),
    "jobsets",
    "JobSet",
    (
        PodSet(
            "spec.replicatedJobs.*",
            "template.spec.template",
            "template.spec.parallelism",
            at_most="template.spec.completions",
            times="replicas",
        ),
    ),
    suspend="spec.suspend",
    ended_conditions=("Completed", "Failed"),
    queues=True,
    makes=("Job",),
)

TRAINJOB = Kind(
    "trainer.kubeflow.org",
    ("v1alpha1",),
    "trainjobs",
    "TrainJob",
    (),
    deadline="spec.activeDeadlineSeconds",
    suspend="spec.suspend",
    ended_conditions=("Complete", "Failed"),
    queues=True,
    has_runtime=True,
    makes=("JobSet",),
)

GOVERNED = (
    POD,
    DEPLOYMENT,
    STATEFULSET,
    DAEMONSET,
    REPLICASET,
    JOB,
    CRONJOB,
    ROLLOUT,
    TFJOB,
    PYTORCHJOB,
    XGBOOSTJOB,
    PADDLEJOB,
    JAXJOB,
    MPIJOB,
    NOTEBOOK,
    RAYCLUSTER,
    RAYJOB,
    JOBSET,
    TRAINJOB,
)

_BY_KIND = {(entry.group, entry.kind): entry for entry in GOVERNED}
_BY_RESOURCE = {
    (entry.group, version, entry.resource): entry
    for entry in GOVERNED
    for version in entry.versions
}


def governed(group: str, kind: str) -> Kind | None:
    """The entry of a kind, in whatever version; None where it is not governed."""
    return _BY_KIND.get((group, kind))


def is_open(owner_kind: str, child_kind: str) -> bool:
    """Whether the owner's controller is no part of Kubernetes, so that its account is not known, and makes such objects."""
    return any(
        entry.kind == owner_kind and not entry.is_native and child_kind in entry.makes
        for entry in GOVERNED
        if entry.covers
    )


def served(group: str, version: str, resource: str) -> Kind | None:
    """The entry of a resource as admission reviews name it; None where it is not governed in that version."""
    return _BY_RESOURCE.get((group, version, resource))
