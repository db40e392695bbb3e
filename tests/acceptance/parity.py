"""One world after another on a real API server: what its kube-scheduler decides of a pod, and what Bursar says of the same objects.

Bursar's side goes all the way: objects of the API server, facts by the product's own sources, columns, plugins.
"""

import http.client
import json
import ssl
import time
from collections import Counter
from random import Random
from urllib.parse import urlsplit

import msgspec
import numpy as np

from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Record
from bus.sources import claims, csi_nodes, namespaces, nodes, pods, volumes
from reactors.scheduling.columns.table import Columns
from reactors.scheduling.framework.context import PluginContext
from reactors.scheduling.framework.contract import Cycle, Score
from reactors.scheduling.framework.explaining import explained
from reactors.scheduling.framework.profiles import Enabled, Profile
from reactors.scheduling.framework.runner import Framework
from reactors.scheduling.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from reactors.scheduling.plugins.catalogue import PLUGINS
from reactors.scheduling.plugins.resources_fit import NodeResourcesFit, Point, ScoredResource
from tests.acceptance import parity_volumes as storage
from tests.acceptance import parity_worlds as worlds
from tests.reactors.scheduling.worlds import World

#: Plugins that kube-scheduler has by the same name.
SHARED = (
    "SchedulingGates", "PrioritySort", "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts",
    "NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread",
    "InterPodAffinity", "NodeResourcesBalancedAllocation", "ImageLocality",
)  # fmt: skip
LABELS = msgspec.structs.replace(
    LabelPolicy(), label_keys=LabelPolicy().label_keys | {"app", "rev", "team"}
)
#: What makes facts of storage, by plural.
SOURCES = {
    "csinodes": csi_nodes,
    "persistentvolumeclaims": claims,
    "persistentvolumes": volumes,
}
WAITING = 3
#: How often a pod is asked for again: its scheduler may not have seen all of the world yet.
AGAIN = 3
SECONDS = 20


def _profiles():
    """By name: plugins as kube-scheduler's default has them, two other strategies, and each score alone."""
    enabled = [(kind(), weight) for kind, weight in PLUGINS if kind.name in SHARED]
    resources = tuple(map(ScoredResource, ("cpu", "memory", worlds.GPU), (1, 2, 3)))
    points = (Point(0, 3), Point(40, 10), Point(100, 1))
    balanced = NodeResourcesBalancedAllocation((*resources[:1], ScoredResource(worlds.GPU)))
    found = {
        "all": enabled,
        "most": _changed(enabled, NodeResourcesFit("MostAllocated", resources), balanced),
        "ratio": _changed(enabled, NodeResourcesFit("RequestedToCapacityRatio", resources, points)),
    }
    for one, _ in enabled:
        if isinstance(one, Score):
            found[f"only-{one.name.lower()}"] = [
                (other, weight if other.name == one.name else 0) for other, weight in enabled
            ]
    return found


def _changed(enabled, *plugins):
    by_name = {one.name: one for one in plugins}
    return [(by_name.get(one.name, one), weight) for one, weight in enabled]


PROFILES = _profiles()


def configuration():
    """The same profiles for kube-scheduler."""
    return {
        "percentageOfNodesToScore": 100,
        "profiles": [_configured(name, plugins) for name, plugins in PROFILES.items()],
    }


def _configured(name, plugins):
    enabled = [{"name": one.name, "weight": max(weight, 1)} for one, weight in plugins]
    silent = [{"name": one.name} for one, weight in plugins if not weight]
    by_name = {one.name: one for one, _ in plugins}
    fit, balanced = by_name["NodeResourcesFit"], by_name["NodeResourcesBalancedAllocation"]
    strategy = {"type": fit.strategy, "resources": msgspec.to_builtins(fit.resources)}
    if fit.strategy == "RequestedToCapacityRatio":
        strategy["requestedToCapacityRatio"] = {"shape": msgspec.to_builtins(fit.shape)}
    arguments = {
        "NodeResourcesFit": {"scoringStrategy": strategy},
        "NodeResourcesBalancedAllocation": {"resources": msgspec.to_builtins(balanced.resources)},
    }
    points = {
        "multiPoint": {
            "disabled": [{"name": "*"}],
            "enabled": [*enabled, {"name": "DefaultBinder"}],
        }
    }
    return {
        "schedulerName": name,
        "plugins": points | ({"score": {"disabled": silent}} if silent else {}),
        "pluginConfig": [{"name": one, "args": args} for one, args in arguments.items()],
    }  # fmt: skip


