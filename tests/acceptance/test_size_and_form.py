"""A tenant who chooses size and form of each request, against a whole `bursar up`, in both failure policies.

The API server writes `<` in six bytes, so a request of 590 KB is a review above any limit. Whatever is asked, no look at the
cluster shows more than the quota allows, a neighbour is never refused, and everything can be deleted, with Bursar away too.
"""

import http.client
import json
import threading
from contextlib import closing

import pytest

from tests.acceptance.admission_site import LABEL, Site, quota
from tests.bus.kube.watch.odd_bytes import PARAMETERS, written
from tests.cluster.api import MERGE, ApiError, eventually

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.waits, pytest.mark.timeout(600)]

CLASS = "gpu.nvidia.com"
MOST_CPU, MOST_DEVICES = 10, 2
#: Namespace: its quota, "" for none.
NAMESPACES = {"tenant": "tenant", "neighbour": "neighbour", "free": ""}
#: What an API server writes longer than it was asked, or keeps longer than it writes.
CHARACTERS = {
    "less-than": "<", "greater-than": ">", "ampersand": "&", "line separator": "\u2028", "paragraph separator": "\u2029",
    "quote": '"', "backslash": "\\", "control": "\u0001", "delete": "\u007f", "beyond the basic plane": "\U0001f600", "plain": "x",
}  # fmt: skip
FOLDERS = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "ReplicationController": "/api/v1/namespaces/{}/replicationcontrollers",
    **{
        kind: f"/apis/apps/v1/namespaces/{{}}/{kind.lower()}s"
        for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
    },
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "CronJob": "/apis/batch/v1/namespaces/{}/cronjobs",
}
PLACES = ("args", "command", "env", "init")
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims"
#: Of one object in etcd, and of one request, a little less than the API server takes.
STORED, SENT = 1_400_000, 2_900_000


def long(character, bytes=STORED):
    """As many of the character as one object can hold."""
    return character * min(
        bytes // len(character.encode()), SENT // len(json.dumps(character, ensure_ascii=False)[1:-1].encode())
    )  # fmt: skip


def template(name, cpu, text="", place="args", grace=600):
    """Pods that are bound when they are made; there is no kubelet, so a deletion ends with the force that ends it."""
    container = {"name": "main", "image": "x", "resources": {"limits": {"cpu": str(cpu)}}}
    spec = {
        "containers": [container],
        "nodeName": "node",
        "terminationGracePeriodSeconds": grace,
    }
    if place == "env":
        container["env"] = [{"name": "TEXT", "value": text}]
    elif place == "init":
        spec["initContainers"] = [{"name": "first", "image": "x", "args": [text]}]
    else:
        container[place] = [text]
    return {"metadata": {"labels": {"app": name, "cpu": str(cpu)}}, "spec": spec}


def thing(kind, name, cpu, text="", place="args", replicas=1):
    """An object of a kind, all of whose pods ask for ``cpu``."""
    pods = template(name, cpu, text, place)
    body = {"kind": kind, "metadata": {"name": name, "labels": {"app": name}}}
    if kind == "Pod":
        return body | {"metadata": {"name": name, **pods["metadata"]}, "spec": pods["spec"]}
    if kind in ("Job", "CronJob"):
        pods["spec"]["restartPolicy"] = "Never"
        job = {"parallelism": replicas, "completions": replicas, "template": pods}
        cron = {"schedule": "* * * * *", "jobTemplate": {"spec": job}}
        return body | {"spec": job if kind == "Job" else cron}
    selector = {"app": name} if kind == "ReplicationController" else {"matchLabels": {"app": name}}
    spec = {"selector": selector, "template": pods}
    if kind == "StatefulSet":
        spec["podManagementPolicy"] = "Parallel"
    return body | {"spec": spec | ({} if kind == "DaemonSet" else {"replicas": replicas})}


