"""An ordinary day of a cluster, at speed: what the people of a namespace ask of a real API server, and what each was told.

Half the namespaces have a quota, half have none. Each has one thread, with requests of the test's own. A raw watch of pods is the
independent record: when each began and stopped to hold, by the API server's own stamps.
"""

import http.client
import json
import random
import ssl
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.acceptance.bookkeeping import second
from tests.cluster.api import APPLY, MERGE
from tests.cluster.training import job as training_job
from tests.cluster.training import path_of

#: Most objects of one namespace that stand at once.
MOST = 8
MILLI = {"10m": 10, "50m": 50, "100m": 100}
FOLDERS = {
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "DaemonSet": "/apis/apps/v1/namespaces/{}/daemonsets",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "CronJob": "/apis/batch/v1/namespaces/{}/cronjobs",
    "Pod": "/api/v1/namespaces/{}/pods",
    "HorizontalPodAutoscaler": "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers",
    "PyTorchJob": path_of("PyTorchJob", "{}"),
}
API = {
    **dict.fromkeys(("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"), "apps/v1"),
    **dict.fromkeys(("Job", "CronJob"), "batch/v1"), "Pod": "v1", "HorizontalPodAutoscaler": "autoscaling/v2",
}  # fmt: skip
WAYS = ("Background", "Foreground", "Orphan")


@dataclass(frozen=True)
class Told:
    """One answer of the API server."""

    mode: str
    namespace: str
    what: str
    status: int
    message: str
    warnings: tuple

    @property
    def is_refusal(self):
        """Whether Bursar refused it, or would have in `enforce`."""
        refused = self.status >= 400 and "bursar" in self.message
        return refused or any("Bursar would refuse" in one for one in self.warnings)


@dataclass
class Day:
    """What all threads have in common."""

    plane: object
    #: Between two requests of one namespace, on average.
    pause_seconds: float = 0.25
    mode: str = ""
    answers: list = field(default_factory=list)
    tenants: list = field(default_factory=list)
    #: Cleared while Bursar is exchanged: then nobody asks.
    goes: threading.Event = field(default_factory=threading.Event)
    is_over: bool = False


