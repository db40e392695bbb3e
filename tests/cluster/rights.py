"""Rights of Bursar's accounts, as a real API server has them."""

from pathlib import Path

MANIFESTS = Path(__file__).parents[2] / "deploy" / "manifests"


def token(plane, account):
    return plane.kubectl("create", "token", account, "--namespace=bursar-system").strip()


def may(plane, account, resource, verb, namespace="default", name=""):
    """What the API server's authorizer says."""
    plain, _, subresource = resource.partition("/")
    plain, _, group = plain.partition(".")
    attributes = {"group": group, "resource": plain, "subresource": subresource, "verb": verb}
    spec = {
        "user": f"system:serviceaccount:bursar-system:{account}",
        "groups": ["system:serviceaccounts", "system:authenticated"],
        "resourceAttributes": {**attributes, "namespace": namespace, "name": name},
    }
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    return plane.api.request("POST", path, body)["status"]["allowed"]


def waits_for_a_node(name):
    container = {"name": "main", "image": "x"}
    return {
        "metadata": {"name": name},
        "spec": {"schedulerName": "bursar", "containers": [container]},
    }
