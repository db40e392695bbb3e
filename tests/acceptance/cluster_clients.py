"""The clients of the storm at a real API server: threads of one process, each with a connection of its own.

They create, change, scale, move and delete the same objects, so they meet each other; many of their asks are dry runs.
By `http.client`, as :mod:`tests.cluster.api`.
"""

import http.client
import json
import random
import re
import ssl
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.acceptance.apiserver import QUOTA, TYPE

MERGE = "application/merge-patch+json"
PATCH = "application/json-patch+json"

#: Kind to the folder of its objects, and the field that says how many pods.
KINDS = {
    "Deployment": ("/apis/apps/v1/namespaces/{}/deployments", "replicas"),
    "Job": ("/apis/batch/v1/namespaces/{}/jobs", "parallelism"),
}

_REASON = re.compile(r"\(([a-z-]+)\)[^()]*\Z")


@dataclass(frozen=True)
class Orders:
    """What the clients are to do, and where."""

    url: str
    token: str
    ca_file: str
    namespace: str
    quotas: tuple
    requests: int
    clients: int
    seed: int


@dataclass
class Told:
    """What the clients were told."""

    #: What was asked for and its outcome to how often.
    outcomes: Counter = field(default_factory=Counter)
    #: (uid, resourceVersion) of every write that was confirmed.
    written: set = field(default_factory=set)
    #: Uids of objects that only a dry run showed.
    dry: set = field(default_factory=set)
    #: Of each request, seconds.
    times: list = field(default_factory=list)
    seconds: float = 0.0

    def show(self):
        """Print the rate, the times and all outcomes."""
        times, count = sorted(self.times), len(self.times)
        found = ", ".join(f"p{p} {1000 * times[count * p // 100]:.0f} ms" for p in (50, 90, 99))
        print(
            f"{count} requests in {self.seconds:.0f} s, {count / self.seconds:.0f} a second, {found}"
        )
        print(", ".join(f"{what} {how} {n}" for (what, how), n in sorted(self.outcomes.items())))


def resources(cpu, gib):
    amounts = {"cpu": str(cpu), "memory": f"{gib}Gi"}
    return {"limits": amounts, "requests": amounts}


def manifest(kind, name, labels, replicas, cpu, gib):
    container = {"name": "main", "image": "x", "resources": resources(cpu, gib)}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    whole = {"kind": kind, "metadata": {"name": name, "labels": labels}}
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
        spec = {"parallelism": replicas, "completions": 100, "template": template}
        return {**whole, "apiVersion": "batch/v1", "spec": spec}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {**whole, "apiVersion": "apps/v1", "spec": spec}


class Crowd:
    """All clients, and what they know in common."""

    def __init__(self, orders):
        self.orders = orders
        self.told = Told()
        self.lock = threading.Lock()
        self.left = orders.requests
        #: Names that stand in the cluster, as far as was told, and their kinds.
        self.names = {}
        self._listed = []

    def takes(self):
        """Whether there is one more request to make."""
        with self.lock:
            self.left -= 1
            return self.left >= 0

    def any(self, chance):
        """(name, kind) of something that stands; None while nothing does."""
        with self.lock:
            while self._listed:
                place = chance.randrange(len(self._listed))
                name = self._listed[place]
                if name in self.names:
                    return name, self.names[name]
                self._listed[place] = self._listed[-1]
                self._listed.pop()
        return None

    def made(self, name, kind):
        with self.lock:
            self.names[name] = kind
            self._listed.append(name)

    def gone(self, name):
        """It does not stand any more, or soon will not."""
        with self.lock:
            self.names.pop(name, None)