class Looks(threading.Thread):
    """Looks at the cluster, one after the other: what the tenant has, and whether the neighbours' requests pass."""

    def __init__(self, plane):
        super().__init__(daemon=True)
        self._plane = plane
        self._is_over = threading.Event()
        self.cpu, self.devices, self.refused = [], [], []
        self.asked = 0
        #: Whether it looked until it was stopped.
        self.is_whole = False

    def run(self):
        """Until it is stopped."""
        while not self._is_over.wait(0.05):
            self.look()
            for namespace in ("neighbour", "free"):
                self._ask(namespace)
        self.is_whole = True

    def look(self):
        """One look at what exists, ending or not."""
        path = FOLDERS["Pod"].format("tenant")
        found = self._plane.api.request("GET", f"{path}?resourceVersion=0", seconds=60)["items"]
        self.cpu.append(sum(int(one["metadata"]["labels"]["cpu"]) for one in found))
        found = self._plane.api.request("GET", CLAIMS.format("tenant"))["items"]
        self.devices.append(
            sum(ask["exactly"]["count"] for one in found for ask in one["spec"]["devices"]["requests"])
        )  # fmt: skip

    def _ask(self, namespace):
        kinds = list(FOLDERS)
        kind = kinds[self.asked % len(kinds)]
        name = f"ours-{self.asked}"
        self.asked += 1
        path = FOLDERS[kind].format(namespace)
        try:
            self._plane.api.request("POST", path, thing(kind, name, 1, "<" * 100))
            removed(self._plane, namespace, kind, name)
        except ApiError as refusal:
            self.refused.append((namespace, kind, str(refusal)))

    def stop(self):
        """After a last look."""
        self._is_over.set()
        self.join(60)
        self.look()


def removed(plane, namespace, kind, name):
    """Delete an object with what it made."""
    path = f"{FOLDERS[kind].format(namespace)}/{name}"
    options = {"gracePeriodSeconds": 0} if kind == "Pod" else {"propagationPolicy": "Background"}
    plane.api.request("DELETE", path, options)


def asked(plane, method, path, body, content_type="application/json"):
    """What the API server answers to raw bytes: status and text."""
    with closing(plane.api._connect(60)) as connection:
        connection.request(method, path, body, plane.api._headers(content_type))
        try:
            answer = connection.getresponse()
        except http.client.RemoteDisconnected:
            return 0, ""
        return answer.status, answer.read().decode(errors="replace")


def make(plane, path, body):
    """Create what the quota allows; on a busy machine a large review may come too late, and the answer is to ask again."""
    eventually(lambda: asked(plane, "POST", path, sent(body))[0] == 201)


def sent(body):
    return json.dumps(body, ensure_ascii=False).encode()


@pytest.fixture(params=["Ignore", "Fail"])
def site(start_plane, tmp_path, request):
    plane = start_plane(controllers=True, scheduler=False, simulator=False, unsafe_no_fsync=True)
    site = Site(plane, tmp_path)
    site.environment = {"BURSAR_ADMISSION__FAILURE_POLICY": request.param}
    plane.api.request("POST", "/api/v1/nodes", {"metadata": {"name": "node"}})
    for name, of in NAMESPACES.items():
        metadata = {"name": name, "labels": {LABEL: of} if of else {}}
        plane.api.request("POST", "/api/v1/namespaces", {"metadata": metadata})
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        eventually(lambda account=account: exists(plane, account))
    hard = {"limits.cpu": str(MOST_CPU), f"limits.dra/{CLASS}": str(MOST_DEVICES)}
    site.apply(quota("tenant", hard), quota("neighbour", {"limits.cpu": "1000"}))
    site.start("up")
    site.until(lambda: site.registered())
    site.until(lambda: "status" in site.quota("tenant") and "status" in site.quota("neighbour"))
    yield site
    site.stop()


def exists(plane, path):
    try:
        return plane.api.request("GET", path)
    except ApiError:
        return None


@pytest.fixture
def looks(site):
    looks = Looks(site.plane)
    looks.start()
    yield looks
    looks.stop()


def too_large(plane):
    """Each character in each kind, for ten times the quota: what the API server answered."""
    answers = {}
    for number, (name, character) in enumerate(CHARACTERS.items()):
        for kind in list(FOLDERS)[number % 2 :: 2]:
            place = PLACES[(number + len(answers)) % len(PLACES)]
            body = sent(thing(kind, f"large-{number}", 100, long(character), place))
            answers[name, kind] = asked(plane, "POST", FOLDERS[kind].format("tenant"), body)
    return answers


def grown(plane):
    """Objects of 1 CPU, which the quota allows, that shall grow in each way: by text and CPU, by replicas, by scale."""
    answers = {}
    for kind in ("Deployment", "StatefulSet", "ReplicaSet"):
        path, name = FOLDERS[kind].format("tenant"), f"grows-{kind.lower()}"
        # Its own review is just below the limit; one that changes it holds it twice.
        make(plane, path, thing(kind, name, 1, long("<", 430_000)))
        for way, patch in {
            "text and cpu": {"spec": {"template": template(name, 100, long("&"))}},
            "text and replicas": {"spec": {"replicas": 100, "template": template(name, 1, long("\u2028"))}},
            "replicas": {"spec": {"replicas": 100}},
            "an annotation and replicas": {"metadata": {"annotations": {"a": "<" * 250_000}}, "spec": {"replicas": 100}},
        }.items():  # fmt: skip
            answers[way, kind] = asked(plane, "PATCH", f"{path}/{name}", sent(patch), MERGE)
        scale = sent({"spec": {"replicas": 100}})
        answers["scale", kind] = asked(plane, "PATCH", f"{path}/{name}/scale", scale, MERGE)
        removed(plane, "tenant", kind, name)
    return answers


