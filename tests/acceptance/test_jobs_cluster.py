"""Training jobs on a real API server with simulated kubelets, run by `bursar up` with no rights but its role's, and killed.

A TFJob loses a worker to a kill and one to its node, a PyTorchJob has its master fail, a third job its program. `bursar up` is
killed while pods are being made and while they fail. No slot ever has two live pods, and each job ends as it should.
"""

from collections import Counter

import pytest

from tests.acceptance.jobs_scene import MANIFESTS, PODS, Scene, Up
from tests.cluster.api import MERGE, eventually
from tests.cluster.training import CRDS, job, path_of

pytestmark = [
    pytest.mark.kube, pytest.mark.slow, pytest.mark.waits, pytest.mark.timeout(240),
]  # fmt: skip


@pytest.fixture
def plane(start_plane):
    running = start_plane(controllers=True, scheduler=True, simulator=True, unsafe_no_fsync=True)
    for path in (MANIFESTS / "crds", MANIFESTS / "rbac", MANIFESTS / "training" / "jobs.yaml", CRDS):  # fmt: skip
        running.kubectl("apply", "--server-side", "-f", str(path))
    running.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
    running.create_nodes(3)
    return running


@pytest.fixture
def up(plane, tmp_path):
    found = Up(plane, tmp_path)
    found.start()
    yield found
    found.kill()


def test_jobs_run_to_their_end_while_workers_nodes_and_bursar_are_lost(plane, up):
    scene = Scene(plane)
    scene.submits("tf", "TFJob", replicas={"Worker": (3, "ExitCode")})
    both = {"Master": (1, "OnFailure"), "Worker": (2, "OnFailure")}
    scene.submits("pt", "PyTorchJob", replicas=both, cleanPodPolicy="All")
    scene.submits("bad", "TFJob", replicas={"Worker": (1, "ExitCode")})
    eventually(lambda: len(scene.pods()) > 2, seconds=60)
    up.kill()
    up.start()
    workers = [f"tf-worker-{index}-1" for index in range(3)]
    scene.runs(*workers, "pt-master-0-1", "pt-worker-0-1", "pt-worker-1-1", "bad-worker-0-1")

    up.kill()
    scene.ends(137, "tf-worker-1-1", "pt-master-0-1")
    scene.ends(1, "bad-worker-0-1")
    up.start()
    scene.runs("tf-worker-1-2", "pt-master-0-2")
    assert scene.waits_for("bad", "TFJob", "Failed")["completionTime"]

    scene.loses_node_of("tf-worker-2-1")
    eventually(lambda: scene.pods().get("tf-worker-2-2"), seconds=60)
    check_ends(scene, up)


def check_ends(scene, up):
    """All that is left ends well, and what was lost was made again once."""
    going = [name for name in scene.pods() if name.startswith(("tf", "pt"))]
    scene.runs(*going)
    listed = up.asks("jobs", "list", "-o", "wide")
    assert listed.count("bursar") >= 3, listed
    scene.ends(0, *going)
    counts = {"succeeded": 3}
    # Counts alone are written at the next tick.
    eventually(
        lambda: scene.waits_for("tf", "TFJob", "Succeeded")["replicaStatuses"]["Worker"] == counts,
        seconds=30,
    )
    scene.waits_for("pt", "PyTorchJob", "Succeeded")
    eventually(lambda: not [one for one in scene.pods() if one.startswith("pt")], seconds=60)
    services = scene.api.request("GET", "/api/v1/namespaces/default/services")["items"]
    assert not [one for one in services if one["metadata"]["name"].startswith("pt")]
    names = Counter(name for name, _ in scene.made)
    print(f"pods made: {sorted(names)}")
    assert set(names.values()) == {1}


def test_a_job_that_is_made_again_takes_the_pods_that_its_user_kept(plane, up):
    """`kubectl delete --cascade=orphan`: no pod is lost, none is made twice, and one that loses its labels is let go."""
    scene, names = Scene(plane), [f"tf-worker-{index}-1" for index in range(3)]
    scene.submits("tf", "TFJob", replicas={"Worker": (3, "ExitCode")})
    scene.runs(*names)
    before = {name: one["metadata"]["uid"] for name, one in scene.pods().items()}
    plane.kubectl("delete", "tfjob", "tf", "--cascade=orphan")
    eventually(lambda: not any(map(owner_of, scene.pods().values())), seconds=60)
    scene.submits("tf", "TFJob", replicas={"Worker": (3, "ExitCode")})
    uid = plane.api.request("GET", f"{path_of('TFJob')}/tf")["metadata"]["uid"]
    eventually(lambda: {owner_of(one) for one in scene.pods().values()} == {uid}, seconds=60)
    assert {name: one["metadata"]["uid"] for name, one in scene.pods().items()} == before

    plane.kubectl("label", "pod", names[1], "training.kubeflow.org/job-name=mine", "--overwrite")

    def found():
        items = plane.api.request("GET", PODS)["items"]
        return {one["metadata"]["name"]: owner_of(one) for one in items}

    wanted = {names[0]: uid, names[1]: "", names[2]: uid, "tf-worker-1-2": uid}
    eventually(lambda: found() == wanted, seconds=60)
    why = up.asks("why", "default/tf")
    assert "adopt_replica" in why and "release_replica" in why, why


def test_a_job_with_a_scheduling_policy_gets_nodes_for_all_its_pods_or_for_none(plane, tmp_path):
    """Three pods of 60 of 96 cores, and two nodes: Bursar's own scheduler leaves all of them waiting until there is a third."""
    up, node = Up(plane, tmp_path), "/api/v1/nodes/node-2"
    up.environment["BURSAR_SCHEDULING__MODE"] = "on"
    # Before its start: pods and nodes are watched apart, and no order between them is promised.
    plane.api.request("PATCH", node, {"spec": {"unschedulable": True}}, content_type=MERGE)
    up.start()
    try:
        replicas = {"Worker": (3, "ExitCode")}
        body = job("tf", "TFJob", marked=False, replicas=replicas, schedulingPolicy={})
        template = body["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
        template["containers"][0]["resources"] = {"requests": {"cpu": "60"}}
        plane.api.request("POST", path_of("TFJob"), told_to(body, "bursar"))
        scene = Scene(plane)

        def told():
            found = [one["status"].get("conditions", ()) for one in scene.pods().values()]
            return [c for several in found for c in several if c["reason"] == "Unschedulable"]

        eventually(lambda: len(told()) == 3, seconds=60)
        assert not any(one["spec"].get("nodeName") for one in scene.pods().values())
        plane.api.request("PATCH", node, {"spec": {"unschedulable": False}}, content_type=MERGE)
        nodes = {f"node-{number}" for number in range(3)}
        eventually(
            lambda: {one["spec"].get("nodeName") for one in scene.pods().values()} == nodes,
            seconds=60,
        )
    finally:
        up.kill()


def told_to(body, scheduler):
    """The job, its pods of this scheduler."""
    for replicas in body["spec"]["tfReplicaSpecs"].values():
        replicas["template"]["spec"]["schedulerName"] = scheduler
    return body


def owner_of(pod):
    """The uid of its controller; "" for none."""
    owners = pod["metadata"].get("ownerReferences", ())
    return next((one["uid"] for one in owners if one.get("controller")), "")
