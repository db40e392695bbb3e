"""The governed kinds, one entry each.

Choices made here, where the objects leave them open:

- A *Job* runs min(parallelism, completions) pods at once, however many it makes in all. Succeeded completions are out, and so are
  failed indexes under ``backoffLimitPerIndex``. A Job without completions makes nothing more after its first success.
- An object with another controller in ``managedBy`` asks for nothing: its pods run in another cluster.
- A *CronJob* is charged one run for as long as it exists, whether a run is due or not: admission can refuse a
  person, not a run at night. That is exact for the policies Forbid and Replace. ``Allow`` lets runs overlap without
  a bound, so the charge is one run there too, and a second run at the same time is not covered by it. Suspending
  stops no run, so the charge stays until ``status.active`` is empty.
- Pods beyond ``replicas`` while a roll-out goes on (maxSurge) are not asked for by the object, but when they are made.
- A *DaemonSet* asks for nothing itself: each of its pods is asked for. Its status says on how many nodes it may run, and grows
  without a review when its selector or the nodes change.
- A *Rollout* with a template borrowed by ``workloadRef`` has no size of its own: it is refused.
- A CronJob with suspended Jobs asks for nothing: the demand comes with each resumed Job.
- A *RayCluster*'s pods count with the containers added by KubeRay: autoscaler, log collector, and the workers' wait
  for the head. The Job that cleans Redis up counts below the cluster.
- A *RayJob* has its own submitter pod in ``K8sJobMode``, one container more in the head in ``SidecarMode``, and
  none in other modes. KubeRay makes nothing for an ended RayJob: a cluster kept by it counts below it. KubeRay
  fails a suspended one with a kept or selected cluster (``ValidateRayJobSpec``).
- A *JobSet* without a failure policy never restarts: its succeeded Jobs are excluded. With one, a restart makes
  them again.
- Finished replicas of *training jobs* count to the end: the training operator recreates a deleted pod. The init
  containers of the training operator (PyTorch's wait for its master, MPI's ``kubectl-delivery``) depend on its
  configuration, and count when the pod is made. An *MPIJob* without a number of workers has none.
- A *TrainJob* has no templates of its own: :mod:`bus.kube.kinds.runtimes`.
- A *Pod* covers nobody: Spark's driver controls its executors, but asks for itself only.

Source: Kubernetes API reference v1.36 (apps/v1, batch/v1), ``pkg/controller/job``; Argo Rollouts; Kubeflow training-operator
v1.9, mpi-operator v2beta1 and Notebook v1; KubeRay v1.7 (``GetWorkerGroupDesiredReplicas``, ``DefaultHeadPodTemplate``,
``GetSubmitterTemplate``); JobSet v1alpha2 (``executeFailurePolicy``); Kubeflow Trainer v2.2.
"""

from __future__ import annotations

from typing import Any

from bus.kube.kinds.progress import jobs_left, pods_left
from bus.kube.kinds.shape import Added, Kind, PodSet

