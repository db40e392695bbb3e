"""Users who make and delete Jobs all the time, and what etcd's own record says of their pods. Nothing here asks Bursar."""

import http.client
import random
import threading
import time
from collections import Counter, defaultdict
from contextlib import suppress

from tests.acceptance.admission_site import LABEL, workload
from tests.acceptance.claims_truth import ended, requests, started
from tests.acceptance.jobs_record import Record
from tests.acceptance.soak.site import QUOTAS
from tests.cluster.api import ApiError

NAMESPACE = "soak"
JOBS, PODS = f"/registry/jobs/{NAMESPACE}/", f"/registry/pods/{NAMESPACE}/"
PATH = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
#: New Jobs a second; each one that is let in is some twelve writes of it and its pod.
JOBS_PER_SECOND = 3.0
#: What has ended stays so long: longer than any fault, so that a list shows how it ended.
STAYS_SECONDS = 60
OVER = ("Succeeded", "Failed")
ENDED = ("Complete", "Failed")
#: The controller makes no more pods. On a busy machine the end itself is written a second later.
ENDING = (*ENDED, "SuccessCriteriaMet", "FailureTarget")


class Churn:
    """``answers``: how many requests ended how; ``decided``: when a webhook decided one, by the machine's own time."""

    def __init__(self, plane, seed=1):
        self._api, self._random = plane.api, random.Random(seed)
        self.answers, self.decided, self._names = Counter(), [time.monotonic()], []
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(n,), daemon=True) for n in range(4)]  # fmt: skip
        self._api.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        self.record = Record(plane.etcd_url, lambda _: None, (JOBS, PODS))

    def start(self):
        for one in self._threads:
            one.start()

    def stop(self):
        self._is_over.set()
        for one in self._threads:
            one.join(30)

    def _work(self, worker):
        number = 0
        while not self._is_over.wait(len(self._threads) / JOBS_PER_SECOND):
            number += 1
            name = f"job-{worker}-{number}"
            if self._asked("made", "POST", PATH, self._job(name)):
                self._names.append(name)
            if self._random.random() < 0.1 and self._names:
                victim = self._names.pop(self._random.randrange(max(1, len(self._names) // 2)))
                self._asked("deleted", "DELETE", f"{PATH}/{victim}", {"propagationPolicy": "Background"})  # fmt: skip

    def _job(self, name):
        body = workload("Job", name, self._random.randint(1, 3))
        body["metadata"]["namespace"] = NAMESPACE
        body["metadata"]["labels"] = {LABEL: self._random.choice(list(QUOTAS))}
        body["spec"]["ttlSecondsAfterFinished"] = STAYS_SECONDS
        template = body["spec"]["template"]
        notes = {"bursar.test/run-seconds": str(self._random.randint(3, 15))}
        template["metadata"]["annotations"] = notes
        (container,) = template["spec"]["containers"]
        container["resources"]["requests"] = {**container["resources"]["limits"], "memory": "64Mi"}
        return body

    def _asked(self, what, *request):
        try:
            self._api.request(*request, seconds=35)
            self._count(what)
            return True
        except ApiError as error:
            # What has ended is deleted by the cluster itself after a while.
            words = {404: "gone"}.get(error.status, f"answer {error.status}")
            self._count("refused" if "over-quota" in str(error) else words)
        except (OSError, http.client.HTTPException):
            self.answers["no answer"] += 1
        return False

    def _count(self, what):
        self.answers[what] += 1
        if what in ("made", "refused"):
            self.decided.append(time.monotonic())

    def drained(self):
        """Whether no pod and no Job is left that would still change."""
        with suppress(OSError, http.client.HTTPException, ApiError):
            found = self._api.request("GET", PATH)["items"]
            return all(_has(ENDED, one) for one in found) and not held_now(self.record)
        return False

    def clear(self):
        """Delete what still waits for room."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with suppress(OSError, http.client.HTTPException, ApiError):
                return self._api.request("DELETE", PATH, {"propagationPolicy": "Background"})


def _has(conditions, job):
    return any(one["type"] in conditions for one in job["status"].get("conditions", ()))


def _cores(pod_spec):
    (container,) = pod_spec["containers"]
    return int(container["resources"]["limits"]["cpu"])


def held_now(record):
    """Uids of pods that hold something in the last version of each."""
    last = {one.key: one for one in record.versions() if one.key.startswith(PODS)}
    return [
        one.body["metadata"]["uid"]
        for one in last.values()
        if one.body is not None and one.body["status"]["phase"] not in OVER
    ]


class Truth:
    """What the record says, by sums of the test's own."""

    def __init__(self, record):
        self.versions = record.versions()
        told = defaultdict(list)
        for one in self.versions:
            if one.key.startswith(PODS) and one.body is not None:
                told[one.body["metadata"]["uid"]].append(one.body)
        #: Uid to (start, end, milli-cores, MiB) of each pod that was bound; end None while it holds.
        self.pods, self.finishes = {}, {}
        for uid, bodies in told.items():
            start = min(filter(None, map(started, bodies)), default=None)
            if start is not None:
                cpu, memory, _ = requests(bodies[0])
                end = ended(bodies)
                self.pods[uid] = (start, end if end is None else max(end, start), cpu, memory)
                # The simulator, when its request was cut off, writes that a pod finished once more, with another second. Who
                # lists after that cannot know of the first one.
                self.finishes[uid] = {
                    max(ended([body]), start) for body in bodies if body["status"]["phase"] in OVER
                }

    def told(self, uid):
        """What each version of a pod says of its end, for whoever looks for a difference."""
        found = []
        for one in self.versions:
            if one.key.startswith(PODS) and (body := one.body) and body["metadata"]["uid"] == uid:
                metadata, status = body["metadata"], body["status"]
                ends = [
                    c["state"]["terminated"]["finishedAt"]
                    for c in status.get("containerStatuses", ()) if "terminated" in c.get("state", {})
                ]  # fmt: skip
                deleted = (
                    metadata.get("deletionTimestamp"),
                    metadata.get("deletionGracePeriodSeconds"),
                )
                found.append((one.revision, round(one.at, 1), status["phase"], ends, *deleted))
        return found

    @property
    def seconds(self):
        """From the first version to the last."""
        return self.versions[-1].at - self.versions[0].at

    def most(self):
        """The most cores that pods, and Jobs that may make pods, ever had in each quota."""
        return {place: cores for place, (cores, _, _) in self.peaks().items()}

    def peaks(self):
        """The same with the moment of each, and what was there: (cores, seconds since the first version, cores by key)."""
        live, peaks = {}, {}
        quotas = {}
        for one in self.versions:
            if one.body is not None and one.key.startswith(JOBS):
                quotas[one.body["metadata"]["uid"]] = one.body["metadata"]["labels"][LABEL]
        for one in self.versions:
            live.pop(one.key, None)
            if one.body is None:
                continue
            if one.key.startswith(JOBS):
                spec = one.body["spec"]
                if not spec.get("suspend") and not _has(ENDING, one.body):
                    quota = one.body["metadata"]["labels"][LABEL]
                    live[one.key] = ("jobs", quota), _cores(spec["template"]["spec"])
            elif one.body["status"]["phase"] not in OVER:
                owner = one.body["metadata"]["ownerReferences"][0]["uid"]
                live[one.key] = ("pods", quotas[owner]), _cores(one.body["spec"])
            sums = Counter()
            for place, cores in live.values():
                sums[place] += cores
            for place, cores in sums.items():
                if cores > peaks.get(place, (0,))[0]:
                    those = {key: n for key, (of, n) in live.items() if of == place}
                    peaks[place] = (cores, round(one.at - self.versions[0].at, 1), those)
        return peaks
