"""The lives of pods on a real node, all at once: each ends in its own way, while Bursar follows and while it is away."""

import json
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.acceptance.up_process import Up
from tests.cluster.api import MERGE, Json, eventually
from tests.node.node import Node
from tests.node.pods import (
    NAMESPACE,
    Record,
    amounts,
    box,
    has_ended,
    is_running,
    pod,
)

#: Pods that end by themselves, or by the kubelet's hand, soon after their start.
SHORT = (
    "ok",
    "fail",
    "two",
    "init",
    "init-failed",
    "no-command",
    "oom",
    "deadline",
    "disk",
    "too-big",
)
#: Pods that run until a test ends them.
LONG = (
    "polite",
    "deaf",
    "forced",
    "evicted",
    "resized",
    "outlived",
    "deleted-meanwhile",
    "lost",
    "preempted",
    "pressed",
    "pressed-at-once",
    "gone-unseen",
)


class Played(NamedTuple):
    """What happened, and what the ledgers of both have of it, by name of pod."""

    record: Record
    live: dict[str, Any]
    away: dict[str, Any]
    #: Seconds of the machine's clock, which is also that of every server here.
    moments: dict[str, float]
    static: str


def play(node: Node, folder: Path) -> Played:
    """Plays all scenarios; returns when both ledgers have their ends."""
    api = node.plane.api
    api.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    record, moments = Record(api, folder / "watch.jsonl"), {}
    live, away = (Up(node.plane, _made(folder / name)) for name in ("live", "away"))
    try:
        with ThreadPoolExecutor() as pool:
            list(pool.map(Up.start, (live, away)))
        static = begin(node, record)
        ask_for_ends(record, static)
        record.until(has_ended, *SHORT)
        eventually(lambda: {"outlived", "lost", "gone-unseen"} <= _open(away), seconds=60)
        away.end(signal.SIGTERM)
        moments["away"] = time.time()
        happen_unseen(node, record, moments)
        moments["back"] = time.time()
        away.start()
        be_short_of_room(node, record)
        (node.static_pods / "static.json").unlink()
        record.until_gone(static)
        names = {name for name in record.names() if name != static}
        for up in (live, away):
            with suppress(AssertionError):
                eventually(lambda up=up: not _open(up) & names, seconds=30)
        record.stop()
        return Played(record, _rows(live), _rows(away), moments, static)
    finally:
        for up in (live, away):
            with suppress(ProcessLookupError):
                up.end(signal.SIGKILL)


def begin(node: Node, record: Record) -> str:
    """Asks for all pods; returns the name of the static one when all others run, or have ended."""
    cores = int(
        node.plane.api.request("GET", f"/api/v1/nodes/{node.name}")["status"]["capacity"]["cpu"]
    )
    forever = box()
    here = {"nodeName": node.name}
    static = pod("static", forever)
    (node.static_pods / "static.json").write_text(json.dumps(static))
    side = box(name="side", restartPolicy="Always")
    volume = {"name": "d", "emptyDir": {"sizeLimit": "10Mi"}}
    writes = box("-write=/d/x", "-mib=30", volumeMounts=[{"name": "d", "mountPath": "/d"}])
    half = {"resources": {"requests": {"cpu": f"{cores * 600}m"}}}
    for body in (
        pod("ok", box("-seconds=2")),
        pod("fail", box("-seconds=1", "-exit=3")),
        pod("two", box("-seconds=1", name="a"), box("-seconds=4", "-exit=2", name="b")),
        pod("init", box("-seconds=2"), initContainers=[box("-seconds=1", name="first"), side]),
        pod("init-failed", box(), initContainers=[box("-seconds=1", "-exit=7", name="first")]),
        pod("no-command", {**forever, "command": ["/no/such"]}),
        pod("oom", box("-grow", resources=amounts("50m", "32Mi"))),
        pod("deadline", box("-linger=1"), activeDeadlineSeconds=4),
        pod("disk", writes, volumes=[volume]),
        pod("too-big", box(resources=amounts(f"{cores * 32}", "64Mi")), **here),
        pod("absent", {**forever, "image": "localhost/absent:1"}),
        pod("crash", box("-seconds=1", "-exit=1"), restartPolicy="Always"),
        pod("polite", box("-linger=3"), terminationGracePeriodSeconds=20),
        pod("deaf", box("-deaf")),
        pod("forced", box("-deaf"), terminationGracePeriodSeconds=30),
        pod("evicted", box("-linger=3"), terminationGracePeriodSeconds=20),
        pod("resized", box(resources=amounts("50m", "64Mi"))),
        pod("outlived", forever),
        pod("deleted-meanwhile", box("-linger=1")),
        pod("lost", forever, initContainers=[box("-seconds=0.1", name="first")], **here),
        pod("gone-unseen", forever),
        pod("preempted", box(**half), terminationGracePeriodSeconds=2),
        pod("pressed", box(resources=amounts("50m", "64Mi")), terminationGracePeriodSeconds=2),
        pod("pressed-at-once", forever, terminationGracePeriodSeconds=2),
    ):
        record.create(body)
    record.until(is_running, *LONG)
    static = f"static-{node.name}"
    record.until(is_running, static)
    return static


