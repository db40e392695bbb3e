"""What etcd says of training jobs: every version of every job, pod, service and Event, in order, whoever was killed meanwhile.

The API server stores them as JSON (`--storage-media-type`), and nothing is compacted. From the record follow the findings of
the storm of jobs: two pods in one slot, pods that were made in vain, writes.
"""

import base64
import http.client
import json
import threading
import time
from collections import Counter, defaultdict
from contextlib import closing, suppress
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from bus.clock import SECOND_US
from reactors.jobs.effectors import bodies
from reactors.jobs.effectors.notices import CONTROLLER
from reactors.jobs.passes import reconciled
from reactors.jobs.shape import INDEX, JOB, TYPE, JobStatus, Rules, SeenJob, SeenPod

FLAGS = ("--storage-media-type=application/json",)
JOBS, PODS, SERVICES, EVENTS = (
    "/registry/kubeflow.org/", "/registry/pods/default/", "/registry/services/specs/default/", "/registry/events/default/",
)  # fmt: skip
LIVE = ("Pending", "Running")
#: A look of the operator takes so long on a busy API server; what comes meanwhile is one look more.
LOOK_SECONDS = 0.1


class Version(NamedTuple):
    """``body`` None: the object is gone, and ``before`` was the last of it."""

    revision: int
    at: float
    key: str
    body: dict | None
    before: dict | None


class Record:
    """Follows etcd in a thread for each kind. ``hear`` is called with each version of a pod."""

    def __init__(self, url, hear, prefixes=(JOBS, PODS, SERVICES, EVENTS)):
        self._url, self._hear = urlsplit(url), hear
        self._lock = threading.Lock()
        self._found, self._last = [], {}
        self._moved = time.monotonic()
        for prefix in prefixes:
            threading.Thread(target=self._follow, args=(prefix,), daemon=True).start()

    def versions(self):
        with self._lock:
            return sorted(self._found)

    def stood_still(self, since):
        """For how many seconds nothing was stored, ``since`` a moment at the earliest."""
        return time.monotonic() - max(self._moved, since)

    def _follow(self, prefix):
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        wanted = {"key": _coded(prefix), "range_end": _coded(end), "start_revision": 1}
        with closing(http.client.HTTPConnection(self._url.hostname, self._url.port)) as connection:
            # etcd ends with the test.
            with suppress(OSError, http.client.HTTPException, ValueError):
                connection.request("POST", "/v3/watch", json.dumps({"create_request": wanted}))
                with connection.getresponse() as answer:
                    for line in answer:
                        for event in json.loads(line)["result"].get("events", ()):
                            self._take(event["kv"], prefix)

    def _take(self, stored, prefix):
        key = base64.b64decode(stored["key"]).decode()
        body = json.loads(base64.b64decode(stored["value"])) if "value" in stored else None
        version = Version(
            int(stored["mod_revision"]), time.time(), key, body, self._last.get(key)
        )  # fmt: skip
        self._last[key] = body
        if prefix != EVENTS:
            # Others write Events again and again, of a pod that finds no node.
            self._moved = time.monotonic()
        with self._lock:
            self._found.append(version)
        if prefix == PODS:
            self._hear(version)


def _coded(text):
    return base64.b64encode(text.encode()).decode()


def owner(body):
    """The uid of an object's controller."""
    found = body["metadata"].get("ownerReferences", ())
    return next((one["uid"] for one in found if one.get("controller")), "")


def slot(body):
    """Job, replica type and index of a pod."""
    labels = body["metadata"]["labels"]
    return owner(body), labels[TYPE], labels[INDEX]


def is_live(body):
    return body is not None and body.get("status", {}).get("phase") in LIVE


def doubled(versions):
    """Slots of which two pods lived at one moment, with their names."""
    live, found = defaultdict(set), []
    for one in versions:
        if not one.key.startswith(PODS):
            continue
        name = one.key.removeprefix(PODS)
        those = live[slot(one.body or one.before)]
        (those.add if is_live(one.body) else those.discard)(name)
        if len(those) > 1:
            found.append((one.revision, sorted(those)))
    return found


def in_vain(versions, lost):
    """Pods that another followed in their slot, and that neither failed nor were ``lost`` (uids)."""
    made, ended = defaultdict(dict), set(lost)
    for one in versions:
        if one.key.startswith(PODS):
            body = one.body or one.before
            uid = body["metadata"]["uid"]
            made[slot(body)].setdefault(uid, body["metadata"]["name"])
            if body.get("status", {}).get("phase") == "Failed":
                ended.add(uid)
    return [
        name for pods in made.values() for uid, name in list(pods.items())[:-1] if uid not in ended
    ]


