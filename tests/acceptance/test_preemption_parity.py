"""Random crowded worlds beside the real kube-scheduler: the same victims on one of the nodes that are equally good, the same words.

`BURSAR_PARITY_WORLDS=1000 pytest -m slow tests/acceptance/test_preemption_parity.py` compares 1,000 worlds, `BURSAR_PARITY_FIRST`
says the number of the first.
"""

import copy
import os
import time
from collections import Counter
from contextlib import closing
from random import Random

import pytest

from bus.sources import disruptions, namespaces, nodes, pods
from reactors.scheduling.columns.table import Columns
from reactors.scheduling.framework.context import PluginContext
from reactors.scheduling.framework.contract import Cycle
from reactors.scheduling.framework.explaining import explained
from reactors.scheduling.framework.profiles import Enabled, Profile
from reactors.scheduling.framework.runner import Framework
from reactors.scheduling.plugins.default_preemption import DefaultPreemption
from tests.acceptance import parity_worlds as worlds
from tests.acceptance.parity import PROFILES, Site, configuration, see
from tests.cluster import build
from tests.cluster.plane import ControlPlane
from tests.reactors.scheduling.worlds import World

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.waits]

WORLDS = int(os.environ.get("BURSAR_PARITY_WORLDS", "40"))
FIRST = int(os.environ.get("BURSAR_PARITY_FIRST", "0"))
NAME = "preempting"
PRIORITIES = {"lower": -5, "low": 1, "middle": 3, "high": 9}
#: Seeds with which each of several equal nodes is taken once, very likely.
TIES = 40
MERGE = "application/merge-patch+json"


