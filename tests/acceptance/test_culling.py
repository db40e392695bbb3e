"""Culling from end to end: real notebook servers, a real API server, real kinds; limits of seconds instead of hours.

Each server is told to be what its name says, all at once. Who must be stopped is, who must not is never touched.
"""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from bus.clock import SystemClock
from bus.events.decisions import Cull, Warn
from bus.kube.client import Access, connect
from bus.kube.watch.contract import ReflectorSettings
from bus.kube.watch.reflector import Reflector
from bus.memory import MemoryTransport
from bus.notebooks.prober import ProbeSettings
from bus.sources.catalogue import NAMESPACES, PODS, WORKLOADS
from bus.waiting import beside
from deploy.runtime.reactors import acting
from reactors.catalogue import REACTORS
from reactors.culling.effects import effects_by
from reactors.culling.policy import CullingPolicy
from reactors.culling.probing import Prober
from reactors.culling.reactor import reactor as culling
from reactors.engine import interlocks, runner
from reactors.engine.verify import rederive
from tests.bus.notebooks.notebooks import jupyter
from tests.cluster import notebooks
from tests.cluster.api import eventually

pytestmark = [
    pytest.mark.kube, pytest.mark.slow, pytest.mark.waits, pytest.mark.timeout(280),
]  # fmt: skip

QUICK = ReflectorSettings(linger_seconds=0.0, wait_seconds=0.1, longest_wait_seconds=1.0)
POLICY = CullingPolicy.model_validate(
    {
        "idle_seconds": 8, "check_period_seconds": 10, "presence_seconds": 3_600, "warning_seconds": 2,
        "starting_grace_seconds": 3,
        "pace": {"per_minute": 100, "per_namespace": 100, "per_node": 100},
    }
)  # fmt: skip

#: Kubeflow's: note the dash and the underscores; and what Go's time.RFC3339 and a browser's Date read.
STAMPS = ("last-activity", "last_activity_check_timestamp")
RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
LATELY = timedelta(seconds=100)

CULLED = {"idle": "Notebook", "never-connected": "StatefulSet", "killed-kernel": "StatefulSet"}
KEPT = {
    "silent-cell": "Notebook", "printing-cell": "StatefulSet", "open-browser": "StatefulSet",
    "terminals-only": "StatefulSet", "wants-a-token": "StatefulSet", "stopped-server": "Notebook",
}  # fmt: skip


class Loopback:
    """The API server, but that every pod lives on this machine."""

    def __init__(self, cluster):
        self._cluster = cluster

    async def get(self, path):
        found = await self._cluster.get(path)
        if "/pods/" in path and found.get("status", {}).get("podIP"):
            found["status"]["podIP"] = "127.0.0.1"
        return found


async def be_idle(server):
    tab = await server.run(await server.kernel(), "1 + 1")
    await asyncio.sleep(1)
    tab.close()


async def be_never_connected(server):
    await server.kernel()


async def be_killed_kernel(server):
    tab = await server.run(await server.kernel(), "import time; time.sleep(600)")
    await asyncio.sleep(1)
    tab.close()
    for child in psutil.Process(server.process.pid).children(recursive=True):
        if "ipykernel_launcher" in " ".join(child.cmdline()):
            os.kill(child.pid, signal.SIGKILL)


async def be_silent_cell(server):
    tab = await server.run(await server.kernel(), "import time; time.sleep(600)")
    await asyncio.sleep(1)
    tab.close()


async def be_printing_cell(server):
    code = "import time\nfor n in range(6000): print(n); time.sleep(.1)"
    tab = await server.run(await server.kernel(), code)
    await asyncio.sleep(1)
    tab.close()


async def be_open_browser(server):
    await server.run(await server.kernel(), "1 + 1")


async def be_terminals_only(server):
    await server.call("POST", "terminals", b"{}")


async def be_wants_a_token(server):
    await be_idle(server)


async def be_stopped_server(server):
    await be_idle(server)
    server.close()


async def typing(server):
    """Somebody opens a terminal now and then."""
    while True:
        await server.call("POST", "terminals", b"{}")
        await asyncio.sleep(2)


@pytest.fixture
def hasty(monkeypatch):
    """Seconds instead of minutes; nothing of the rules."""
    monkeypatch.setattr(runner, "TICK_US", 1_000_000)
    monkeypatch.setattr(interlocks, "SHARE", 1)


def put(plane, namespace, name, kind, server):
    """A notebook whose pod is what ``server`` serves; of a Notebook, what its controller makes of it."""
    labels = {"notebook-name": name} if kind == "Notebook" else {}
    body = notebooks.notebook("StatefulSet", name, labels=labels)
    body["spec"]["template"]["metadata"]["annotations"] = {
        "bursar.io/probe": "jupyter", "bursar.io/probe-port": str(server.peer.port),
    }  # fmt: skip
    if kind == "Notebook":
        owner = notebooks.create(plane, namespace, "Notebook", name)
        reference = {"apiVersion": "kubeflow.org/v1", "kind": "Notebook", "name": name}
        body["metadata"]["ownerReferences"] = [
            {**reference, "uid": owner["metadata"]["uid"], "controller": True}
        ]
    plane.api.request("POST", notebooks.PATHS["StatefulSet"].format(namespace), body)