def on_nodes(versions, nodes):
    """The uids of pods that were bound to one of these nodes."""
    bodies = (one.body for one in versions if one.body and one.key.startswith(PODS))
    return {body["metadata"]["uid"] for body in bodies if body["spec"].get("nodeName") in nodes}


def orphans(versions):
    """Names of pods and services that are there, while their job is not."""
    there = {one.key: one.body for one in versions}
    jobs = {body["metadata"]["uid"] for key, body in there.items() if body and key.startswith(JOBS)}
    made = (body for key, body in there.items() if body and not key.startswith(JOBS))
    return [
        body["metadata"]["name"]
        for body in made
        if JOB in body["metadata"].get("labels", {}) and owner(body) not in jobs
    ]


def writes(versions, lost):
    """By job, what was written to the API server about it: objects made, deletions asked for, statuses, Events.

    A deletion of the ``lost`` is not the operator's, nor is that of what a job takes with it.
    """
    found, names, jobs = defaultdict(Counter), {}, {}
    for one in versions:
        body = one.body or one.before
        if one.key.startswith(JOBS):
            uid = names[one.key] = body["metadata"]["uid"]
            if one.body is not None and uid in jobs:
                found[uid]["status"] += one.body.get("status") != jobs[uid].get("status")
            jobs[uid] = body
            if one.body is None:
                found[uid]["deleted"] += 1
                del jobs[uid]
        elif one.key.startswith(EVENTS):
            if body.get("reportingComponent") == CONTROLLER:
                found[body["involvedObject"]["uid"]]["events"] += one.body is not None
        elif owner(body) in jobs and body["metadata"]["uid"] not in lost:
            what = "pods" if one.key.startswith(PODS) else "services"
            found[owner(body)][what] += one.before is None
            is_new = not (one.before or {}).get("metadata", {}).get("deletionTimestamp")
            is_asked = one.body is None or "deletionTimestamp" in one.body["metadata"]
            found[owner(body)]["deleted"] += is_new and is_asked
    return found


def operator_writes(versions, kinds, window):
    """By job, the statuses and Kubernetes Events that the training operator would have written of the same pods.

    Its pass is that of the cases (`tfjob_reconcile`). It looks once for all events that are less than ``window`` seconds apart.
    """
    found = {}
    for uid, those in _by_job(versions).items():
        first = next(one for one in those if one.key.startswith(JOBS))
        kind = first.body["kind"]
        if kind in kinds:
            found[uid] = _played(kind, first.body, those, window)
    return found


def _by_job(versions):
    found = defaultdict(list)
    for one in versions:
        body = one.body or one.before
        uid = body["metadata"]["uid"] if one.key.startswith(JOBS) else owner(body)
        found[uid].append(one)
    return {
        uid: those for uid, those in found.items() if any(v.key.startswith(JOBS) for v in those)
    }


def _played(kind, first, versions, window):
    metadata = first["metadata"] | {"resourceVersion": "1"}
    job = bodies.job_in(kind, {**first, "metadata": metadata, "status": {}})
    status, pods, count, told = JobStatus(), {}, Counter(), set()
    seen = [one for one in versions if one.key.startswith(PODS)] or versions[:1]
    for one, following in zip(seen, [*seen[1:], None], strict=True):
        pods.pop(one.key, None)
        if one.key.startswith(PODS) and one.body is not None:
            pods[one.key] = _seen(one.body, job.rules.container)
        if following is not None and following.at - one.at < window:
            continue
        now = msgspec.structs.replace(job, status=status)
        looked = reconciled(now, SeenJob(tuple(pods.values())), int(one.at * SECOND_US), Rules())
        count["status"] += looked.status != status
        # What it says again at the next look is one Event whose count grows, and is not counted here.
        count["events"] += len(set(looked.events) - told)
        status, told = looked.status, set(looked.events)
    return count


def _seen(body, container):
    labels, status = body["metadata"]["labels"], body.get("status", {})
    ends = {
        one["name"]: one["state"]["terminated"]["exitCode"]
        for one in status.get("containerStatuses", ())
        if "terminated" in one.get("state", {})
    }
    return SeenPod(
        body["metadata"]["name"], body["metadata"]["uid"], labels[TYPE], labels[INDEX],
        status.get("phase", ""), "deletionTimestamp" in body["metadata"], 0, ends.get(container),
    )  # fmt: skip
