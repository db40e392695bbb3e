"""What an ordinary tenant tries against a quota of 10 cores, on a real API server with real controllers.

Whatever he does, the live pods by their own limits are never above the quota at any write of the API server's own record;
and what is used comes back to what lives.
"""

import json
import time

import pytest

from tests.acceptance.admission_site import LABEL, Site, workload
from tests.acceptance.attacking import LIMIT, Attack
from tests.cluster.api import MERGE, ApiError

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.waits]


@pytest.fixture
def attack(start_plane, tmp_path):
    plane = start_plane(controllers=True, scheduler=True, simulator=True)
    plane.create_nodes(4)
    site = Site(plane, tmp_path)
    site.begin()
    yield Attack(site)
    site.stop()


def owned(name, kind, uid, cpu=4, api="apps/v1", of="some"):
    container = {"name": "main", "image": "x", "resources": {"limits": {"cpu": str(cpu)}}}
    reference = {"apiVersion": api, "kind": kind, "name": of, "uid": uid, "controller": True}
    metadata = {"name": name, "labels": {LABEL: "team"}, "ownerReferences": [reference]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container]},
    }


def cron_job(name, cpu):
    template = workload("Job", name, cpu)["spec"]["template"]
    metadata = {"name": name, "labels": {LABEL: "team"}}
    template["metadata"]["labels"][LABEL] = "team"
    job = {"metadata": {"labels": {LABEL: "team"}}, "spec": {"template": template}}
    spec = {"schedule": "0 3 1 1 *", "jobTemplate": job}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": spec}


def test_one_charged_owner_covers_no_more_than_it_is_charged_for(attack):
    assert "created" in attack.create(workload("Deployment", "web", 4, 2))
    attack.until_running(2)
    attack.until_used(8000)
    [replica_set] = attack.get("replicasets")["items"]
    uid = replica_set["metadata"]["uid"]

    for number in range(20):
        said = attack.create(
            owned(f"bare-{number}", "ReplicaSet", uid, of=replica_set["metadata"]["name"])
        )
        assert "over-quota" in said
    rollout = owned("lost", "Rollout", "11111111-2222", 40, api="argoproj.io/v1alpha1")
    assert "over-quota" in attack.create(rollout)
    assert "over-quota" in attack.kubectl(
        "scale", "rs", replica_set["metadata"]["name"], "--replicas=50"
    )
    attack.stays(8000)
    assert attack.live() == 8000
    attack.kubectl("delete", "deployment", "web")
    attack.until_used(0)

    assert "created" in attack.create(cron_job("night", 4))
    answers = [
        attack.kubectl("create", "job", f"again-{n}", "--from=cronjob/night") for n in range(6)
    ]
    assert ["created" in answer for answer in answers] == [True] + [False] * 5
    attack.until_running(1, "again")
    attack.until_used(8000)
    assert attack.most() <= LIMIT


def without_limits(item, cpu=300):
    """An object whose containers request so much and state no limit, one of them beside the first."""
    spec = item["spec"]["template"]["spec"] if "template" in item["spec"] else item["spec"]
    asked = {"requests": {"cpu": str(cpu)}}
    spec["containers"] = [{"name": n, "image": "x", "resources": asked} for n in ("main", "aside")]
    return item


def lone_pod(name):
    metadata = {"name": name, "labels": {LABEL: "team"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}}


