"""TrainJobs, their training runtimes and JobSets, as users and Kubeflow Trainer write them, and a cluster that sees them."""

import msgspec

from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Record
from bus.sources.catalogue import TRAINING_RUNTIMES, WORKLOADS
from tests.bus.kube.runtimes import container, job, runtime
from tests.reactors.cluster import QUOTA, Cluster

API = "trainer.kubeflow.org"
OF_TRAIN_JOB = {"group": API, "version": "v1alpha1", "resource": "trainjobs", "kind": "TrainJob"}
OF_JOB_SET = {"group": "jobset.x-k8s.io", "version": "v1alpha2", "resource": "jobsets", "kind": "JobSet"}  # fmt: skip
TRAINER = {"user": "system:serviceaccount:kubeflow-system:kubeflow-trainer-controller-manager"}
NAMESPACED, CLUSTER = TRAINING_RUNTIMES


def torch(cores=2, nodes=2):
    return runtime(job("node", container("node", str(cores)), step="trainer"), policy={"numNodes": nodes, "torch": {}})  # fmt: skip


def train_job(name="t", quota="team", *, kind="ClusterTrainingRuntime", **spec):
    labels = {QUOTA: quota} if quota else {}
    metadata = {"name": name, "namespace": "ns", "uid": name, "labels": labels}
    return {"metadata": metadata, "spec": {"runtimeRef": {"name": "torch", "kind": kind}, **spec}}


def job_set(name="t", cores=2, nodes=2, **spec):
    """As Trainer makes it, below the TrainJob of its name."""
    owner = {"apiVersion": f"{API}/v1alpha1", "kind": "TrainJob", "name": name, "uid": name, "controller": True}  # fmt: skip
    metadata = {"name": name, "namespace": "ns", "uid": f"{name}-set", "ownerReferences": [owner]}
    made = job("node", container("node", str(cores)), parallelism=nodes, completions=nodes)
    return {"metadata": metadata, "spec": {"replicatedJobs": [made], **spec}}


class Trainer(Cluster):
    """A cluster in which objects are seen as their sources say them."""

    async def see_object(self, source, item, *, type="ADDED", **metadata):
        version = str(next(self._versions))
        whole = {**item, "metadata": {**item["metadata"], "resourceVersion": version, **metadata}}
        record = Record(type, msgspec.json.encode(whole), self.clock.us, "test", "test")
        event = source.translate(record, LabelPolicy())
        await self.transport.publish([msgspec.structs.replace(event, cluster="c1")])
        await self.settled()

    async def see_runtime(self, item, *, source=CLUSTER, name="torch", **fields):
        namespace = {"namespace": "ns"} if source is NAMESPACED else {}
        metadata = {"name": name, "uid": f"runtime-{name}", **namespace}
        await self.see_object(source, {**item, "metadata": metadata}, **fields)

    async def see_train_job(self, item, **fields):
        await self.see_object(WORKLOADS["TrainJob"], item, **fields)

    async def see_job_set(self, item, **fields):
        await self.see_object(WORKLOADS["JobSet"], item, **fields)

    async def begin(self, item):
        answer = await self.review(item, **OF_TRAIN_JOB)
        assert answer.allowed, answer
        await self.see_train_job(item)