class Client:
    """One of them."""

    def __init__(self, crowd, number):
        self._crowd, self._orders, self._number = crowd, crowd.orders, number
        self._random = random.Random(f"{self._orders.seed}/{number}")
        address = urlsplit(self._orders.url)
        tls = ssl.create_default_context(cafile=self._orders.ca_file)
        self._connection = http.client.HTTPSConnection(
            address.hostname, address.port, timeout=30, context=tls
        )
        self._made = 0

    def run(self):
        """Ask until all requests of the crowd are made."""
        while self._crowd.takes():
            chance, found = self._random.random(), self._crowd.any(self._random)
            if chance < 0.42 or found is None:
                self._create(found)
            elif chance < 0.72:
                self._change(*found)
            else:
                self._delete(*found)
        self._connection.close()

    def _create(self, found):
        chance = self._random
        kind = "Deployment" if chance.random() < 0.6 else "Job"
        self._made += 1
        name = f"object-{self._number}-{self._made}"
        if found is not None and chance.random() < 0.05:
            # The name is taken: it is reviewed, and then refused by the store.
            name, kind = found
        body = manifest(
            kind, name, self._labels(), chance.randint(0, 5), chance.randint(1, 2), chance.randint(1, 4)
        )  # fmt: skip
        is_dry = chance.random() < 0.2
        if self._ask("create", "POST", self._folder(kind), body, is_dry=is_dry) and not is_dry:
            self._crowd.made(name, kind)

    def _change(self, name, kind):
        chance, path = self._random, f"{self._folder(kind)}/{name}"
        replicas = {"spec": {KINDS[kind][1]: chance.randint(0, 6)}}
        dice, is_dry = chance.random(), chance.random() < 0.15
        if kind == "Deployment" and dice < 0.4:
            done = self._ask("scale", "PATCH", f"{path}/scale", replicas, MERGE, is_dry=is_dry)
        elif kind == "Deployment" and dice < 0.55:
            place = "/spec/template/spec/containers/0/resources"
            new = resources(chance.randint(1, 3), chance.randint(1, 4))
            change = [{"op": "replace", "path": place, "value": new}]
            done = self._ask("resize", "PATCH", path, change, PATCH, is_dry=is_dry)
        elif dice < 0.7:
            labels = {"metadata": {"labels": {TYPE: None, **self._labels()}}}
            done = self._ask("move", "PATCH", path, labels, MERGE, is_dry=is_dry)
        elif dice < 0.8:
            mark = {"metadata": {"annotations": {"example.org/mark": str(chance.random())}}}
            done = self._ask("mark", "PATCH", path, mark, MERGE, is_dry=is_dry)
        else:
            done = self._ask("update", "PATCH", path, replicas, MERGE, is_dry=is_dry)
        if done is None:
            self._crowd.gone(name)

    def _delete(self, name, kind):
        if self._random.random() < 0.1:
            self._ask("delete", "DELETE", f"{self._folder(kind)}/{name}", is_dry=True)
            return
        self._crowd.gone(name)
        if self._ask("delete", "DELETE", f"{self._folder(kind)}/{name}") is False:
            self._crowd.made(name, kind)

    def _labels(self):
        labels = {QUOTA: self._random.choice(self._orders.quotas)}
        return labels | ({TYPE: "A4"} if self._random.random() < 0.3 else {})

    def _folder(self, kind):
        return KINDS[kind][0].format(self._orders.namespace)

    def _ask(self, what, method, path, body=None, type="application/json", *, is_dry=False):
        """One request. True: done; None: there is no such object; False: it was refused, or nobody answered."""
        began = time.monotonic()
        status, answer = self._answer(method, path + ("?dryRun=All" if is_dry else ""), body, type)
        told, done = self._crowd.told, status in (200, 201)
        how = "done" if done else f"{status} {_reason(answer)}"
        with self._crowd.lock:
            told.outcomes[f"dry {what}" if is_dry else what, how] += 1
            told.times.append(time.monotonic() - began)
            if done and method != "DELETE":
                metadata = answer["metadata"]
                if not is_dry:
                    told.written.add((metadata["uid"], int(metadata["resourceVersion"])))
                elif method == "POST":
                    told.dry.add(metadata["uid"])
        return None if status == 404 else done

    def _answer(self, method, path, body, type):
        headers = {"Authorization": f"Bearer {self._orders.token}", "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = type
        try:
            self._connection.request(method, path, body and json.dumps(body), headers)
            answer = self._connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException) as error:
            # As a client does: the next request has a new connection.
            self._connection.close()
            return 0, {"message": f"({error.__class__.__name__.lower()})"}


def _reason(answer):
    """Why it was refused: Bursar's reason, else what the API server calls it."""
    message = answer.get("message", "")
    found = _REASON.search(message)
    if found is not None:
        return found[1]
    return "webhook away" if "failed calling webhook" in message else answer.get("reason", "")


def crowded(orders):
    """Have all requests made; what the clients were told."""
    crowd, began = Crowd(orders), time.monotonic()
    threads = [
        threading.Thread(target=Client(crowd, number).run) for number in range(orders.clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    crowd.told.seconds = time.monotonic() - began
    return crowd.told