def evicted(site):
    """Ten pods of ten controllers fill the quota and are evicted, with a long grace; each controller wants another."""
    plane, path = site.plane, FOLDERS["Pod"].format("tenant")
    folder = FOLDERS["ReplicaSet"].format("tenant")
    texts = [long(character, 430_000) for character in CHARACTERS.values()][:MOST_CPU]
    for number, text in enumerate(texts):
        body = thing("ReplicaSet", f"evicted-{number}", 1, text, PLACES[number % 3])
        make(plane, folder, body)
    eventually(lambda: len(pods(plane)) == MOST_CPU, seconds=90)
    for name in pods(plane):
        eviction = {"metadata": {"name": name}, "deleteOptions": {"gracePeriodSeconds": 600}}
        plane.api.request("POST", f"{path}/{name}/eviction", eviction)
    # Each has tried, and was told.
    eventually(lambda: refused(plane) == MOST_CPU, seconds=90)
    for number in range(MOST_CPU):
        removed(plane, "tenant", "ReplicaSet", f"evicted-{number}")
    gone(plane)
    site.until(lambda: site.quota("tenant")["status"]["used"]["limits.cpu"] == "0")


def pods(plane, namespace="tenant"):
    """The names of a namespace's pods."""
    found = plane.api.request("GET", FOLDERS["Pod"].format(namespace), seconds=60)["items"]
    return [one["metadata"]["name"] for one in found]


def gone(plane, namespace="tenant"):
    """Pods end by force, as no kubelet does it."""
    path = FOLDERS["Pod"].format(namespace)

    def are_gone():
        names = pods(plane, namespace)
        for name in names:
            asked(plane, "DELETE", f"{path}/{name}", b'{"gracePeriodSeconds":0}')
        return not names

    eventually(are_gone, seconds=60)


def refused(plane):
    """How many controllers say in their objects' status that they could not make a pod."""
    found = plane.api.request("GET", FOLDERS["ReplicaSet"].format("tenant"), seconds=60)["items"]
    return sum(
        any("denied the request" in one.get("message", "") for one in each["status"].get("conditions", ()))
        for each in found
    )  # fmt: skip


def claimed(plane):
    """Claims of three devices whose parameters no strict reader takes."""
    answers = {}
    for number, (name, odd) in enumerate(PARAMETERS.items()):
        asks = [{"name": "g", "exactly": {"deviceClassName": CLASS, "count": 3}}]
        config = [{"opaque": {"driver": CLASS, "parameters": {"x": "@"}}}]
        spec = {"devices": {"requests": asks, "config": config}}
        body = written({"metadata": {"name": f"claim-{number}"}, "spec": spec}, odd)
        answers[name, "ResourceClaim"] = asked(plane, "POST", CLAIMS.format("tenant"), body)
    return answers


def test_size_and_form_pass_no_quota_and_hit_nobody_else(site, looks):
    plane = site.plane
    evicted(site)
    answers = {**grown(plane), **too_large(plane), **claimed(plane)}
    for what, (status, said) in answers.items():
        print(what, status, said[:200])
    looks.stop()
    site.stop()
    everything_goes(plane)

    assert max(looks.cpu) == MOST_CPU and max(looks.devices) <= MOST_DEVICES
    assert looks.is_whole and looks.refused == [] and looks.asked > 20
    # What makes no pods itself has no charge: each pod of a ReplicationController is asked about, and was refused.
    assert {kind for (_, kind), (status, _) in answers.items() if 200 <= status < 300} <= {
        "ReplicationController"
    }
    assert sum("admission.bursar.io" in said for _, said in answers.values()) > 60


def everything_goes(plane):
    """With Bursar away, in both policies."""
    for kind, folder in FOLDERS.items():
        for one in plane.api.request("GET", folder.format("tenant"), seconds=60)["items"]:
            removed(plane, "tenant", kind, one["metadata"]["name"])
    for name in NAMESPACES:
        gone(plane, name)
        plane.api.request("DELETE", f"/api/v1/namespaces/{name}")
    for name in NAMESPACES:

        def is_gone(name=name):
            gone(plane, name)
            return not exists(plane, f"/api/v1/namespaces/{name}")

        eventually(is_gone, seconds=120)
