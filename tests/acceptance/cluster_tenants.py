"""Hostile tenants of the storm: they have `edit` in a namespace, and try to run more than their quotas allow.

They orphan, adopt, forge owners (also such that do not exist), scale what is covered, shrink and grow templates of what
runs, let go of pods by their labels, and name quotas of other teams. All by threads of one process, as
:mod:`tests.acceptance.cluster_clients`.
"""

import threading
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tests.acceptance.apiserver import QUOTA, TYPE
from tests.acceptance.cluster_clients import (
    MERGE,
    PATCH,
    Client,
    Crowd,
    Orders,
    Told,
    manifest,
    resources,
)

FOLDERS = {
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "Pod": "/api/v1/namespaces/{}/pods",
}
API = {"Deployment": "apps/v1", "ReplicaSet": "apps/v1", "Job": "batch/v1", "Pod": "v1"}
#: Seconds between two looks at what controllers made of what was asked for.
LOOK_SECONDS = 2.0
STOPS_LATE = "bursar.test/stop-seconds"


@dataclass(frozen=True)
class TenantOrders(Orders):
    """``quotas`` are the tenant's own, ``foreign`` those of other teams; ``nodes`` what pods may be bound to."""

    foreign: tuple = ()
    nodes: tuple = ()


class Estate(Crowd):
    """The tenants of one namespace, and what they find there."""

    def __init__(self, orders):
        super().__init__(orders)
        #: Kind to all objects of that kind, as they were at the last look.
        self.found = {kind: [] for kind in FOLDERS}
        self.is_over = False

    def look(self, client):
        """Look at everything again and again until the end."""
        while not self.is_over:
            for kind in FOLDERS:
                status, answer = client.get(kind)
                if status == 200:
                    self.found[kind] = answer["items"]
            for pod in self.found["Pod"]:
                if is_overdue(pod):
                    client.force(pod)
            time.sleep(LOOK_SECONDS)


def is_overdue(pod):
    """Whether a pod that is deleted should be gone: the simulated nodes forget some."""
    stamp = pod["metadata"].get("deletionTimestamp")
    if stamp is None:
        return False
    until = datetime.fromisoformat(stamp)
    return until < datetime.now(UTC) - timedelta(seconds=5)