@asynccontextmanager
async def bursar(plane, transport, policy=POLICY):
    """Sources, reactors and the prober over a history in memory."""
    async with AsyncExitStack() as stack:
        cluster = await connect(Access(str(plane.kubeconfig)))
        stack.push_async_callback(cluster.close)
        for source in (PODS, NAMESPACES, WORKLOADS["StatefulSet"], WORKLOADS["Notebook"]):
            reflector = Reflector(
                source, cluster, transport, SystemClock(), name="c", settings=QUICK
            )
            await stack.enter_async_context(beside(reflector.run()))
        wanted = {"culling": ("on", policy)}

        def hasty_effects(adapters):
            prober = Prober(
                adapters.replica.states["culling"], Loopback(cluster), transport, SystemClock(),
                name="c", settings=ProbeSettings(allow_loopback=True, deadline_seconds=2.0),
                kubeflow=policy.kubeflow is not None, heartbeat_us=1_000_000,
            )  # fmt: skip
            return effects_by(adapters, prober, 1.0)

        reactors = [replace(culling, effects=hasty_effects)]
        yield await stack.enter_async_context(
            acting(transport, cluster, wanted, name="c", reactors=reactors)
        )


def shown(plane, namespace, name):
    """Last activity as the web UI of Kubeflow has it: the annotation, or an empty text; and its other stamp."""
    annotations = notebooks.get(plane, namespace, "Notebook", name)["metadata"].get("annotations")
    annotations = annotations or {}
    return tuple(annotations.get(f"notebooks.kubeflow.org/{key}", "") for key in STAMPS)


def is_stopped(plane, namespace, name, kind):
    found = notebooks.get(plane, namespace, kind, name)
    if kind == "Notebook":
        return "kubeflow-resource-stopped" in found["metadata"].get("annotations", {})
    return found["spec"]["replicas"] == 0


async def test_idle_ones_are_stopped_and_no_other_is_touched(hasty, plane, namespace, tmp_path):
    notebooks.install(plane)
    transport = MemoryTransport()
    async with AsyncExitStack() as stack:
        for name, kind in (CULLED | KEPT).items():
            folder = tmp_path / name
            folder.mkdir()
            base = f"/notebook/{namespace}/{name}/" if kind == "Notebook" else "/"
            token = "t0ken" if name == "wants-a-token" else ""
            server = await stack.enter_async_context(jupyter(folder, token=token, base_path=base))
            await globals()[f"be_{name.replace('-', '_')}"](server)
            if name == "terminals-only":
                await stack.enter_async_context(beside(typing(server)))
            put(plane, namespace, name, kind, server)
        pods = notebooks.PATHS["Pod"].format(namespace)
        eventually(lambda: len(running_pods(plane, pods)) == len(CULLED | KEPT), seconds=60)
        await stack.enter_async_context(bursar(plane, transport))
        async with asyncio.timeout(100):
            while not all(is_stopped(plane, namespace, *one) for one in CULLED.items()):
                await asyncio.sleep(1)
        await asyncio.sleep(12)
        stamps = {n: shown(plane, namespace, n) for n in ("idle", "silent-cell", "stopped-server")}
        now = datetime.now(UTC)
        stopped = {n for n, k in (CULLED | KEPT).items() if is_stopped(plane, namespace, n, k)}
    told = {
        verb.read(event).target.name
        for verb in (Warn, Cull)
        for event in transport.events
        if event.type == verb.wire_type
    }
    found = rederive(lambda: transport.events, REACTORS, "c")

    assert (set(CULLED), set(CULLED)) == (stopped, told)
    # What is busy was active just now; what was stopped carries none any more, what nobody could read never any.
    assert all(RFC3339.fullmatch(text) for text in stamps["silent-cell"])
    assert all(now - datetime.fromisoformat(one) < LATELY for one in stamps["silent-cell"])
    assert (("", ""), ("", "")) == (stamps["idle"], stamps["stopped-server"])
    assert ((), True) == (found.mismatches, found.same >= 2 * len(CULLED))


