"""A storm of training jobs: scripts of what befalls their pods, and `bursar up`, its bus and the API server killed meanwhile."""

import http.client
import os
import queue
import sys
import threading
import time
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path

from reactors.jobs.shape import JOB
from tests.acceptance import jobs_scene
from tests.acceptance.jobs_record import JOBS, Record, slot
from tests.acceptance.killed_up import arm, was_hit
from tests.cluster.api import MERGE, ApiError
from tests.cluster.training import job, path_of

PODS = "/api/v1/namespaces/default/pods"
#: Threads that play the kubelets' part.
KUBELETS = 8
#: Whoever waits gives up once etcd has stored nothing for so long, however slow the machine is: for a label, and for the end of all
#: jobs. After an absence of more than a minute jobs stand still for ten.
REACHED_SECONDS, ENDED_SECONDS = 120, 720
#: Between two looks at what the processes have used.
MEASURED_SECONDS = 0.5


def _tf(count, **policy):
    return {"kind": "TFJob", "replicas": {"Worker": (count, "ExitCode")}, **policy}


def _torch(count, **policy):
    replicas = {"Master": (1, "OnFailure"), "Worker": (count - 1, "OnFailure")}
    return {"kind": "PyTorchJob", "replicas": replicas, **policy}


#: What is asked for by the number of pods; which condition holds at the end, "" = the job is gone; and whether its pods stay.
SCRIPTS = {
    "plain": (lambda n: _tf(n), "Succeeded", True),
    "killed": (lambda n: _tf(n), "Succeeded", True),
    "program": (lambda n: _tf(n), "Failed", True),
    "master": (lambda n: _torch(n, cleanPodPolicy="All"), "Succeeded", False),
    "evicted": (lambda n: _torch(n), "Succeeded", True),
    "over": (lambda n: _tf(n, ttlSecondsAfterFinished=1, cleanPodPolicy="All"), "", False),
    "late": (lambda n: _tf(n, activeDeadlineSeconds=8), "Failed", False),
    "hopeless": (lambda n: _torch(n, backoffLimit=2), "Failed", False),
    "suspended": (lambda n: _tf(n, suspend=True), "Suspended", False),
}
#: The pod that fails: its slot, with which code (None = it is evicted), and whether each that follows it does, too.
FAILS = {
    "killed": ("worker", "1", 137, False), "program": ("worker", "0", 1, True),
    "master": ("master", "0", 1, False), "evicted": ("worker", "0", None, False),
    "hopeless": ("worker", "0", 3, True),
}  # fmt: skip
#: Their other pods run until they are deleted.
ENDLESS = ("late", "hopeless")
#: Which script brings the reactor to a label; others reach those that all do.
REACHES = {
    "job.before_delete": "killed", "job.after_delete": "master", "job.before_end": "over", "job.after_end": "over",
}  # fmt: skip
LABELS = (
    "decision.before_publish", "decision.after_publish", "effect.before_act", "effect.after_act",
    "effect.after_settle", "job.before_create", "job.after_service", "job.after_create", "job.before_delete",
    "job.after_delete", "job.before_report", "job.after_report", "job.before_end", "job.after_end",
)  # fmt: skip
VICTIMS = ("reactor", "bus", "apiserver")


def kills(is_whole):
    """Who is killed at which label: everybody at each, or one at each in turn."""
    if is_whole:
        return [(label, victim) for label in LABELS for victim in VICTIMS]
    return [(label, VICTIMS[place % 3]) for place, label in enumerate(LABELS)]


class Up(jobs_scene.Up):
    """One that a test can kill at a label."""

    def __init__(self, plane, folder):
        super().__init__(plane, folder)
        self.armed = folder / "armed"
        self.armed.mkdir()
        self.command = [
            sys.executable,
            "-m",
            "tests.acceptance.killed_up",
            self.armed,
            "up",
            "--debug",
        ]
        #: CPU seconds by process: its id, when it began, its name.
        self.used = {}
        threading.Thread(target=self._measure, daemon=True).start()

    def _measure(self):
        """What `up` and its bus have used. Half a second before a kill may be missing."""
        while True:
            own = self.process.pid if self.process is not None else -1
            for stat in Path("/proc").glob("[0-9]*/stat"):
                with suppress(OSError):
                    name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
                    fields = rest.split()
                    # Fields 4 and 5 of proc(5), 14, 15 and 22.
                    if own in (int(fields[1]), int(fields[2])):
                        ticks = int(fields[11]) + int(fields[12])
                        key = stat.parent.name, fields[19], name
                        self.used[key] = ticks / os.sysconf("SC_CLK_TCK")
            time.sleep(MEASURED_SECONDS)

    def cpu_seconds(self):
        """By the name of the process."""
        found = Counter()
        for (_, _, name), seconds in list(self.used.items()):
            found[name] += seconds
        return found

    def dies_at(self, label, victim, record):
        """Kill ``victim`` when the process comes to ``label``, and bring it back; whether it came there before all stood still."""
        pid = self.plane.apiserver_pid if victim == "apiserver" else 0
        arm(self.armed, label, victim, pid)
        began = time.monotonic()
        while not was_hit(self.armed, label):
            assert self.process.poll() is None, "bursar up ended by itself"
            if record.stood_still(began) > REACHED_SECONDS:
                (self.armed / label).unlink(missing_ok=True)
                return False
            time.sleep(0.05)
        if victim == "reactor":
            self.process.wait()
            self.start()
        elif victim == "apiserver":
            self.plane.kill_apiserver()
            self.plane.start_apiserver()
        return True


