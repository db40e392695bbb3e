"""300 pods of a real cluster, watched twice at once, are in the ledger to the integer.

The truth is kept apart from Bursar: a raw watch of the test's own tells what the API server said of each pod, and the
rules of docs/accounting.md are written here once more, for what these pods do. Of Bursar the truth takes one thing: which
of the two watchers was first on the bus with a version, since a change counts from when that one received it. When
that was is known from the wire.
"""

import asyncio
import itertools
import random
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass

import pytest
import sqlalchemy as sa

from projections.usage import usage_days, usage_hours
from tests.acceptance.bookkeeping import SECOND_US, Bookkeeping, second
from tests.cluster.api import STRATEGIC, ApiError, eventually

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.timeout(600)]

PODS = 300
TEAMS = ("vision", "language", "robotics")
#: How pods end; what is in LEFT is not deleted.
ENDS = (
    "finish",
    "finish and go",
    "fail",
    "fail and go",
    "delete",
    "stop",
    "force",
    "evict",
    "stay",
)
LEFT = ("finish", "fail", "stay")
CPU = ("100m", "250m", "0.5", "1")
MEMORY = ("128Mi", "1000M", "1Gi")


class OwnWatch(threading.Thread):
    """Every version of every pod, as the API server tells a plain client: uid to [(change, object)]."""

    def __init__(self, plane):
        super().__init__(daemon=True)
        self.told = defaultdict(list)
        self._api = plane.api
        self._version = self._api.request("GET", "/api/v1/pods")["metadata"]["resourceVersion"]
        self._over = threading.Event()

    def run(self):
        while not self._over.is_set():
            for event in self._api.watch("/api/v1/pods", self._version, seconds=2):
                metadata = event["object"]["metadata"]
                self._version = metadata["resourceVersion"]
                self.told[metadata["uid"]].append((event["type"], event["object"]))

    def stop(self):
        """Ends the watch; returns when nothing more comes."""
        self._over.set()
        self.join()


# What the client does.


@dataclass
class Life:
    """One pod as it is planned: where, how it begins and ends, and what happens to it in between."""

    name: str
    namespace: str
    begin: str
    ending: str
    steps: list[str]
    uid: str = ""

    @property
    def path(self):
        return f"/api/v1/namespaces/{self.namespace}/pods"


def plan(rng, namespaces):
    """The lives of all pods, and each pod's steps in its own order, those of all pods mixed."""
    lives = []
    for number in range(PODS):
        begin = rng.choices(("bound", "named", "unbound", "held"), (16, 2, 1, 1))[0]
        ending = rng.choice(ENDS)
        changes = [rng.choice(("relabel", "resize", "resize")) for _ in range(rng.randrange(4))]
        last = [] if ending in LEFT else ["end"]
        steps = ["create", *changes, *last]
        lives.append(Life(f"p{number}", rng.choice(namespaces), begin, ending, steps))
    order = [life for life in lives for _ in life.steps]
    rng.shuffle(order)
    left = {life.name: iter(life.steps) for life in lives}
    return lives, [(life, next(left[life.name])) for life in order]


def manifest(life, rng, nodes):
    """The pod as it is created."""
    requests = {"cpu": rng.choice(CPU), "memory": rng.choice(MEMORY)}
    if rng.random() < 0.1:
        requests["nvidia.com/gpu"] = "1"
    containers = [{"name": "main", "image": "x", "resources": amounts(requests)}]
    if rng.random() < 0.2:
        more = {"cpu": rng.choice(CPU), "memory": rng.choice(MEMORY)}
        containers.append({"name": "side", "image": "x", "resources": amounts(more)})
    spec = {"containers": containers, "restartPolicy": "Never"}
    code = "1" if life.ending.startswith("fail") else "0"
    annotations = {"bursar.test/exit-code": code}
    if life.ending.startswith(("finish", "fail")):
        annotations["bursar.test/run-seconds"] = str(rng.randrange(1, 12))
    if life.ending == "stop":
        annotations["bursar.test/stop-seconds"] = str(rng.randrange(1, 4))
    if life.begin == "named":
        spec["nodeName"] = rng.choice(nodes)
    if life.begin == "unbound":
        spec["nodeSelector"] = {"no/where": "x"}
    if life.begin == "held":
        annotations["bursar.test/start"] = "never"
    labels = {"bursar.io/team": rng.choice(TEAMS)} if rng.random() < 0.5 else {}
    return {
        "metadata": {"name": life.name, "annotations": annotations, "labels": labels},
        "spec": spec,
    }