_REPLICAS = PodSet(replicas="replicas")
_JOB = PodSet(replicas="parallelism", at_most="completions", left=pods_left)
# The last two stand before the end: the controller deletes running pods, and makes nothing more.
_JOB_ENDED = ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")

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
    (PodSet("", "spec.template", default=0),),
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
    managed_by="spec.managedBy",
    managers=("kubernetes.io/job-controller",),
    queues=True,
)
CRONJOB = Kind(
    "batch",
    ("v1",),
    "cronjobs",
    "CronJob",
    (
        PodSet(
            "spec.jobTemplate.spec",
            replicas="parallelism",
            at_most="completions",
            suspended="suspend",
        ),
    ),
    deadline="spec.jobTemplate.spec.activeDeadlineSeconds",
    suspend="spec.suspend",
    active="status.active",
    managed_by="spec.jobTemplate.spec.managedBy",
    managers=("kubernetes.io/job-controller",),
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
    sets: tuple[PodSet, ...] = (),
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
        sets or (PodSet(f"spec.{specs}.*", replicas="replicas"),),
        deadline="spec.runPolicy.activeDeadlineSeconds",
        suspend="spec.runPolicy.suspend",
        ended_conditions=("Succeeded", "Failed"),
        managed_by="spec.runPolicy.managedBy",
        managers=("kubeflow.org/training-operator", "kubeflow.org/mpi-operator", "bursar.io/jobs"),
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
PADDLEJOB = _training(
    "paddlejobs", "PaddleJob", "paddleReplicaSpecs", scales="spec.paddleReplicaSpecs.Worker"
)
JAXJOB = _training("jaxjobs", "JAXJob", "jaxReplicaSpecs", scales="spec.jaxReplicaSpecs.Worker")
# Refused rather than held: two operators serve this kind, and its suspension was tried with neither.
MPIJOB = _training(
    "mpijobs",
    "MPIJob",
    "mpiReplicaSpecs",
    "v2beta1",
    sets=(
        PodSet("spec.mpiReplicaSpecs.Launcher", replicas="replicas", optional=True),
        PodSet("spec.mpiReplicaSpecs.Worker", replicas="replicas", default=0, optional=True),
    ),
    queues=False,
    makes=("Pod", "Job"),
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


def _container(name: str, cpu: str, memory: str, **more: Any) -> Added:
    """A container with equal requests and limits."""
    return Added(name, (cpu, memory), (cpu, memory), **more)


_SUBMITTER = Added(
    "ray-job-submitter",
    ("500m", "200Mi"),
    ("1", "1Gi"),
    when=(("spec.submissionMode", ("SidecarMode",)),),
)
_WAIT = _container("wait-gcs-ready", "200m", "256Mi", is_init=True)


def _ray(cluster: str, *head: Added, optional: bool) -> tuple[PodSet, ...]:
    """The head, and the worker groups: replicas within their bounds, times the hosts of each replica."""
    autoscaler = _container(
        "autoscaler", "500m", "512Mi",
        when=((f"{cluster}.enableInTreeAutoscaling", (True,)),),
        resources=f"{cluster}.autoscalerOptions.resources",
    )  # fmt: skip
    collector = Added(
        "ray-history-collector",
        ("50m", "64Mi"),
        ("200m", "256Mi"),
        if_present=f"{cluster}.historyServerOptions.collectorOptions",
        resources=f"{cluster}.historyServerOptions.collectorOptions.resources",
    )
    return (
        PodSet(f"{cluster}.headGroupSpec", adds=(autoscaler, collector, *head), optional=optional),
        PodSet(
            f"{cluster}.workerGroupSpecs.*",
            replicas="replicas",
            default=0,
            at_least="minReplicas",
            at_most="maxReplicas",
            times="numOfHosts",
            suspended="suspend",
            adds=(_WAIT, collector),
            optional=True,
        ),
    )


_RAY_MANAGERS = ("ray.io/kuberay-operator",)

RAYCLUSTER = Kind(
    "ray.io",
    ("v1", "v1alpha1"),
    "rayclusters",
    "RayCluster",
    _ray("spec", optional=False),
    suspend="spec.suspend",
    managed_by="spec.managedBy",
    managers=_RAY_MANAGERS,
    makes=("Pod", "Job"),
)
RAYJOB = Kind(
    "ray.io",
    ("v1", "v1alpha1"),
    "rayjobs",
    "RayJob",
    # It has no cluster of its own if it selects an existing one.
    (
        *_ray("spec.rayClusterSpec", _SUBMITTER, optional=True),
        PodSet(
            "spec.submitterPodTemplate",
            template="",
            when=(("spec.submissionMode", ("", "K8sJobMode")),),
            default_container=_SUBMITTER,
            optional=True,
        ),
    ),
    deadline="spec.activeDeadlineSeconds",
    suspend="spec.suspend",
    suspends_if=(("spec.shutdownAfterJobFinishes", (True,)),),
    suspends_without=("spec.clusterSelector",),
    ended=(("status.jobDeploymentStatus", ("Complete", "Failed", "ValidationFailed")),),
    managed_by="spec.managedBy",
    managers=_RAY_MANAGERS,
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
            left=jobs_left,
        ),
    ),
    suspend="spec.suspend",
    ended_conditions=("Completed", "Failed"),
    managed_by="spec.managedBy",
    managers=("jobset.sigs.k8s.io/jobset-controller",),
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
    managed_by="spec.managedBy",
    managers=("trainer.kubeflow.org/trainjob-controller",),
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
    """Whether the owner's controller is outside Kubernetes, so with an unknown account, and makes such objects."""
    return any(
        entry.kind == owner_kind and not entry.is_native and child_kind in entry.makes
        for entry in GOVERNED
        if entry.covers
    )


def served(group: str, version: str, resource: str) -> Kind | None:
    """The entry of a resource as admission reviews name it; None for a version outside the governed ones."""
    return _BY_RESOURCE.get((group, version, resource))
