"""The Node objects that the simulator keeps alive: as a GPU node's agent would register them."""

import datetime
from collections.abc import Mapping

from tests.cluster import build
from tests.cluster.api import Json


def node(
    name: str,
    gpus: int,
    model: str,
    cpu: str,
    memory: str,
    more_labels: Mapping[str, str] | None = None,
) -> Json:
    """A node with `gpus` devices of one model; with 0 it carries no GPU label at all.

    It registers as ready, as a restarted agent does: the simulator takes some seconds to say so of
    a node that does not.
    """
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    amounts = {"cpu": cpu, "memory": memory, "ephemeral-storage": "1Ti", "pods": "110"}
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }
    if gpus:
        amounts["nvidia.com/gpu"] = str(gpus)
        labels |= {"nvidia.com/gpu.product": model, "nvidia.com/gpu.count": str(gpus)}
    labels |= more_labels or {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "phase": "Running",
            "addresses": [{"type": "Hostname", "address": name}],
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "",
                "containerRuntimeVersion": "kwok",
                "kernelVersion": "kwok",
                "kubeProxyVersion": "",
                "kubeletVersion": build.kubernetes_version(),
                "machineID": "",
                "operatingSystem": "linux",
                "osImage": "kwok",
                "systemUUID": "",
            },
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "KubeletReady",
                    "message": "simulated",
                    "lastHeartbeatTime": now,
                    "lastTransitionTime": now,
                }
            ],
        },
    }
