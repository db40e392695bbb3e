"""Notebooks of every kind that can be stopped, as objects to apply; and the Notebook kind itself."""

import pathlib

from tests.cluster.api import eventually

CRD = pathlib.Path(__file__).parent / "crds" / "notebooks.yaml"
PATHS = {
    "Notebook": "/apis/kubeflow.org/v1/namespaces/{}/notebooks",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "Pod": "/api/v1/namespaces/{}/pods",
}
VERSIONS = {"Notebook": "kubeflow.org/v1", "Pod": "v1"}


def install(plane):
    """Installs the Notebook kind."""
    plane.kubectl("apply", "--server-side", "-f", str(CRD))
    plane.kubectl(
        "wait", "--for=condition=Established", "--timeout=60s", "crd", "notebooks.kubeflow.org"
    )


def notebook(kind, name="nb", labels=None):
    """One notebook server."""
    labels = {"app": name, **(labels or {})}
    pod = {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "server", "image": "jupyter/base-notebook", "resources": {}}],
    }
    template = {"metadata": {"labels": labels}, "spec": pod}
    sets = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
    spec = {
        "Notebook": {"template": {"spec": pod}},
        "StatefulSet": {"serviceName": name, **sets},
        "Deployment": sets,
        "Pod": pod,
    }[kind]
    metadata = {"name": name, "labels": labels}
    version = VERSIONS.get(kind, "apps/v1")
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def create(plane, namespace, kind, name="nb", **fields):
    """The object, once its controller is done with it."""
    found = plane.api.request("POST", PATHS[kind].format(namespace), notebook(kind, name, **fields))
    if kind in ("StatefulSet", "Deployment"):
        eventually(
            lambda: get(plane, namespace, kind, name)["status"].get("availableReplicas"), seconds=60
        )
    return found


def get(plane, namespace, kind, name="nb"):
    """The object as it is now."""
    return plane.api.request("GET", f"{PATHS[kind].format(namespace)}/{name}")