def amounts(requests):
    """The same as requests and limits."""
    return {"requests": requests, "limits": requests}


def taken(api, life, step, rng, nodes):
    """Takes one step; the object that the API server answers with."""
    path = f"{life.path}/{life.name}"
    if step == "create":
        return api.request("POST", life.path, manifest(life, rng, nodes))
    if step == "relabel":
        patch = {"metadata": {"labels": {"bursar.io/team": rng.choice((*TEAMS, None))}}}
        return api.request("PATCH", path, patch, content_type=STRATEGIC)
    if step == "resize":
        requests = {"cpu": rng.choice(CPU), "memory": rng.choice(MEMORY)}
        patch = {"spec": {"containers": [{"name": "main", "resources": amounts(requests)}]}}
        return api.request("PATCH", f"{path}/resize", patch, content_type=STRATEGIC)
    if life.ending == "evict":
        return api.request("POST", f"{path}/eviction", {"metadata": {"name": life.name}})
    return api.request(
        "DELETE", path, {"gracePeriodSeconds": 0} if life.ending == "force" else None
    )


def live(api, order, rng, nodes):
    """Takes all steps; what came of them, counted, and every version that an answer showed.

    What the API server refuses (a resize of a pod that has ended) is left.
    """
    outcomes, answered = Counter(), set()
    for life, step in order:
        try:
            said = taken(api, life, step, rng, nodes)
        except ApiError as error:
            outcomes[f"{step} refused, {error.status}"] += 1
            continue
        outcomes[step if step != "end" else life.ending] += 1
        if step == "create":
            life.uid = said["metadata"]["uid"]
        if step != "end":
            answered.add((said["metadata"]["uid"], said["metadata"]["resourceVersion"]))
        time.sleep(rng.random() * 0.05)
    return outcomes, answered


# What is true.


def started(things):
    """When a pod began to hold by its versions, None while it is not bound; and the flag of that.

    A version without the condition says nothing once the kubelet has written a status.
    """
    created = second(things[0]["metadata"]["creationTimestamp"])
    bound = [thing for thing in things if "nodeName" in thing["spec"]]
    scheduled = [
        second(condition["lastTransitionTime"])
        for thing in bound
        for condition in thing["status"].get("conditions", ())
        if condition["type"] == "PodScheduled" and condition["status"] == "True"
    ]
    begun = [second(one["status"]["startTime"]) for one in bound if "startTime" in one["status"]]
    if any(not is_scheduled(one) and "startTime" not in one["status"] for one in bound):
        scheduled.append(created)
    if scheduled:
        return max(min(scheduled), created), ()
    return (max(min(begun), created), ("start_acknowledged",)) if begun else (None, ())


def is_scheduled(thing):
    """Whether a version of a pod has the condition."""
    conditions = thing["status"].get("conditions", ())
    return ("PodScheduled", "True") in {(one["type"], one["status"]) for one in conditions}


def ended(things):
    """When a pod stopped to hold by its versions; None while it does."""
    ends = []
    for thing in things:
        if thing["status"]["phase"] in ("Succeeded", "Failed"):
            states = [one["state"] for one in thing["status"]["containerStatuses"]]
            ends.append(max(second(state["terminated"]["finishedAt"]) for state in states))
            break
    for thing in things:
        if thing["metadata"].get("deletionGracePeriodSeconds") == 0:
            ends.append(second(thing["metadata"]["deletionTimestamp"]))
    return min(ends, default=None)


UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def milli(text):
    """Thousandths of a quantity."""
    number = text.rstrip("mkMGi")
    unit = text[len(number) :]
    return int(number) if unit == "m" else int(number) * UNITS[unit] * 1000