class Tenant(Client):
    """One of them."""

    def __init__(self, crowd, number):
        super().__init__(crowd, number)
        self._deeds = {
            self._make: 30, self._forge: 8, self._offer: 6, self._scale: 10, self._scale_covered: 8,
            self._edit: 10, self._move: 5, self._adopt: 6, self._release: 3, self._end: 14,
        }  # fmt: skip

    def get(self, kind):
        return self._answer("GET", self._folder(kind), None, "")

    def force(self, pod):
        """`kubectl delete --force`."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        self._answer("DELETE", self._path("Pod", pod), body, "application/json")

    def run(self):
        while self._crowd.takes():
            deed = self._random.choices(list(self._deeds), list(self._deeds.values()))[0]
            if not deed():
                # Nothing of that sort was there.
                self._make()
        self._connection.close()

    def _folder(self, kind):
        return FOLDERS[kind].format(self._orders.namespace)

    def _labels(self):
        chance = self._random
        foreign = chance.random() < 0.08
        labels = {QUOTA: chance.choice(self._orders.foreign if foreign else self._orders.quotas)}
        return labels | ({TYPE: "A4"} if chance.random() < 0.2 else {})

    def _any(self, *kinds):
        """Something of one of these kinds, as it was at the last look; None for nothing."""
        found = self._crowd.found[self._random.choice(kinds)]
        return self._random.choice(found) if found else None

    def _path(self, kind, found):
        return f"{self._folder(kind)}/{found['metadata']['name']}"

    # what they make

    def _make(self):
        chance = self._random
        kind = chance.choices(("Deployment", "Job", "ReplicaSet", "Pod"), (50, 20, 10, 20))[0]
        name, labels = self._named(), self._labels()
        if kind == "Pod":
            return self._pod(name, labels)
        made = "Deployment" if kind == "ReplicaSet" else kind
        body = manifest(
            made, name, labels, chance.randint(0, 4), chance.randint(1, 2), chance.randint(1, 3)
        )
        body["kind"] = kind
        template = body["spec"]["template"]
        if chance.random() < 0.7:
            # Else what is orphaned has the quota of its namespace.
            template["metadata"]["labels"][QUOTA] = labels[QUOTA]
        self._settle(template)
        self._ask("make", "POST", self._folder(kind), body, is_dry=chance.random() < 0.1)
        return True

    def _named(self):
        self._made += 1
        return f"object-{self._number}-{self._made}"

    def _settle(self, pod):
        """Half the pods run on a node, some of them long after their delete."""
        chance = self._random
        if chance.random() < 0.5:
            pod["spec"]["nodeName"] = chance.choice(self._orders.nodes)
        if chance.random() < 0.3:
            seconds = str(chance.randint(2, 15))
            pod["metadata"]["annotations"] = {STOPS_LATE: seconds}

    def _pod(self, name, labels, references=(), what="make"):
        chance = self._random
        container = {
            "name": "main", "image": "x",
            "resources": resources(chance.randint(1, 4), chance.randint(1, 3)),
        }  # fmt: skip
        metadata = {"name": name, "labels": labels, "ownerReferences": list(references)}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
        pod["spec"] = {"containers": [container]}
        self._settle(pod)
        self._ask(what, "POST", self._folder("Pod"), pod)
        return True

    def _forge(self):
        """A bare pod below something that is charged, or below something that never was."""
        owner = self._reference(self._any("ReplicaSet", "Deployment", "Job"))
        labels = self._labels() if self._random.random() < 0.7 else {}
        return self._pod(self._named(), labels, [owner], "forge")

    def _reference(self, found):
        """A reference to an owner; one in three is invented."""
        reference = {"controller": True, "blockOwnerDeletion": False}
        if found is None or self._random.random() < 0.33:
            kind = self._random.choice(("Rollout", "ReplicaSet", "StatefulSet", "Notebook"))
            api = {"Rollout": "argoproj.io/v1alpha1", "Notebook": "kubeflow.org/v1"}
            made_up = {"apiVersion": api.get(kind, "apps/v1"), "kind": kind, "name": "made-up"}
            return reference | made_up | {"uid": str(uuid.UUID(int=self._random.getrandbits(128)))}
        kind = self._kind(found)
        metadata = found["metadata"]
        known = {"apiVersion": API[kind], "kind": kind, "name": metadata["name"]}
        return reference | known | {"uid": metadata["uid"]}

    def _kind(self, found):
        """The kind of something that was listed, which lists do not say."""
        spec = found["spec"]
        if "containers" in spec:
            return "Pod"
        if "parallelism" in spec:
            return "Job"
        return "Deployment" if "strategy" in spec else "ReplicaSet"

    def _offer(self):
        """A bare pod that a ReplicaSet adopts by its labels."""
        owner = self._any("ReplicaSet")
        if owner is None:
            return False
        labels = owner["spec"]["selector"]["matchLabels"] | self._labels()
        return self._pod(self._named(), labels, what="offer")

    # what they change

    def _scale(self):
        found = self._any("Deployment", "Deployment", "Job")
        if found is None:
            return False
        kind, chance = self._kind(found), self._random
        field, sub = ("parallelism", "") if kind == "Job" else ("replicas", "/scale")
        body = {"spec": {field: chance.randint(0, 6)}}
        self._ask("scale", "PATCH", self._path(kind, found) + sub, body, MERGE,
                  is_dry=chance.random() < 0.1)  # fmt: skip
        return True

    def _scale_covered(self):
        found = self._any("ReplicaSet")
        if found is None:
            return False
        sub = self._random.choice(("", "/scale"))
        body = {"spec": {"replicas": self._random.randint(0, 9)}}
        self._ask("scale covered", "PATCH", self._path("ReplicaSet", found) + sub, body, MERGE)
        return True

    def _edit(self):
        """Pause it with another template, small as a rule; or let it roll out."""
        found = self._any("Deployment", "Deployment", "ReplicaSet")
        if found is None:
            return False
        kind, chance = self._kind(found), self._random
        size = resources(chance.choice(("10m", "100m", 1, 2)), chance.randint(1, 3))
        place = "/spec/template/spec/containers/0/resources"
        change = [{"op": "replace", "path": place, "value": size}]
        if kind == "Deployment":
            is_paused = chance.random() < 0.6
            change.append({"op": "add", "path": "/spec/paused", "value": is_paused})
        self._ask("edit", "PATCH", self._path(kind, found), change, PATCH)
        return True

    def _move(self):
        found = self._any("Deployment", "Job", "ReplicaSet", "Pod")
        if found is None:
            return False
        labels = {"metadata": {"labels": {TYPE: None, **self._labels()}}}
        self._ask("move", "PATCH", self._path(self._kind(found), found), labels, MERGE)
        return True

    def _adopt(self):
        """Give a pod or a ReplicaSet another owner, or none."""
        found = self._any("Pod", "ReplicaSet")
        if found is None:
            return False
        kind = self._kind(found)
        owners = ("ReplicaSet", "Job") if kind == "Pod" else ("Deployment",)
        references = [] if self._random.random() < 0.2 else [self._reference(self._any(*owners))]
        body = {"metadata": {"ownerReferences": references}}
        self._ask("adopt", "PATCH", self._path(kind, found), body, MERGE)
        return True

    def _release(self):
        """Take the label away by which a ReplicaSet knows its pod: it makes another."""
        found = self._any("Pod")
        if found is None:
            return False
        body = {"metadata": {"labels": {"app": "nobody"}}}
        self._ask("release", "PATCH", self._path("Pod", found), body, MERGE)
        return True

    def _end(self):
        found = self._any("Deployment", "Job", "ReplicaSet", "Pod")
        if found is None:
            return False
        how = self._random.choices(("Background", "Orphan", "Foreground"), (60, 30, 10))[0]
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": how}
        what = f"delete {how.lower()}"
        self._ask(what, "DELETE", self._path(self._kind(found), found), body)
        return True


def rioted(all_orders):
    """Have all requests made, each namespace by tenants of its own; what they were told."""
    estates = [Estate(orders) for orders in all_orders]
    began, crowds = time.monotonic(), []
    looks = [threading.Thread(target=one.look, args=(Tenant(one, "look"),)) for one in estates]
    for place, estate in enumerate(estates):
        numbers = [f"{place}-{n}" for n in range(estate.orders.clients)]
        crowds += [threading.Thread(target=Tenant(estate, number).run) for number in numbers]
    for thread in (*looks, *crowds):
        thread.start()
    for thread in crowds:
        thread.join()
    for estate in estates:
        estate.is_over = True
    for thread in looks:
        thread.join()
    return _together([one.told for one in estates], time.monotonic() - began)


def _together(parts, seconds):
    told = Told(seconds=seconds)
    for part in parts:
        told.outcomes.update(part.outcomes)
        told.written |= part.written
        told.dry |= part.dry
        told.times += part.times
    return told
