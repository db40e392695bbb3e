"""What Kubernetes lets a tenant do who has `edit` in a namespace, where a rule of Bursar rests on it."""

import pytest

from tests.cluster.api import eventually

pytestmark = pytest.mark.kube


def test_whoever_may_edit_may_ask_as_any_account_of_his_namespace_alone(plane, namespace):
    """So the rate of reviews goes by the namespace of service accounts (`reactors/admission/deciding/rate.py`)."""
    tenant = f"amy-of-{namespace}"
    plane.kubectl(
        "create", "rolebinding", "edits", "--clusterrole=edit", f"--user={tenant}", f"--namespace={namespace}",
    )  # fmt: skip

    def may(verb, there, subresource=""):
        wanted = {
            "namespace": there,
            "verb": verb,
            "resource": "serviceaccounts",
            "subresource": subresource,
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": tenant, "resourceAttributes": wanted},
        }  # fmt: skip
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return plane.api.request("POST", path, body)["status"]["allowed"]

    eventually(lambda: may("create", namespace), seconds=30)
    assert may("impersonate", namespace)
    assert may("create", namespace, "token")
    for elsewhere in ("kube-system", "default"):
        assert not may("impersonate", elsewhere)
        assert not may("create", elsewhere, "token")
