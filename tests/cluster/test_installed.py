"""What `bursar manifests` prints, as a real API server takes it: every object, and its pods as `restricted`."""

import itertools
import json

import pytest

from deploy.commands.installation import identity
from tests.cluster.api import ApiError
from tests.deploy.installations import CASES, objects, pod, workloads

pytestmark = pytest.mark.kube
PODS = "/api/v1/namespaces/bursar-system/pods?dryRun=All"


@pytest.fixture(scope="module")
def installed(plane):
    """The shared control plane; the namespaces alone are there."""
    made = [o for o in objects(*CASES[-1]) if o["kind"] == "Namespace"]
    plane.kubectl("apply", "--server-side", "-f", "-", input=listed(made))
    yield plane
    for one in made:
        plane.api.request("DELETE", f"/api/v1/namespaces/{one['metadata']['name']}")


def listed(found):
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": found})


def test_the_server_takes_every_object_of_every_size_and_mode(installed):
    """A dry run of the server: it checks all fields, admission policies included, and stores nothing."""
    variants = {}
    for one in (o for case in CASES for o in objects(*case)):
        variants.setdefault(identity(one), {})[json.dumps(one, sort_keys=True)] = one
    rounds = itertools.zip_longest(*(found.values() for found in variants.values()))
    told = [
        installed.kubectl(
            "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-",
            input=listed([one for one in some if one is not None]),
        )
        for some in rounds
    ]  # fmt: skip

    assert "".join(told).count("(server dry run)") == sum(map(len, variants.values())) > 40


def test_the_namespace_takes_the_pods_and_none_with_more_privileges(installed):
    """Pod Security admission, level `restricted`."""

    def refused(spec):
        made = {"metadata": {"generateName": "p-"}, "spec": spec}
        try:
            installed.api.request("POST", PODS, made)
        except ApiError as error:
            return str(error)
        return ""

    for case in CASES:
        for workload in workloads(*case):
            # Volumes that are claimed are made by the controller of StatefulSets.
            claims = workload["spec"].get("volumeClaimTemplates", ())
            claimed = [{"name": o["metadata"]["name"], "persistentVolumeClaim": {"claimName": "c"}} for o in claims]  # fmt: skip
            spec = pod(workload)
            assert refused({**spec, "volumes": spec["volumes"] + claimed}) == ""
    loose = {**spec, "hostNetwork": True}
    assert "restricted" in refused(loose)
    assert "restricted" in refused({**spec, "securityContext": {}})