def test_what_states_no_limits_is_refused_and_runs_nowhere(attack):
    must = "must specify limits.cpu for: main,aside (must-specify)"
    for number in range(3):
        for item in (workload("Job", f"job-{number}", 1), lone_pod(f"pod-{number}")):
            assert must in attack.create(without_limits(item))
    stated = without_limits(lone_pod("half"))
    stated["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1"}}
    assert "must specify limits.cpu for: aside (must-specify)" in attack.create(stated)

    # Nor what makes no pods yet, or had limits when it was created.
    suspended = without_limits(workload("Job", "later", 1))
    suspended["spec"]["suspend"] = True
    assert must in attack.create(suspended)
    for kind in ("Deployment", "StatefulSet"):
        name = kind.lower()
        assert must in attack.create(without_limits(workload(kind, name, 1, 0)))
        assert "created" in attack.create(workload(kind, name, 1, 0))
        taken = [{"op": "remove", "path": "/spec/template/spec/containers/0/resources"}]
        patched = attack.kubectl("patch", name, name, "--type=json", "-p", json.dumps(taken))
        assert "must specify limits.cpu for: main (must-specify)" in patched

    attack.stays(0)
    assert attack.pods() == []
    assert attack.ever() == set()
    assert "created" in attack.create(workload("Job", "said", 10)), "the quota is not at fault"
    attack.until_used(10_000)


def test_the_charge_stays_while_the_pods_run(attack):
    assert "created" in attack.create(workload("Deployment", "web", 5, 2))
    attack.until_running(2)
    attack.until_used(10_000)
    attack.kubectl("rollout", "pause", "deployment/web")
    small = {"name": "main", "resources": {"limits": {"cpu": "1m"}, "requests": {"cpu": "1m"}}}
    patch = json.dumps({"spec": {"template": {"spec": {"containers": [small]}}}})
    assert "patched" in attack.kubectl("patch", "deployment", "web", "-p", patch)
    assert "over-quota" in attack.create(workload("Job", "more", 8))
    attack.stays(10_000)
    assert "over-quota" in attack.create(workload("Job", "more", 8))
    attack.kubectl("scale", "deployment", "web", "--replicas=0")
    attack.until_used(0)

    stateful = workload("StatefulSet", "db", 5, 2)
    stateful["spec"]["updateStrategy"] = {"type": "OnDelete"}
    stateful["spec"]["podManagementPolicy"] = "Parallel"
    assert "created" in attack.create(stateful)
    attack.until_running(2, "db")
    one = {"name": "main", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}}
    patch = {"spec": {"replicas": 10, "template": {"spec": {"containers": [one]}}}}
    attack.kubectl("patch", "statefulset", "db", "-p", json.dumps(patch))
    time.sleep(5)
    assert attack.live() <= LIMIT
    assert attack.most() <= LIMIT


def test_a_pod_that_a_controller_adopts_is_charged_once(attack):
    lone = workload("Deployment", "web", 4, 1)
    pod = {"apiVersion": "v1", "kind": "Pod", **lone["spec"]["template"]}
    pod["metadata"] = {"name": "lone", "labels": {"app": "web", LABEL: "team"}}
    assert "created" in attack.create(pod)
    attack.until_used(4000)
    replica_set = {**lone, "kind": "ReplicaSet"}
    assert "created" in attack.create(replica_set)
    attack.site.until(lambda: attack.get("pod", "lone")["metadata"].get("ownerReferences"))
    attack.until_used(4000)
    attack.kubectl("delete", "replicaset", "web")
    attack.until_used(0)
    assert attack.most() <= LIMIT


def test_orphans_take_the_charge_along_and_the_delete_ends(attack):
    deployment = workload("Deployment", "web", 4, 2)
    # An orphan belongs to the quota that it names itself, and has the labels of the template.
    deployment["spec"]["template"]["metadata"]["labels"][LABEL] = "team"
    assert "created" in attack.create(deployment)
    attack.until_running(2)
    attack.until_used(8000)
    attack.kubectl("delete", "deployment", "web", "--cascade=orphan", "--wait=false")
    attack.site.until(lambda: not attack.get("deployments")["items"], 30)
    attack.stays(8000)
    assert attack.live() == 8000
    assert "over-quota" in attack.create(workload("Job", "more", 4))
    [replica_set] = attack.get("replicasets")["items"]
    name = replica_set["metadata"]["name"]
    attack.kubectl("delete", "replicaset", name, "--cascade=orphan", "--wait=false")
    attack.site.until(lambda: not attack.get("replicasets")["items"], 30)
    attack.stays(8000)
    assert attack.live() == 8000
    attack.kubectl("delete", "pods", "--all", "--wait=false")
    attack.until_used(0)