class Site:
    """A plane with nothing but an API server and a kube-scheduler, over one connection."""

    def __init__(self, plane):
        tls = ssl.create_default_context(cafile=str(plane.ca_file))
        address = urlsplit(plane.url)
        self._connection = http.client.HTTPSConnection(
            address.hostname, address.port, timeout=15, context=tls
        )
        self._headers = {
            "Authorization": f"Bearer {plane.token}", "Content-Type": "application/json",
        }  # fmt: skip
        #: What was compared.
        self.counts = Counter()
        #: By uid of a pod: what its condition says.
        self._refusals = {}
        heavy = {"metadata": {"name": worlds.HEAVY}, "handler": "none"}
        heavy["overhead"] = {"podFixed": worlds.OVERHEAD}
        self.send("POST", "/apis/node.k8s.io/v1/runtimeclasses", heavy)
        self.spaces = [
            self.send("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
            for name, labels in ((worlds.SPACES[0], {}), (worlds.SPACES[-1], {"team": "x"}))
        ]

    def close(self):
        self._connection.close()

    def send(self, method, path, body=None, content_type="application/json"):
        content = None if body is None else json.dumps(body)
        headers = self._headers | {"Content-Type": content_type}
        self._connection.request(method, path, content, headers)
        answer = self._connection.getresponse()
        found = json.loads(answer.read())
        assert answer.status < 300, (method, path, found.get("message"), body)
        return found

    def compare(self, seed):
        """Every way in which the two differ in one world, in words."""
        random = Random(seed)
        made, names = self._nodes(seed, random)
        world = World()
        for one in self.spaces:
            see(world, namespaces, one)
        for one in made:
            see(world, nodes, one)
        for path, one in storage.made(random, seed, names):
            source = SOURCES[path.rpartition("/")[2]]
            see(world, source, self.send("POST", path, one))
        for number in range(random.randint(0, 10)):
            one = self._pod(random, f"held-{seed}-{number}", names)
            one["spec"]["nodeName"] = random.choice(names)
            see(world, pods, self._held(random, one))
        found = []
        for number in range(WAITING):
            one = self._pod(random, f"waits-{seed}-{number}", names)
            one["spec"]["schedulerName"] = random.choice(list(PROFILES))
            found += self._placed(seed, world, one)
        self.clear()
        return found

    def clear(self):
        for one in sorted(set(worlds.SPACES)):
            self.send("DELETE", f"/api/v1/namespaces/{one}/pods?gracePeriodSeconds=0")
            self.send("DELETE", f"/api/v1/namespaces/{one}/persistentvolumeclaims")
        self.send("DELETE", "/api/v1/persistentvolumes")
        self.send("DELETE", f"{storage.STORAGE}/csinodes")
        self.send("DELETE", "/api/v1/nodes")

    def events(self):
        """(What kube-scheduler said in an event, and in the condition) of each pod that both know, and that was tried once."""
        told = {
            one["regarding"]["uid"]: one["note"]
            for one in self.send("GET", "/apis/events.k8s.io/v1/events")["items"]
            # A series keeps the words of its first try, which may have been in another world.
            if one["reason"] == "FailedScheduling" and not one.get("series")
        }
        return [(told[uid], self._refusals[uid]) for uid in told.keys() & self._refusals.keys()]

    def _pod(self, random, name, names):
        pod = worlds.pod(random, name, names)
        pod["spec"].setdefault("volumes", []).extend(storage.claims(random))
        return pod

    def _nodes(self, seed, random):
        names = [f"n{number}-{seed}" for number in range(random.randint(1, 5))]
        made = [worlds.node(random, name, number) for number, name in enumerate(names)]
        return [self.send("POST", "/api/v1/nodes", one) for one in made], names

    def _held(self, random, pod):
        does = random.random()
        if 0.1 <= does < 0.15:
            # kube-scheduler would forget that another pod of the node holds the same port, too.
            pod["spec"]["containers"][0].pop("ports")
        created = self.send("POST", _pods(pod), pod)
        path = f"{_pods(pod)}/{pod['metadata']['name']}"
        if does < 0.1:
            return self.send("DELETE", path)
        if does < 0.15:
            ended = {"status": {"phase": random.choice(("Succeeded", "Failed"))}}
            return self.send("PATCH", f"{path}/status", ended, "application/merge-patch+json")
        return created

    def _placed(self, seed, world, pod):
        """What differs of one pod; where it was bound, the world has it there afterwards."""
        difference = ""
        path = f"{_pods(pod)}/{pod['metadata']['name']}"
        for attempt in range(AGAIN):
            if attempt:
                self.counts["asked again"] += 1
                self.send("DELETE", f"{path}?gracePeriodSeconds=0")
                time.sleep(0.3)
            created = self.send("POST", _pods(pod), pod)
            decided = self.decided(path)
            difference = _difference(world, created, decided)
            if not difference:
                break
        node = decided["spec"].get("nodeName", "")
        self.counts["bound" if node else "refused"] += 1
        self.counts[f"{pod['spec']['schedulerName']}: {'bound' if node else 'refused'}"] += 1
        if node:
            see(world, pods, decided)
        else:
            self._refusals[decided["metadata"]["uid"]] = _refusal(decided)
            reasons = _refusal(decided).partition(":")[2].strip(" .").split(", ")
            self.counts.update(one.lstrip("0123456789 ") for one in reasons)
            self.send("DELETE", f"{path}?gracePeriodSeconds=0")
        return [f"seed {seed}, {pod['metadata']['name']}: {difference}"] if difference else []

    def decided(self, path):
        """The pod, once it was bound or refused."""
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            found = self.send("GET", path)
            if found["spec"].get("nodeName") or _refusal(found):
                return found
            time.sleep(0.003)
        raise AssertionError(f"kube-scheduler says nothing of {path}")


def _pods(pod):
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"


def _refusal(pod):
    """The message of FailedScheduling, which the condition repeats."""
    for one in pod["status"].get("conditions") or ():
        if one["type"] == "PodScheduled" and one["status"] == "False":
            return one["message"]
    return ""


def see(world, source, manifest):
    """The world has the object from now on."""
    raw = json.dumps(manifest).encode()
    change = "MODIFIED" if manifest["metadata"].get("deletionTimestamp") else "ADDED"
    world.see(source.translate(Record(change, raw, 0, "parity", "parity"), LABELS))


def _difference(world, created, decided):
    """How kube-scheduler's decision is not ours; "" = it could be."""
    see(world, pods, created)
    pod = world.state.pods[created["metadata"]["uid"]]
    name = created["spec"]["schedulerName"]
    enabled = tuple(Enabled(one, weight) for one, weight in PROFILES[name])
    framework = Framework(Profile(name, enabled), PluginContext(Columns(world.state)))
    waits = framework.pre_enqueue(pod)
    if waits:
        return f"{name} would not queue it: {waits}"
    node, theirs = decided["spec"].get("nodeName", ""), _refusal(decided)
    if not node:
        ours = explained(framework, pod, 0)
        return (
            ""
            if ours.message == theirs
            else f"{name} {ours.node or ours.message!r}, not {theirs!r}"
        )
    choice = framework.choose(Cycle(pod, framework.context), 0)
    best = choice.rows[choice.totals == choice.totals.max(initial=0)] if choice.rows.size else ()
    fitting = [framework.columns.names[row] for row in np.asarray(best, int)]
    if node in fitting:
        return ""
    scores = {one: found.tolist() for one, found in choice.scores.items()}
    names = [framework.columns.names[row] for row in choice.rows]
    return f"{name} {fitting or choice.reason}, not {node}; of {names}: {scores}"
