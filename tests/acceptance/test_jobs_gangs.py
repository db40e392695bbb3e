"""PodGroups of training jobs on a real API server: `bursar up` makes them with no rights but its role's, and the pods when it may.

kube-scheduler places Kubernetes' own gangs whole, or not at all. Of volcano only the API is here: the test says the phase that its
scheduler would.
"""

import re
from pathlib import Path

import pytest

from tests.acceptance.jobs_scene import MANIFESTS, Scene
from tests.acceptance.jobs_storm import Up
from tests.acceptance.killed_up import arm, was_hit
from tests.cluster.api import MERGE, ApiError, eventually
from tests.cluster.plane import GANG_FLAGS
from tests.cluster.training import job, path_of

pytestmark = [
    pytest.mark.kube, pytest.mark.slow, pytest.mark.waits, pytest.mark.timeout(240),
]  # fmt: skip

CRDS = Path(__file__).parents[1] / "cluster" / "crds"
NATIVE = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
VOLCANO = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
WORKERS = [f"tf-worker-{number}-1" for number in range(3)]


@pytest.fixture
def plane(start_plane):
    parts = {"controllers": True, "scheduler": True, "simulator": True}
    gates = {"apiserver_flags": GANG_FLAGS, "scheduler_flags": GANG_FLAGS[:1]}
    running = start_plane(**parts, **gates, unsafe_no_fsync=True)
    folders = (MANIFESTS / "crds", MANIFESTS / "rbac", MANIFESTS / "training", CRDS)
    for path in folders:
        running.kubectl("apply", "--server-side", "-f", str(path))
    running.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
    running.create_nodes(3)
    return running


def starts(plane, folder, scheduler):
    up = Up(plane, folder)
    up.environment["BURSAR_JOBS__POLICY__GANG_SCHEDULER"] = scheduler
    up.start()
    return up


def test_a_job_is_one_of_kubernetes_own_gangs(plane, tmp_path):
    """Three pods of 60 of 96 cores, and two nodes: kube-scheduler leaves all of them waiting until there is a third."""
    up, node = starts(plane, tmp_path, "kube-scheduler"), "/api/v1/nodes/node-2"
    try:
        plane.api.request("PATCH", node, {"spec": {"unschedulable": True}}, content_type=MERGE)
        body = job("tf", "TFJob", marked=False, replicas={"Worker": (3, "ExitCode")})
        template = body["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
        template["containers"][0]["resources"] = {"requests": {"cpu": "60"}}
        plane.api.request("POST", path_of("TFJob"), body)
        scene = Scene(plane)

        def told():
            found = [one["status"].get("conditions", ()) for one in scene.pods().values()]
            return [c for several in found for c in several if c["reason"] == "Unschedulable"]

        eventually(lambda: len(told()) == 3, seconds=60)
        assert plane.api.request("GET", f"{NATIVE}/tf")["spec"]["schedulingPolicy"]["gang"] == {"minCount": 3}  # fmt: skip
        assert not any(one["spec"].get("nodeName") for one in scene.pods().values())
        plane.api.request("PATCH", node, {"spec": {"unschedulable": False}}, content_type=MERGE)
        scene.runs(*WORKERS)
        scene.ends(0, *WORKERS)
        scene.waits_for("tf", "TFJob", "Succeeded")
        # It goes once kube-controller-manager sees that no pod of it runs.
        eventually(
            lambda: plane.api.request("GET", f"{NATIVE}/tf")["metadata"].get("deletionTimestamp")
        )
    finally:
        up.kill()


@pytest.mark.parametrize("label", ["job.before_group", "job.after_group"])
def test_no_pod_is_made_before_volcano_lets_the_gang_in_also_after_a_kill(label, plane, tmp_path):
    up = starts(plane, tmp_path, "volcano")
    arm(up.armed, label, "reactor")
    try:
        scene = Scene(plane)
        scene.submits("tf", "TFJob", replicas={"Worker": (3, "ExitCode")})

        def group():
            try:
                return next(iter(plane.api.request("GET", VOLCANO)["items"]), None)
            except ApiError as error:
                # A kind that was installed a moment ago.
                assert error.status == 429
                return None

        up.process.wait(60)
        assert was_hit(up.armed, label)
        up.kill()
        up.start()
        uid = eventually(group, seconds=60)["metadata"]["uid"]
        assert group()["spec"]["minMember"] == 3
        phase(plane, "Pending")
        eventually(lambda: "gang_waits" in up.asks("jobs", "list"), seconds=60)
        eventually(
            lambda: re.search(r"podgroup/tf +Pending", up.asks("jobs", "show", "default/tf")),
            seconds=60,
        )
        assert scene.pods() == {}

        phase(plane, "Inqueue")
        eventually(lambda: sorted(scene.pods()) == WORKERS, seconds=60)
        assert {one["spec"]["schedulerName"] for one in scene.pods().values()} == {"volcano"}
        assert group()["metadata"]["uid"] == uid
        why = up.asks("why", "default/tf")
        assert "keep_pod_group" in why and "group_missing" in why, why
    finally:
        up.kill()


def phase(plane, said):
    """What volcano's scheduler writes."""
    body = {"status": {"phase": said}}
    plane.api.request("PATCH", f"{VOLCANO}/tf/status", body, content_type=MERGE)
