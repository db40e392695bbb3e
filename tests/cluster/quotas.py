"""Quotas on the shared control plane."""

import json
import pathlib

import pytest

from bus.kube.crds.manifests import manifest

ELASTIC = pathlib.Path(__file__).parent / "crds" / "elasticquotas.yaml"


@pytest.fixture(scope="module")
def installed(plane):
    """The shared control plane with the kinds of quotas."""
    plane.kubectl(
        "apply", "--server-side", "-f", "-", input=manifest() + "\n---\n" + ELASTIC.read_text()
    )
    plane.kubectl(
        "wait", "--for=condition=Established", "--timeout=60s", "crd",
        "bizgroupresourcequotas.bursar.io", "elasticquotas.scheduling.sigs.k8s.io",
    )  # fmt: skip
    return plane


@pytest.fixture
def name(installed, namespace):
    """A quota name of this test; the quota goes with it."""
    yield namespace
    installed.kubectl("delete", "bgrq", namespace, "--ignore-not-found")


def quota(name, version="v1alpha1", **spec):
    return json.dumps(
        {
            "apiVersion": f"bursar.io/{version}",
            "kind": "BizGroupResourceQuota",
            "metadata": {"name": name},
            "spec": spec,
        }
    )