def ask_for_ends(record: Record, static: str) -> None:
    """Deletes, evicts and resizes, and waits for what follows."""
    record.delete("polite")
    record.delete("deaf")
    record.delete("forced", gracePeriodSeconds=0)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "evicted"}}
    record.ask("POST", "evicted/eviction", eviction)
    wider = {"spec": {"containers": [{"name": "main", "resources": amounts("100m", "64Mi")}]}}
    record.ask(
        "PATCH", "resized/resize", wider, content_type="application/strategic-merge-patch+json"
    )
    record.until(lambda found: waits_for(found, "ErrImageNeverPull"), "absent")
    record.until(lambda found: waits_for(found, "CrashLoopBackOff"), "crash")
    record.delete("absent")
    record.delete("crash")
    uid = record.last(static)["metadata"]["uid"]
    record.delete(static, gracePeriodSeconds=0)
    record.until(lambda found: found["metadata"]["uid"] != uid and is_running(found), static)
    record.until_gone("polite", "deaf", "forced", "evicted", "absent", "crash")
    record.until(is_resized, "resized")
    record.delete("resized")
    record.until_gone("resized")


def happen_unseen(node: Node, record: Record, moments: dict[str, float]) -> None:
    """What happens while one ledger is away, and then while the kubelet is down, too."""
    record.create(pod("both-unseen", box("-seconds=1")))
    record.delete("gone-unseen")
    record.until(has_ended, "both-unseen")
    record.until_gone("gone-unseen")
    node.stop_kubelet()
    end_task(node, container(record, "outlived"), "SIGTERM")
    lose(node, container(record, "lost"))
    moments["lost"] = time.time()
    record.delete("deleted-meanwhile")
    record.ask("PATCH", "lost", {"spec": {"activeDeadlineSeconds": 1}}, content_type=MERGE)
    moments["kubelet"] = time.time()
    node.start_kubelet()
    record.until(has_ended, "outlived", "lost")
    record.until_gone("deleted-meanwhile")
    too_big = box(resources=amounts("4000", "64Mi"))
    record.create(pod("refused-unseen", too_big, nodeName=node.name))
    record.until(has_ended, "refused-unseen")


def be_short_of_room(node: Node, record: Record) -> None:
    """A critical pod takes the room of another, and then memory is short by the kubelet's new settings."""
    cpu = record.last("preempted")["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    critical = box(resources={"requests": {"cpu": cpu}})
    priority = {"priorityClassName": "system-node-critical", "nodeName": node.name}
    record.create(pod("critical", critical, **priority))
    record.until(has_ended, "preempted")
    record.until(is_running, "critical")
    record.delete("critical")
    record.until_gone("critical")
    node.stop_kubelet()
    node.start_kubelet(evictionHard={"memory.available": "99%"})
    record.until(has_ended, "pressed", "pressed-at-once")
    node.stop_kubelet()
    node.start_kubelet()


def container(record: Record, name: str) -> str:
    """The id of the main container of a pod."""
    [found] = record.last(name)["status"]["containerStatuses"]
    return str(found["containerID"]).partition("//")[2]


def end_task(node: Node, identity: str, signal_name: str) -> None:
    """Signals a container, and returns when it runs no more."""
    node.ctr("tasks", "kill", "--signal", signal_name, identity)

    def is_over() -> bool:
        lines = [line.split() for line in node.ctr("tasks", "ls").splitlines()]
        return [identity, "RUNNING"] not in [[line[0], line[-1]] for line in lines]

    eventually(is_over)


def lose(node: Node, identity: str) -> None:
    """Kills a container, and has the runtime forget it, as a lost state folder does."""
    end_task(node, identity, "SIGKILL")
    # The runtime deletes an ended task itself, a little later.
    eventually(lambda: identity not in node.ctr("tasks", "ls"))
    node.ctr("containers", "delete", identity)
    node.stop_containerd()
    node.start_containerd()


def waits_for(version: Json, reason: str) -> bool:
    states = [one["state"] for one in version["status"].get("containerStatuses", ())]
    return any(one.get("waiting", {}).get("reason") == reason for one in states)


def is_resized(version: Json) -> bool:
    """Whether the container has what it was last asked to have."""
    [asked] = [one["resources"] for one in version["spec"]["containers"]]
    [found] = version["status"]["containerStatuses"]
    return asked["requests"]["cpu"] == "100m" and found.get("resources") == asked


def _rows(up: Up) -> dict[str, Any]:
    """Rows by name; of a name with several pods the list of all."""
    found: dict[str, Any] = {}
    for one in up.accounts(NAMESPACE):
        found.setdefault(one.name, []).append(one)
    return {name: rows[0] if len(rows) == 1 else rows for name, rows in found.items()}


def _open(up: Up) -> set[str]:
    return {one.name for one in up.accounts(NAMESPACE) if one.is_open and one.holdings}


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder
