"""A tenant who attacks a quota of 10 cores on a real API server, and the record of what ran meanwhile."""

import json
import time

PODS = "/api/v1/namespaces/default/pods"
LIMIT = 10_000
#: Most seconds that more may be charged than lives.
SETTLES = 90


def milli(quantity):
    return int(quantity[:-1]) if quantity.endswith("m") else int(quantity) * 1000


def asks(pod):
    """What a pod is limited to; nothing once it has ended."""
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    limits = [c.get("resources", {}).get("limits", {}) for c in pod["spec"]["containers"]]
    return sum(milli(one.get("cpu", "0")) for one in limits)


class Attack:
    """A tenant, and the record of what ran."""

    def __init__(self, site):
        self.site, self.api = site, site.plane.api
        self.since = self.api.request("GET", PODS)["metadata"]["resourceVersion"]

    def kubectl(self, *arguments, input=None):
        """What kubectl prints; a refusal is text too."""
        try:
            return self.site.plane.kubectl(*arguments, input=input)
        except RuntimeError as error:
            return str(error)

    def create(self, object):
        return self.kubectl("create", "-f", "-", input=json.dumps(object))

    def get(self, *what):
        return json.loads(self.site.plane.kubectl("get", *what, "-o", "json"))

    def pods(self):
        return self.api.request("GET", PODS)["items"]

    def live(self):
        return sum(asks(pod) for pod in self.pods())

    def used(self):
        return milli(self.site.quota()["status"]["used"]["limits.cpu"])

    def until_used(self, cpu, seconds=SETTLES):
        self.site.until(lambda: self.used() == cpu, seconds)

    def stays(self, cpu):
        """The same is used all the time that a status takes to be written, and longer."""
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline:
            assert self.used() == cpu
            time.sleep(0.5)

    def until_running(self, count, of=""):
        self.site.until(lambda: sum(of in pod["metadata"]["name"] for pod in self.pods()) == count)

    def ever(self):
        """The names of all pods that were ever stored."""
        return {
            event["object"]["metadata"]["name"]
            for event in self.api.watch(PODS, self.since, seconds=2)
        }

    def most(self):
        """The most that ever lived at once, write for write."""
        pods, most = {}, 0
        for event in self.api.watch(PODS, self.since, seconds=2):
            pod = event["object"]
            uid = pod["metadata"]["uid"]
            pods[uid] = 0 if event["type"] == "DELETED" else asks(pod)
            most = max(most, sum(pods.values()))
        return most