class Tenant(threading.Thread):
    """The people of one namespace."""

    def __init__(self, day, namespace, seed):
        super().__init__(daemon=True)
        self._day, self.namespace = day, namespace
        self._random = random.Random(f"{seed}/{namespace}")
        address = urlsplit(day.plane.url)
        tls = ssl.create_default_context(cafile=str(day.plane.ca_file))
        self._connection = http.client.HTTPSConnection(
            address.hostname, address.port, timeout=30, context=tls
        )
        self.rests = threading.Event()
        #: (kind, name) of what was made and not deleted, the oldest first; and Deployments that were deleted alone.
        self._stands, self._orphaned = [], []
        self._number = 0
        self._deeds = {
            self._make: 30, self._apply: 12, self._roll_out: 16, self._scale: 14, self._end: 16,
            self._take_over: 6, self._end_pod: 4, self._autoscale: 3,
        }  # fmt: skip

    def run(self):
        """Ask, with short pauses, until the day is over; rest while nobody shall ask."""
        while not self._day.is_over:
            if not self._day.goes.is_set():
                self.rests.set()
                self._day.goes.wait(0.2)
                continue
            self.rests.clear()
            many = len(self._stands) > MOST
            deeds, weights = list(self._deeds), list(self._deeds.values())
            deed = self._end if many else self._random.choices(deeds, weights)[0]
            deed()
            time.sleep(self._day.pause_seconds * self._random.random() * 2)
        self._connection.close()
        self.rests.set()

    def _ask(self, what, method, path, body=None, type="application/json"):
        headers = {"Authorization": f"Bearer {self._day.plane.token}", "Content-Type": type}
        self._connection.request(method, path, body and json.dumps(body), headers)
        answer = self._connection.getresponse()
        found = json.loads(answer.read())
        warnings = tuple(answer.headers.get_all("Warning") or ())
        told = Told(
            self._day.mode, self.namespace, what, answer.status,
            str(found.get("message", "")) if answer.status >= 400 else "", warnings,
        )  # fmt: skip
        self._day.answers.append(told)
        return found if answer.status < 300 else None

    def _folder(self, kind):
        return FOLDERS[kind].format(self.namespace)

    def _named(self):
        self._number += 1
        return f"thing-{self._number}"

    def _any(self, *kinds):
        found = [one for one in self._stands if one[0] in kinds]
        return self._random.choice(found) if found else None

    def _template(self, name):
        cpu = self._random.choice(list(MILLI))
        container = {
            "name": "main", "image": "x",
            "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}},
        }  # fmt: skip
        spec = {"containers": [container]}
        if self._random.random() < 0.15:
            spec["schedulerName"] = "bursar"
        return {"metadata": {"labels": {"app": name}}, "spec": spec}

    def _body(self, kind, name):
        template, chance = self._template(name), self._random
        spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
        body = {"apiVersion": API[kind], "kind": kind, "metadata": {"name": name}}
        if kind in ("Job", "CronJob"):
            template["spec"]["restartPolicy"] = "Never"
            seconds = str(chance.randint(1, 6))
            template["metadata"]["annotations"] = {"bursar.test/run-seconds": seconds}
            number = chance.randint(1, 3)
            spec = {"parallelism": number, "completions": number, "template": template}
        if kind == "CronJob":
            kept = {"successfulJobsHistoryLimit": 100, "failedJobsHistoryLimit": 100}
            return body | {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": spec}, **kept}}
        if kind in ("Deployment", "StatefulSet"):
            spec["replicas"] = chance.randint(0, 3)
        if kind == "StatefulSet":
            spec["serviceName"] = name
            # A notebook, of which no server answers.
            body["metadata"]["labels"] = {"bursar.io/probe": "jupyter"}
        if kind == "Pod":
            return body | {
                "metadata": {"name": name, **template["metadata"]},
                "spec": template["spec"],
            }
        return body | {"spec": spec}

    # what they do

    def _make(self):
        kinds = ("Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "Pod", "PyTorchJob")
        kind, name = self._random.choices(kinds, (30, 15, 5, 20, 5, 20, 5))[0], self._named()
        if kind == "PyTorchJob":
            both = {"Master": (1, "OnFailure"), "Worker": (1, "OnFailure")}
            body = training_job(name, kind, self.namespace, marked=False, replicas=both)
            for spec in body["spec"]["pytorchReplicaSpecs"].values():
                for container in spec["template"]["spec"]["containers"]:
                    container["resources"] = {"limits": {"cpu": "10m"}}
        else:
            body = self._body(kind, name)
        if self._ask(f"make {kind}", "POST", self._folder(kind), body):
            self._stands.append((kind, name))

    def _apply(self, name="", what="apply"):
        """As Helm 4: a server-side apply, also of what is there."""
        name = name or self._named()
        path = f"{self._folder('Deployment')}/{name}?fieldManager=helm&force=true"
        if self._ask(what, "PATCH", path, self._body("Deployment", name), APPLY):
            if ("Deployment", name) not in self._stands:
                self._stands.append(("Deployment", name))

    def _roll_out(self):
        if (found := self._any("Deployment", "StatefulSet", "DaemonSet")) is None:
            return self._apply()
        kind, name = found
        if kind == "Deployment" and self._random.random() < 0.5:
            return self._apply(name, "roll out by apply")
        mark = {
            "template": {
                "metadata": {"annotations": {"example.org/mark": str(self._random.random())}}
            }
        }
        self._ask("roll out", "PATCH", f"{self._folder(kind)}/{name}", {"spec": mark}, MERGE)

    def _scale(self):
        """As an autoscaler: the scale is read, and written back whole."""
        if (found := self._any("Deployment", "StatefulSet")) is None:
            return
        path = f"{self._folder(found[0])}/{found[1]}/scale"
        if self._random.random() < 0.3:
            body = {"spec": {"replicas": self._random.randint(0, 4)}}
            self._ask("scale by patch", "PATCH", path, body, MERGE)
        elif scale := self._ask("read scale", "GET", path):
            scale["spec"] = {"replicas": self._random.randint(0, 4)}
            self._ask("scale", "PUT", path, scale)

    def _autoscale(self):
        if (found := self._any("Deployment")) is None:
            return
        target = {"apiVersion": "apps/v1", "kind": found[0], "name": found[1]}
        body = {
            "apiVersion": API["HorizontalPodAutoscaler"], "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": self._named()}, "spec": {"scaleTargetRef": target, "maxReplicas": 4},
        }  # fmt: skip
        if self._ask("autoscale", "POST", self._folder(body["kind"]), body):
            self._stands.append((body["kind"], body["metadata"]["name"]))

    def _end(self):
        if not self._stands:
            return
        kind, name = self._stands.pop(0)
        way = self._random.choice(WAYS)
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": way}
        self._ask(f"delete {kind} {way}", "DELETE", f"{self._folder(kind)}/{name}", body)
        if way == "Orphan" and kind == "Deployment":
            self._orphaned.append(name)

    def _take_over(self):
        """A Deployment that is made anew adopts what the one before left; or the left ReplicaSets go at last."""
        if not self._orphaned:
            return
        name = self._orphaned.pop(0)
        if self._random.random() < 0.7:
            return self._apply(name, "take over")
        selector = f"{self._folder('ReplicaSet')}?labelSelector=app%3D{name}"
        self._ask("delete what was left", "DELETE", selector)

    def _end_pod(self):
        pods = self._ask("list pods", "GET", self._folder("Pod")) or {"items": []}
        running = [one for one in pods["items"] if one["status"].get("phase") == "Running"]
        if not running:
            return
        name = self._random.choice(running)["metadata"]["name"]
        path = f"{self._folder('Pod')}/{name}"
        if self._random.random() < 0.5:
            evict = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
            self._ask("evict", "POST", f"{path}/eviction", evict)
        else:
            self._ask("delete a pod", "DELETE", path)


class PodWatch(threading.Thread):
    """Every version of every pod of the namespaces: uid to its objects, the last one with whether it is gone."""

    def __init__(self, plane, namespaces):
        super().__init__(daemon=True)
        self.versions, self.gone = {}, set()
        self._api, self._namespaces, self._over = plane.api, namespaces, threading.Event()
        self._version = self._api.request("GET", "/api/v1/pods")["metadata"]["resourceVersion"]

    def run(self):
        while not self._over.is_set():
            for event in self._api.watch("/api/v1/pods", self._version, seconds=2):
                metadata = event["object"]["metadata"]
                self._version = metadata["resourceVersion"]
                if metadata["namespace"] in self._namespaces:
                    self.versions.setdefault(metadata["uid"], []).append(event["object"])
                if event["type"] == "DELETED":
                    self.gone.add(metadata["uid"])

    def stop(self):
        """Returns when nothing more comes."""
        self._over.set()
        self.join()

    def live(self):
        """Uids of the pods that have neither ended nor gone, and whether any of these is being deleted."""
        live = {uid: v[-1] for uid, v in list(self.versions.items()) if ended(v) is None}
        going = [v for v in live.values() if v["metadata"].get("deletionTimestamp")]
        return set(live) - self.gone, bool(going)

    def ended_since(self, since_s):
        """Uids of the pods that ended in this second or later."""
        ends = {uid: ended(versions) for uid, versions in self.versions.items()}
        return {uid for uid, end in ends.items() if end is not None and end >= since_s}

    def held(self, as_of_s):
        """Uid to (namespace, seconds held, milli-core-seconds, is open), of each pod."""
        found = {}
        for uid, versions in self.versions.items():
            begin, end = started(versions), ended(versions)
            until = as_of_s if end is None else end
            seconds = 0 if begin is None else max(until - begin, 0)
            found[uid] = (
                versions[0]["metadata"]["namespace"], seconds, seconds * milli(versions[0]), end is None,
            )  # fmt: skip
        return found


def started(versions):
    """When a pod was bound, by its own condition."""
    stamps = [
        second(condition["lastTransitionTime"])
        for one in versions
        if "nodeName" in one["spec"]
        for condition in one["status"].get("conditions", ())
        if (condition["type"], condition["status"]) == ("PodScheduled", "True")
    ]
    return min(stamps, default=None)


def ended(versions):
    """When a pod's containers had ended, or its final delete; None before both."""
    ends = []
    for one in versions:
        if one["status"].get("phase") in ("Succeeded", "Failed"):
            states = [status["state"] for status in one["status"]["containerStatuses"]]
            ends.append(max(second(state["terminated"]["finishedAt"]) for state in states))
            break
    ends += [
        second(one["metadata"]["deletionTimestamp"])
        for one in versions
        if one["metadata"].get("deletionGracePeriodSeconds") == 0
    ]
    return min(ends, default=None)


def milli(pod):
    """Thousandths of a core that a pod asks for."""
    sizes = [
        one["resources"].get("requests", {}).get("cpu", "0m") for one in pod["spec"]["containers"]
    ]
    return sum(int(one.removesuffix("m")) for one in sizes)


def shown(answers):
    """How often each thing was asked in each mode, and how it ended."""
    return Counter((one.mode, one.what, one.status) for one in answers)
