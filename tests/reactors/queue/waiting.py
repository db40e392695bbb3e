"""The kinds that wait in queues, and the spec of an object of each."""

from bus.kube.kinds import GOVERNED

TEMPLATE = {"spec": {"containers": [{"resources": {"limits": {"cpu": "2"}}}]}}
SPECS = {
    "Job": {"template": TEMPLATE},
    "TFJob": {"tfReplicaSpecs": {"Worker": {"template": TEMPLATE}}},
    "PyTorchJob": {"pytorchReplicaSpecs": {"Worker": {"template": TEMPLATE}}, "runPolicy": {}},
    "XGBoostJob": {"xgbReplicaSpecs": {"Master": {"template": TEMPLATE}}},
    "PaddleJob": {"paddleReplicaSpecs": {"Worker": {"template": TEMPLATE}}},
    "JAXJob": {"jaxReplicaSpecs": {"Worker": {"template": TEMPLATE}}},
    "RayJob": {"rayClusterSpec": {"headGroupSpec": {"template": TEMPLATE}}},
    "TrainJob": {"runtimeRef": {"name": "torch"}},
    "JobSet": {"replicatedJobs": [{"template": {"spec": {"template": TEMPLATE}}}]},
}
WAITING = [kind for kind in GOVERNED if kind.queues]