def test_daemon_sets_are_charged_and_made_up_owners_free_nothing(attack):
    daemons = workload("Deployment", "agent", 4)
    del daemons["spec"]["replicas"]
    daemons["kind"] = "DaemonSet"
    assert "over-quota" in attack.create(daemons), "four nodes"
    daemons["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "2"
    assert "created" in attack.create(daemons)
    attack.until_running(4, "agent")
    attack.until_used(8000)

    [node, *_] = attack.get("nodes")["items"]
    name, uid = node["metadata"]["name"], node["metadata"]["uid"]
    for made_up in (
        owned("evil", "DaemonSet", "no-such", api="evil.io/v1"),
        owned(f"static-{name}", "Node", uid, api="v1", of=name),
    ):
        assert "over-quota" in attack.create(made_up)
    attack.kubectl("delete", "daemonset", "agent")
    attack.until_used(0)
    assert attack.most() <= LIMIT


def test_pods_of_an_object_that_nobody_watches_are_held_one_by_one(attack):
    """ReplicationControllers are no governed kind: their pods are asked about as they come, whoever makes them."""
    template = workload("Deployment", "old", 4)["spec"]["template"]
    template["metadata"]["labels"][LABEL] = "team"
    old = {
        "apiVersion": "v1", "kind": "ReplicationController",
        "metadata": {"name": "old", "labels": {LABEL: "team"}},
        "spec": {"replicas": 50, "selector": {"app": "old"}, "template": template},
    }  # fmt: skip
    assert "created" in attack.create(old)
    attack.until_running(2, "old")
    attack.until_used(8000)
    attack.kubectl("scale", "rc", "old", "--replicas=80")
    attack.stays(8000)
    assert attack.live() == 8000

    attack.kubectl("delete", "rc", "old", "--cascade=orphan", "--wait=false")
    attack.site.until(lambda: not attack.get("rc")["items"], 30)
    assert "over-quota" in attack.create(workload("Job", "more", 4))
    attack.stays(8000)
    assert "created" in attack.create(old), "it adopts them, and is refused more"
    attack.stays(8000)
    assert attack.live() == 8000
    attack.kubectl("scale", "rc", "old", "--replicas=0")
    attack.until_used(0)
    assert attack.pods() == []
    assert attack.most() <= LIMIT


def test_a_roll_out_with_room_goes_on_and_leaves_no_charge_behind(attack):
    assert "created" in attack.create(workload("Deployment", "web", 2, 3))
    attack.until_running(3)
    patch = {"spec": {"template": {"metadata": {"annotations": {"again": "1"}}}}}
    attack.api.request(
        "PATCH", "/apis/apps/v1/namespaces/default/deployments/web", patch, content_type=MERGE
    )

    def is_new():
        sets = attack.get("replicasets")["items"]
        return len(sets) == 2 and sorted(one["status"].get("readyReplicas", 0) for one in sets) == [
            0,
            3,
        ]

    attack.site.until(is_new, 60)
    attack.until_used(6000)
    raised = [line for line in why(attack) if line["reason"] == "raised"]
    assert raised and "ReplicaSet web-" in raised[0]["numbers"]
    assert attack.most() <= LIMIT
    with pytest.raises(ApiError, match="over-quota"):
        scale = {"spec": {"replicas": 6}}
        path = "/apis/apps/v1/namespaces/default/deployments/web/scale"
        attack.api.request("PATCH", path, scale, content_type=MERGE)


def why(attack):
    """What `bursar why` says of the Deployment."""
    process = attack.site.start("why", "default/web", "-o", "json")
    process.wait(60)
    text = (attack.site.folder / "why.log").read_text()
    return json.loads(text[text.index("[") :])