def charge(thing):
    """(milli-cores, MiB, milli-GPUs) of a version: for each container the most of what it wants, has and was promised."""
    statuses = {one["name"]: one for one in thing["status"].get("containerStatuses", ())}
    total = Counter()
    for container in thing["spec"]["containers"]:
        status = statuses.get(container["name"], {})
        most = Counter()
        for found in (
            container["resources"]["requests"],
            status.get("resources", {}).get("requests", {}),
            status.get("allocatedResources", {}),
        ):
            most |= Counter({name: milli(text) for name, text in found.items()})
        total += most
    return total["cpu"], -(-total["memory"] // (1000 * 2**20)), total["nvidia.com/gpu"]


def cut(values):
    """(second, value) of each change: a value holds until a newer one was received, the last of a second counts.

    The first one holds for ever before.
    """
    by_second, earliest = {}, None
    for at_s, value in reversed(values):
        earliest = at_s if earliest is None else min(earliest, at_s)
        by_second.setdefault(earliest, value)
    changes = [(0, values[0][1])]
    for at_s, value in sorted(by_second.items()):
        if changes[-1][1] != value:
            changes.append((at_s, value))
    return changes


class Truth:
    """What is true of each pod. `received`: (change, uid, version) to the second in which it was received."""

    def __init__(self, told, received, team_of, model_of):
        self.told, self.received = told, received
        self.team_of, self.model_of = team_of, model_of

    def pod(self, uid, as_of_s):
        """(waiting, segments, unknown, open, flags)"""
        told = self.told[uid]
        things = [thing for _, thing in told]
        created = second(things[0]["metadata"]["creationTimestamp"])
        start, flags = started(things)
        end = ended(things)
        stop = as_of_s if end is None else max(end, created if start is None else start)
        waiting = (stop if start is None else start) - created
        if start is None:
            return waiting, [], 0, end is None, ()
        values = [
            (self.received[change, uid, thing["metadata"]["resourceVersion"]], self.value(thing))
            for change, thing in told
            if "nodeName" in thing["spec"]
        ]
        changes = cut(values)
        cuts = [start, *(at_s for at_s, _ in changes[1:] if start < at_s < stop), stop]
        segments = []
        for begin, until in itertools.pairwise(cuts):
            value = [value for at_s, value in changes if at_s <= begin][-1]
            if begin < until:
                segments.append((begin, until, *value))
        return waiting, segments, 0, end is None, flags

    def value(self, thing):
        """Charge, team, node and model of a version."""
        metadata, node = thing["metadata"], thing["spec"]["nodeName"]
        team = (
            metadata.get("labels", {}).get("bursar.io/team") or self.team_of[metadata["namespace"]]
        )
        return (*charge(thing), team, node, self.model_of[node])


def totals(rows, before_s):
    """Milli-core-seconds, MiB-seconds and milli-GPU-seconds by team, of segments that ended before a second."""
    sums = defaultdict(Counter)
    for _, segments, *_ in rows.values():
        for begin, until, cpu, memory, gpu, team, _, _ in segments:
            if until < before_s:
                seconds = until - begin
                sums[team] += Counter(cpu=cpu * seconds, memory=memory * seconds, gpu=gpu * seconds)
    return dict(sums)


# The test.


@pytest.fixture
def scene(plane, namespace):
    """Three namespaces, two of which name a team, and six nodes of another GPU model."""
    api = plane.api
    team_of = {namespace: "unassigned"}
    for team in ("vision", "language"):
        name = f"{namespace}-{team}"
        metadata = {"name": name, "labels": {"bursar.io/team": team}}
        api.request("POST", "/api/v1/namespaces", {"metadata": metadata})
        team_of[name] = team
    nodes = plane.create_nodes(6, prefix=namespace, model="NVIDIA-H100")
    found = api.request("GET", "/api/v1/nodes")["items"]
    model_of = {
        one["metadata"]["name"]: one["metadata"]["labels"].get("nvidia.com/gpu.product")
        for one in found
    }
    yield team_of, nodes, model_of
    for name in team_of:
        api.request("DELETE", f"/api/v1/namespaces/{name}")
    for name in nodes:
        api.request("DELETE", f"/api/v1/nodes/{name}")


def is_over(life, told):
    """Whether what was planned has happened: a pod that never ran cannot finish."""
    change, thing = told[life.uid][-1]
    if life.ending == "stay" or (life.ending in LEFT and life.begin in ("unbound", "held")):
        return True
    return (
        change == "DELETED"
        if life.ending not in LEFT
        else "Pending" != thing["status"]["phase"] != "Running"
    )


async def lived(plane, books, lives, order, rng, nodes):
    """Lets two watchers see all lives; every version, who received it when, and what the client did."""
    watch = OwnWatch(plane)
    watch.start()
    watchers = [await books.watch(plane, name) for name in ("-a", "-b")]
    living = asyncio.create_task(asyncio.to_thread(live, plane.api, order, rng, nodes))
    while not living.done():
        await asyncio.sleep(rng.random() * 5)
        rng.choice(watchers).pods.relist("test")
    outcomes, answered = await living
    await asyncio.to_thread(
        eventually, lambda: all(is_over(life, watch.told) for life in lives), seconds=60
    )
    await asyncio.to_thread(watch.stop)
    versions = {
        (uid, thing["metadata"]["resourceVersion"]): change
        for uid in {life.uid for life in lives}
        for change, thing in watch.told[uid]
    }
    for watcher in watchers:
        arrivals = watcher.taps["pods"].arrivals
        await watcher.until(lambda arrivals=arrivals: arrivals.keys() >= versions.keys())
    await books.settled()
    return watch.told, versions, watchers, outcomes, answered


def received(books, watchers, versions):
    """The second in which each version was received by the watcher that was first on the bus with it."""
    said_by = books.said_by()
    arrivals = {f"kube/pods{one.name}": one.taps["pods"].arrivals for one in watchers}
    found = {}
    for (uid, version), change in versions.items():
        kind = "pod.vanished" if change == "DELETED" else "pod.observed"
        source = said_by[f"{kind}/{uid}/{version}"]
        found[change, uid, version] = arrivals[source][uid, version] // SECOND_US
    return found


def booked(books, namespaces, as_of_s):
    """What the ledger says of every pod of these namespaces, in the shape of the truth."""
    return {
        one.uid: (
            one.waiting_s,
            [
                (
                    h.start_s,
                    h.end_s,
                    h.cpu_milli,
                    h.memory_mib,
                    h.gpu_milli,
                    h.team,
                    h.node,
                    h.model,
                )
                for h in one.holdings
            ],
            one.unknown_s,
            one.is_open,
            one.flags,
        )
        for one in books.accounts(as_of_s).values()
        if one.namespace in namespaces
    }


def summed(books, table, namespaces):
    """The ledger's own sums by team, of what has ended."""
    found = defaultdict(Counter)
    amounts = (table.c.cpu_milli_s, table.c.memory_mib_s, table.c.gpu_milli_s)
    query = sa.select(table.c.team, *amounts).where(table.c.namespace.in_(namespaces))
    for team, cpu, memory, gpu in books.store.select(query):
        found[team] += Counter(cpu=cpu, memory=memory, gpu=gpu)
    return {team: sums for team, sums in found.items() if sums}


def report(outcomes, rows, versions, watchers, as_of_s):
    """What was shown, for who looks at the test's output."""
    print(f"\n{len(rows)} pods, {len(versions)} versions; the client: {dict(outcomes)}")
    print(
        f"segments: {Counter(len(row[1]) for row in rows.values())}, open: {sum(row[3] for row in rows.values())}"
    )
    for team, sums in sorted(totals(rows, as_of_s + 1).items()):
        print(f"{team}: {dict(sums)}")
    seconds = [
        [watcher.taps["pods"].arrivals[key] // SECOND_US for watcher in watchers]
        for key in versions
    ]
    print(f"received in different seconds: {sum(a != b for a, b in seconds)} of {len(seconds)}")
    for watcher in watchers:
        state = watcher.pods.state
        print(f"watcher {watcher.name}: {state.published} events, lists {dict(state.relists)}")


async def test_two_watchers_of_300_pods_book_what_was_held_to_the_integer(plane, scene, tmp_path):
    team_of, nodes, model_of = scene
    rng = random.Random(20261026)
    lives, order = plan(rng, sorted(team_of))
    async with Bookkeeping(tmp_path) as books:
        told, versions, watchers, outcomes, answered = await lived(
            plane, books, lives, order, rng, nodes
        )
        as_of_s = int(time.time()) + 5
        truth = Truth(told, received(books, watchers, versions), team_of, model_of)
        expected = {life.uid: truth.pod(life.uid, as_of_s) for life in lives}
        actual = booked(books, team_of, as_of_s)
        closed = totals(expected, as_of_s)
        report(outcomes, expected, versions, watchers, as_of_s)

        assert PODS == outcomes["create"] == len(expected)
        assert answered <= versions.keys()
        assert expected == actual
        assert closed == summed(books, usage_hours, team_of)
        assert closed == summed(books, usage_days, team_of)
        assert [] == books.parked()