async def test_by_kubeflows_rules_its_faults_are_kept_too(hasty, plane, namespace, tmp_path):
    """Idle for a minute: stopped. So is one whose server is away, and none that a silent cell keeps busy."""
    notebooks.install(plane)
    policy = CullingPolicy.model_validate(
        {
            "kubeflow": {"idle_minutes": 1, "period_minutes": 0}, "check_period_seconds": 2,
            "pace": {"per_minute": 100, "per_namespace": 100, "per_node": 100},
        }
    )  # fmt: skip
    transport, names = MemoryTransport(), ("idle", "silent-cell", "stopped-server")
    async with AsyncExitStack() as stack:
        for name in names:
            folder = tmp_path / name
            folder.mkdir()
            base = f"/notebook/{namespace}/{name}/"
            server = await stack.enter_async_context(jupyter(folder, token="", base_path=base))
            await globals()[f"be_{name.replace('-', '_')}"](server)
            put(plane, namespace, name, "Notebook", server)
        pods = notebooks.PATHS["Pod"].format(namespace)
        eventually(lambda: len(running_pods(plane, pods)) == len(names), seconds=60)
        await stack.enter_async_context(bursar(plane, transport, policy))
        early = None
        async with asyncio.timeout(110):
            while not (
                is_stopped(plane, namespace, "idle", "Notebook")
                and is_stopped(plane, namespace, "stopped-server", "Notebook")
            ):
                early = early or (all(shown(plane, namespace, "stopped-server")) or None)
                await asyncio.sleep(1)
        await asyncio.sleep(12)
        last, checked = shown(plane, namespace, "silent-cell")
        now = datetime.now(UTC)
        kept = not is_stopped(plane, namespace, "silent-cell", "Notebook")
        gone = {shown(plane, namespace, name) for name in ("idle", "stopped-server")}
    found = rederive(lambda: transport.events, REACTORS, "c")

    assert (True, True, {("", "")}) == (kept, early, gone)
    assert last == checked
    assert now - datetime.fromisoformat(checked) < timedelta(seconds=30)
    assert ([], (), 2) == (told_of(transport, Warn), found.mismatches, found.same)


def told_of(transport, verb):
    return [event for event in transport.events if event.type == verb.wire_type]


def running_pods(plane, path):
    pods = plane.api.request("GET", path)["items"]
    return [pod for pod in pods if pod.get("status", {}).get("phase") == "Running"]


@contextmanager
def up(plane, tmp_path, **settings):
    """`bursar up` beside the cluster; gives a command line that asks its books, and its log."""
    environment = {
        **{key: text for key, text in os.environ.items() if not key.startswith("BURSAR_")},
        "KUBECONFIG": str(plane.kubeconfig), "BURSAR_DATA": str(tmp_path / "data"),
        "BURSAR_CULLING__POLICY__CHECK_PERIOD_SECONDS": "15", "BURSAR_ADMISSION__MODE": "off",
        **settings,
    }  # fmt: skip
    program = Path(sys.executable).with_name("bursar")

    def said(*arguments):
        run = subprocess.run(
            [program, *arguments], env=environment, capture_output=True, text=True, check=False
        )
        return run.stdout + run.stderr

    log = tmp_path / "log"
    with log.open("w") as told:
        process = subprocess.Popen([program, "up"], env=environment, stderr=told)
    try:
        yield said, log
    finally:
        process.terminate()
        process.wait(timeout=30)
    assert "stopped; the next start goes on from here" in log.read_text()


def test_bursar_up_asks_and_decides_and_a_pause_reaches_it(plane, namespace, tmp_path):
    """The same as processes: in shadow, as it is by default, with a notebook whose server nobody can reach."""
    notebooks.create(plane, namespace, "StatefulSet", labels={"bursar.io/probe": "jupyter"})
    with up(plane, tmp_path) as (said, log):
        eventually(lambda: namespace in said("notebooks"), seconds=120, every=1)
        assert "unknown (no_fresh_evidence)" in said("notebooks")
        assert "culling is shadow" in said("notebooks")
        assert "are paused" in said("pause", "--reason", "a test")
        eventually(lambda: "and paused" in said("notebooks"), seconds=5, every=0.1)
        assert "clock.ticked" in said("events", "--type", "clock.ticked")
    assert "culling is shadow: notebooks are asked" in log.read_text()


@pytest.mark.parametrize("mode", ["off", "shadow", "on"])
def test_bursar_up_takes_stamps_from_a_stopped_notebook_only_where_it_acts(
    plane, namespace, tmp_path, mode
):
    notebooks.install(plane)
    notebooks.create(plane, namespace, "Notebook")
    stamps = {f"notebooks.kubeflow.org/{key}": "2026-01-01T00:00:00Z" for key in STAMPS}
    body = {"metadata": {"annotations": {"kubeflow-resource-stopped": "", **stamps}}}
    path = f"{notebooks.PATHS['Notebook'].format(namespace)}/nb"
    plane.api.request("PATCH", path, body, content_type="application/merge-patch+json")
    hook = "http://127.0.0.1:9/s3cret"
    with up(plane, tmp_path, BURSAR_CULLING__MODE=mode, BURSAR_CULLING__WARN_URL=hook) as (
        said,
        log,
    ):
        eventually(lambda: "clock.ticked" in said("events", "--type", "clock.ticked"), seconds=120)
        if mode == "on":
            eventually(lambda: shown(plane, namespace, "nb") == ("", ""), seconds=60, every=1)
        else:
            time.sleep(15)
            assert ("2026-01-01T00:00:00Z",) * 2 == shown(plane, namespace, "nb")
    # The clock ticks in every mode: what a person asks for, an undo, is done in each.
    asked = "no notebook is asked" if mode == "off" else "notebooks are asked"
    assert f"culling is {mode}: {asked}" in log.read_text()
    assert "s3cret" not in log.read_text()