def preempting():
    """kube-scheduler's default with preemption, under a name of its own."""
    found = configuration()
    profile = copy.deepcopy(next(one for one in found["profiles"] if one["schedulerName"] == "all"))
    profile["schedulerName"] = NAME
    profile["plugins"]["multiPoint"]["enabled"].append({"name": "DefaultPreemption"})
    return found | {"profiles": [profile]}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Nobody but kube-scheduler works on its objects."""
    if reason := build.missing():
        pytest.skip(f"no control plane: {reason}")
    plane = ControlPlane(
        tmp_path_factory.mktemp("plane"),
        controllers=False,
        simulator=False,
        apiserver_flags=["--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"],
        scheduler_config=preempting(),
    )
    with plane, closing(Site(plane)) as site:
        for name, value in PRIORITIES.items():
            body = {"metadata": {"name": name}, "value": value}
            site.send("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
        yield site


class Crowd:
    """A world whose nodes are full."""

    def __init__(self, site, seed):
        self._site, self._seed, self._random = site, seed, Random(seed)
        self.world = World()
        names = [f"n{number}-{seed}" for number in range(self._random.randint(1, 4))]
        for one in site.spaces:
            see(self.world, namespaces, one)
        for number, name in enumerate(names):
            one = worlds.node(self._random, name, number)
            see(self.world, nodes, site.send("POST", "/api/v1/nodes", one))
        self._seconds = self._random.sample(range(60), k=16)
        self.paths = [self._held(number, names) for number in range(16)]
        for number in range(self._random.randint(0, 2)):
            self._budget(number)
        self.asker = self._pod("asks", names)
        self.asker["spec"]["priorityClassName"] = self._random.choice(("middle", "high", "high"))
        self.asker["spec"]["schedulerName"] = NAME

    def _pod(self, name, names):
        found = worlds.pod(self._random, f"{name}-{self._seed}", names)
        if self._random.random() < 0.6:
            for key in ("affinity", "topologySpreadConstraints", "nodeSelector"):
                found["spec"].pop(key, None)
        found["spec"]["tolerations"] = [{"operator": "Exists"}]
        found["spec"].pop("volumes", None)
        return found

    def _held(self, number, names):
        one = self._pod(f"held{number}", names)
        rank = self._random.choice(("lower", "low", "low", "middle"))
        one["spec"] |= {"nodeName": self._random.choice(names), "priorityClassName": rank}
        one["spec"]["containers"][0].pop("ports", None)
        path = f"/api/v1/namespaces/{one['metadata']['namespace']}/pods"
        self._site.send("POST", path, one)
        path += f"/{one['metadata']['name']}"
        # Of pods that began in one second kube-scheduler takes any.
        at = f"2026-01-01T00:00:{self._seconds[number]:02}Z"
        bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
        status = {"phase": "Running", "startTime": at, "conditions": [bound]}
        see(self.world, pods, self._site.send("PATCH", f"{path}/status", {"status": status}, MERGE))
        return path

    def _budget(self, number):
        space, app = self._random.choice(worlds.SPACES), self._random.choice(worlds.APPS)
        path = f"/apis/policy/v1/namespaces/{space}/poddisruptionbudgets"
        name = f"b{number}-{self._seed}"
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}
        self._site.send("POST", path, {"metadata": {"name": name}, "spec": spec})
        counts = {"currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
        status = {"disruptionsAllowed": self._random.randint(0, 2)} | counts
        patched = self._site.send("PATCH", f"{path}/{name}/status", {"status": status}, MERGE)
        see(self.world, disruptions, patched)

    def going(self):
        """Uids of the pods that were there and are to go."""
        found = [self._site.send("GET", path)["metadata"] for path in self.paths]
        return {one["uid"] for one in found if one.get("deletionTimestamp")}

    def expected(self, created):
        """(message of kube-scheduler, (node, uids of victims) of each candidate that is equally good); None where it fits."""
        see(self.world, pods, created)
        pod = self.world.state.pods[created["metadata"]["uid"]]
        enabled = (*PROFILES["all"], (DefaultPreemption(), 1))
        profile = Profile(NAME, tuple(Enabled(*one) for one in enabled))
        framework = Framework(profile, PluginContext(Columns(self.world.state)))
        found = explained(framework, pod, 0)
        if found.node:
            return None
        message, candidates = found.message, []
        for seed in range(TIES):
            one = framework.post_filter(Cycle(pod, framework.context), seed)
            if not one.node:
                message = f"{message} {one.message}"
                break
            candidates.append((one.node, {victim.uid for victim in one.victims}))
        return message, candidates


def compared(site, seed, counts):
    """How the two differ in one world; "" = they do not."""
    crowd = Crowd(site, seed)
    path = f"/api/v1/namespaces/{crowd.asker['metadata']['namespace']}/pods"
    # Its scheduler may not have seen all of the world yet.
    time.sleep(0.1)
    created = site.send("POST", path, crowd.asker)
    decided = site.decided(f"{path}/{crowd.asker['metadata']['name']}")
    expected = crowd.expected(created)
    node = decided["spec"].get("nodeName", "")
    if expected is None or node:
        counts["fits"] += 1
        return "" if expected is None and node else f"seed {seed}: {node!r}, not {expected}"
    message, candidates = expected
    (told,) = (one["message"] for one in decided["status"]["conditions"] if one["type"] == "PodScheduled")  # fmt: skip
    nominated = decided["status"].get("nominatedNodeName", "")
    if told != message:
        return f"seed {seed}: {told!r} {nominated}, not {message!r} {candidates[:1]}"
    if not candidates:
        counts["in vain"] += 1
        return "" if not nominated else f"seed {seed}: {nominated}, not nobody"
    until = time.monotonic() + 5
    while (nominated, crowd.going()) not in candidates and time.monotonic() < until:
        time.sleep(0.02)
    counts[f"{min(len(crowd.going()), 3)} victims"] += 1
    if (nominated, crowd.going()) in candidates:
        return ""
    return f"seed {seed}: {nominated} {crowd.going()}, not {candidates[:2]}"


@pytest.mark.timeout(3600)
def test_kube_scheduler_evicts_whom_bursar_would(site):
    found, counts = [], Counter()
    for seed in range(FIRST, FIRST + WORLDS):
        found.append(compared(site, seed, counts))
        site.clear()
        for space in sorted(set(worlds.SPACES)):
            site.send("DELETE", f"/apis/policy/v1/namespaces/{space}/poddisruptionbudgets")
    found = [one for one in found if one]
    print(dict(sorted(counts.items())))

    assert not found, f"{len(found)} differ:\n" + "\n".join(found[:20])
    assert sum(count for name, count in counts.items() if "victims" in name) > WORLDS // 5