class Storm:
    """Jobs by their scripts. ``lost``: names of nodes."""

    def __init__(self, plane, pods):
        self.plane, self.pods = plane, pods
        self.jobs, self.lost, self.failed = {}, set(), Counter()
        self._due, self._seen = queue.Queue(), set()
        self._open, self._waiting = set(), defaultdict(list)
        #: Pods that were being deleted at the last look.
        self._ending = set()
        self.record = Record(plane.etcd_url, self._hear)
        for _ in range(KUBELETS):
            threading.Thread(target=self._kubelet, daemon=True).start()

    def submit(self, script):
        """A user makes a job, and tries again while the server is away."""
        name = f"{script}-{len(self.jobs)}"
        fields = SCRIPTS[script][0](self.pods)
        kind = fields.pop("kind")
        made = self._tried("POST", path_of(kind), job(name, kind, marked=False, **fields))
        self.jobs[name] = kind
        return made

    def lose_node(self):
        """A node with live pods is gone, and its pods with it, as the collector of pods does it after a while."""
        live = [
            one
            for one in self._tried("GET", PODS)["items"]
            if one["status"]["phase"] == "Running" and one["spec"].get("nodeName")
        ]
        if not live:
            return False
        node = live[0]["spec"]["nodeName"]
        self.lost.add(node)
        self._tried("DELETE", f"/api/v1/nodes/{node}")
        for one in live:
            if one["spec"]["nodeName"] == node:
                path = f"{PODS}/{one['metadata']['name']}"
                self._tried("DELETE", path, {"gracePeriodSeconds": 0})
        return True

    def until(self, probe, *, every):
        """Wait for ``probe()`` as long as anything happens; AssertionError with what it said last."""
        began = time.monotonic()
        while said := probe():
            assert self.record.stood_still(began) < ENDED_SECONDS, f"all stands still: {said!r}"
            time.sleep(every)

    def unfinished(self):
        """Jobs that did not end as their script says, and how they are."""
        found = {}
        for kind in set(self.jobs.values()):
            for one in self._tried("GET", path_of(kind))["items"]:
                conditions = one.get("status", {}).get("conditions", ())
                true = {c["type"] for c in conditions if c["status"] == "True"}
                found[one["metadata"]["name"]] = true
        pods = self._tried("GET", PODS)["items"]
        self._delete_again(pods)
        there = Counter(slot(one)[0] for one in pods)
        uids = {uid: name for name, uid in self._uids().items()}
        left = {uids.get(uid, uid) for uid in there}
        return {
            name: (sorted(found.get(name, ())), name in left)
            for name in self.jobs
            if not self._is_as_said(name, found.get(name), name in left)
        }

    def _delete_again(self, pods):
        """As a kubelet does, and the simulator does not, where the API server was killed in the middle of it.

        The server first writes that a pod has no grace left, then removes it.
        """
        for one in (one["metadata"] for one in pods):
            if one.get("deletionGracePeriodSeconds") == 0 and one["uid"] in self._ending:
                path = f"{PODS}/{one['name']}"
                self._tried(
                    "DELETE", path, {"gracePeriodSeconds": 0, "preconditions": {"uid": one["uid"]}}
                )
            if "deletionTimestamp" in one:
                self._ending.add(one["uid"])

    def _uids(self):
        bodies = (
            one.body for one in self.record.versions() if one.body and one.key.startswith(JOBS)
        )
        return {body["metadata"]["name"]: body["metadata"]["uid"] for body in bodies}

    def _is_as_said(self, name, conditions, has_pods):
        _, wanted, stay = SCRIPTS[name.rpartition("-")[0]]
        if has_pods and not stay:
            return False
        return conditions is None if not wanted else conditions is not None and wanted in conditions

    def _tried(self, *request, **options):
        for _ in range(300):
            try:
                return self.plane.api.request(*request, **options)
            except ApiError as error:
                if error.status in (404, 409):
                    return {}
                if error.status < 500 and error.status != 429:
                    raise
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.2)
        raise AssertionError(f"the API server does not answer {request}")

    # the kubelets

    def _hear(self, version):
        """The end of a pod that runs, once it is due. Called from one thread."""
        body = version.body
        if body is None or body.get("status", {}).get("phase") != "Running":
            return
        if body["metadata"]["uid"] in self._seen:
            return
        self._seen.add(body["metadata"]["uid"])
        uid, *place = slot(body)
        script = body["metadata"]["labels"][JOB].rpartition("-")[0]
        type, index, code, is_for_ever = FAILS.get(script, ("", "", 0, False))
        if [type, index] != place:
            if script not in FAILS or uid in self._open:
                self._due.put((body, 0))
            else:
                # No job is over before its failing pod has failed, and was replaced where it is.
                self._waiting[uid].append(body)
            return
        is_failing = is_for_ever or not self.failed[uid]
        self._due.put((body, code if is_failing else 0))
        self.failed[uid] += is_failing
        if not is_failing or is_for_ever:
            self._open.add(uid)
            for one in self._waiting.pop(uid, ()):
                self._due.put((one, 0))

    def _kubelet(self):
        while True:
            body, code = self._due.get()
            if body["metadata"]["labels"][JOB].rpartition("-")[0] in ENDLESS and not code:
                continue
            path = f"{PODS}/{body['metadata']['name']}"
            if code is None:
                path, change = (
                    f"{path}/status",
                    {"status": {"phase": "Failed", "reason": "Evicted"}},
                )
            else:
                notes = {"bursar.test/run-seconds": "0", "bursar.test/exit-code": str(code)}
                change = {"metadata": {"annotations": notes}}
            self._tried("PATCH", path, change, content_type=MERGE)
