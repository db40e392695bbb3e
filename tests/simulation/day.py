"""The day that the bundled recording shows: three teams, their quotas, a queue, notebooks, and what goes wrong.

One thing of each that Bursar tells of: a refusal for want of room, a budget that is spent and what is evicted for it,
jobs that wait, notebooks busy, idle, warned and stopped, a change that is known late, and time that nobody watched.
"""

import asyncio
import random
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path

from bus.clock import parse_stamp
from bus.envelope import Event
from bus.errors import RequestRefusedError
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Record
from bus.sources.catalogue import PODS
from bus.waiting import beside
from reactors.culling.policy import CullingPolicy
from reactors.evictions import NAME as EVICTIONS
from reactors.evictions.settings import EvictionPolicy
from tests.cluster import devices, nodes, workloads
from tests.simulation import claims
from tests.simulation.apiserver import ApiServer, Json, Key
from tests.simulation.controllers import STOPPED, Controllers
from tests.simulation.installation import NAME, Installation
from tests.simulation.loop import SimulatedClock
from tests.simulation.notebooks import NotebookServers, Use

#: A Monday.
DAY_US = parse_stamp("2026-11-16T00:00:00Z")
MODELS = {"a100": "NVIDIA-A100-SXM4-80GB", "h100": "NVIDIA-H100-80GB-HBM3"}
#: Nodes whose cards are given out by claim, and whether these are divided.
CLAIMED = {"b200-1": False, "b200-2": True}
CLAIMED_MODEL = "NVIDIA-B200"
QUOTA = "biz.group.resource.quota"
#: When nobody watches, hours of the day.
AWAY = (13.0, 13.2)
USES = {
    "ada": Use(busy=((8.1, 12.9), (13.4, 23.99))),
    "emmy": Use(active=((8.5, 11.8), (12.6, 17.9))),
    "mary": Use(is_locked=True),
    "grace": Use(active=((9.2, 11.0), (14.6, 16.1))),
    "alan": Use(busy=((8.6, 23.99),)),
    "katherine": Use(active=((8.6, 10.1), (11.2, 12.4), (15.0, 22.9))),
    "norbert": Use(active=((9.0, 20.0),)),
}
QUOTAS: tuple[tuple[str, Json], ...] = (
    (
        "ai-lab",
        {
            "hard": {"limits.cpu": "320", "limits.nvidia.com/gpu": "40"},
            "namespaces": ["vision", "language", "robotics"],
        },
    ),
    (
        "vision",
        {
            "parentBizGroup": "ai-lab",
            "namespaces": ["vision"],
            "hard": {"limits.cpu": "120", "limits.nvidia.com/gpu": "14", "cash/limits.cpu": "1010"},
            "budget": {"period": "Day", "exhaustion": "GraceThenEvict", "graceSeconds": 7200},
        },
    ),
    (
        "language",
        {
            "parentBizGroup": "ai-lab",
            "namespaces": ["language"],
            "hard": {
                "limits.cpu": "80",
                "limits.nvidia.com/gpu": "12",
                "limits.dra/gpu.nvidia.com": "2",
            },
            "queue": {"hold": True, "order": "BackFill"},
        },
    ),
    (
        "robotics",
        {
            "parentBizGroup": "ai-lab",
            "namespaces": ["robotics"],
            "hard": {
                "limits.cpu": "72",
                "limits.nvidia.com/gpu": "9",
                "limits.dra/mig.nvidia.com": "6",
            },
        },
    ),
)


async def lived(folder: Path) -> list[Event]:
    """The history of the whole day, in order."""
    clock = SimulatedClock(DAY_US)
    api = ApiServer(clock)
    wanted = {
        "culling": ("on", CullingPolicy(idle_seconds=3600)),
        EVICTIONS: ("on", EvictionPolicy()),
    }
    servers = NotebookServers(api, clock, DAY_US, USES)
    bursar = Installation(api, clock, servers, wanted, folder)
    await _begin(api)
    late: list[Event] = []
    async with beside(Controllers(api, clock).run()), beside(_teams(api, clock)):
        async with bursar:
            await _until(AWAY[0])
        late.append(await _unwatched(api, clock))
        async with bursar:
            await _until(15.0)
            # Another watcher kept the delete of one of the two pods that ended meanwhile.
            await bursar.transport.publish(late)
            await _until(23.997)
    return bursar.transport.events


async def _until(hour: float) -> None:
    loop = asyncio.get_running_loop()
    await asyncio.sleep(max(0.0, hour * 3600 - loop.time()))


async def _begin(api: ApiServer) -> None:
    for name, model in MODELS.items():
        for number in range(1, 4):
            node = nodes.node(f"{name}-{number}", 8, model, "96", "1Ti")
            await api.create("/api/v1/nodes", node)
    for name, value in (("interactive", 1000), ("batch", 100)):
        body = {"metadata": {"name": name}, "value": value}
        await api.create("/apis/scheduling.k8s.io/v1/priorityclasses", body)
    for team in workloads.TEAMS:
        body = workloads.namespace(team)
        body["metadata"]["labels"][QUOTA] = team.name
        await api.create("/api/v1/namespaces", body)
    await _offer(api)
    for name, spec in QUOTAS:
        body = {"apiVersion": "bursar.io/v1alpha1", "metadata": {"name": name}, "spec": spec}
        await api.create("/apis/bursar.io/v1alpha1/bizgroupresourcequotas", body)


async def _offer(api: ApiServer) -> None:
    """What the driver of the cards that are given out by claim writes, and each team's templates of claims."""
    for one in devices.classes():
        await api.create(f"{claims.ROOT}/deviceclasses", one)
    for name, divided in CLAIMED.items():
        await api.create("/api/v1/nodes", nodes.node(name, 0, "", "96", "1Ti"))
        for one in devices.slices(name, CLAIMED_MODEL, 4, divided=divided):
            await api.create(f"{claims.ROOT}/resourceslices", one)
    for team in workloads.TEAMS:
        for name in devices.CLASSES:
            path = f"{claims.ROOT}/namespaces/{team.name}/resourceclaimtemplates"
            await api.create(path, devices.template(team.name, name))


async def _unwatched(api: ApiServer, clock: SimulatedClock) -> Event:
    """Two pods end while nobody watches; gives what another watcher saw of the first."""
    await _until(AWAY[0] + 0.05)
    keys = [key for key, _ in api.of("Pod") if key.name.startswith("inference")][:2]
    for key in keys:
        api.delete(key)
    while keys[0] in api.objects:
        await asyncio.sleep(1)
    seen_us, deleted = clock.now_us(), api.deleted(keys[0])
    await _until(AWAY[1])
    return PODS.translate(Record("DELETED", deleted, seen_us, NAME, "kube/pods"), LabelPolicy())


async def _teams(api: ApiServer, clock: SimulatedClock) -> None:
    """What people do, hour after hour."""
    dice = random.Random(16)
    number = 0
    for hour in range(24):
        for minute in range(0, 60, 10):
            await _until(hour + minute / 60)
            if (hour, minute) == (21, 30):
                await _pretrain(api)
            if minute == 30:
                await _claim(api, hour)
            for team in workloads.TEAMS:
                if minute == 0:
                    await _serve(api, team, hour, dice)
                for person in team.people:
                    await _attend(api, team, person, hour + minute / 60, dice)
                if dice.random() < (0.45 if 8 <= hour < 19 else 0.12):
                    number += 1
                    await _train(api, team, number, dice)
    await asyncio.Event().wait()


async def _serve(api: ApiServer, team: workloads.Team, hour: int, dice: random.Random) -> None:
    replicas = 2 + (8 <= hour < 20) * dice.randint(0, 2)
    body = workloads.service(team, "inference", replicas=replicas)
    _prioritized(body, "interactive")
    key = Key("/apis/apps/v1", "deployments", team.name, "inference")
    if key not in api.objects:
        await _asked(api.create("/apis/apps/v1/namespaces/" + team.name + "/deployments", body))
    elif api.objects[key]["spec"]["replicas"] != replicas:
        path = f"/apis/apps/v1/namespaces/{team.name}/deployments/inference"
        await _asked(api.merge(path, {"spec": {"replicas": replicas}}, user=team.owner))


async def _claim(api: ApiServer, hour: int) -> None:
    """Devices by claim: parts of cards for a service of small models, whole ones for evaluations."""
    language, robotics = workloads.TEAMS[1:]
    folder = f"/apis/batch/v1/namespaces/{language.name}/jobs"
    if hour % 3 == 0:
        body = workloads.training(
            language, f"evaluation-{hour}", workers=1 + hour % 2, gpus=0, seconds=5400, claim=devices.WHOLE
        )  # fmt: skip
        _prioritized(body, "batch")
        await _asked(api.create(folder, body, user=language.owner))
    service = f"/apis/apps/v1/namespaces/{robotics.name}/deployments"
    if hour == 6:
        body = workloads.service(robotics, "perception", replicas=2, gpus=0, claim=devices.PART)
        _prioritized(body, "interactive")
        await _asked(api.create(service, body, user=robotics.owner))
    elif hour in (9, 20):
        wanted = {"spec": {"replicas": 5 if hour == 9 else 3}}
        await _asked(api.merge(f"{service}/perception", wanted, user=robotics.owner))


async def _attend(
    api: ApiServer, team: workloads.Team, person: str, hour: float, dice: random.Random
) -> None:
    folder = f"/apis/kubeflow.org/v1/namespaces/{team.name}/notebooks"
    key = Key("/apis/kubeflow.org/v1", "notebooks", team.name, person)
    found = api.objects.get(key)
    if found is None:
        # Who is refused for want of room tries again.
        if 8 + len(person) % 3 * 0.5 <= hour < 17.5:
            await _asked(api.create(folder, _notebook(person), user=f"{person}@example.org"))
    elif person == "emmy" and hour == 18:
        api.remove(key)
    elif STOPPED in (found["metadata"].get("annotations") or {}) and _returns(person, hour):
        body = {"metadata": {"annotations": {STOPPED: None}}}
        await _asked(api.merge(f"{folder}/{person}", body, user=f"{person}@example.org"))


#: From when on somebody finds a notebook stopped, and starts it again.
_RETURNS = {"grace": 14.5, "katherine": 15.0}


def _returns(person: str, hour: float) -> bool:
    return person in _RETURNS and _RETURNS[person] <= hour < _RETURNS[person] + 1


def _notebook(person: str) -> Json:
    amounts = {"cpu": "4", "memory": "32Gi", "nvidia.com/gpu": "1"}
    container = {
        "name": person, "image": "registry.example.org/jupyter-pytorch:3.2",
        "ports": [{"containerPort": 8888}],
        "resources": {"requests": amounts, "limits": amounts},
    }  # fmt: skip
    annotations = {"bursar.io/do-not-cull": "true"} if person == "norbert" else {}
    template = {
        "metadata": {"labels": {"bursar.io/user": person}},
        "spec": {"containers": [container], "priorityClassName": "interactive", "priority": 1000},
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "metadata": {"name": person, "annotations": annotations},
        "spec": {"template": template},
    }


async def _train(api: ApiServer, team: workloads.Team, number: int, dice: random.Random) -> None:
    person = dice.choice(team.people)
    body = workloads.training(
        team, f"training-{number}", workers=dice.randint(1, 4), gpus=dice.choice((0, 1, 1, 2)),
        seconds=60 * dice.choice((12, 25, 40, 75, 150)), failing=dice.random() < 0.12,
        model=dice.choice(("", "", MODELS["h100"])),
    )  # fmt: skip
    body["spec"]["template"]["metadata"]["labels"]["bursar.io/user"] = person
    _prioritized(body, "batch")
    folder = f"/apis/batch/v1/namespaces/{team.name}/jobs"
    await _asked(api.create(folder, body, user=f"{person}@example.org"))


async def _pretrain(api: ApiServer) -> None:
    """Long jobs, in the evening: one spends the rest of its team's budget, one waits."""
    team = workloads.TEAMS[0]
    body = workloads.training(team, "pretraining", workers=5, gpus=1, seconds=6 * 3600)
    _prioritized(body, "batch")
    await _asked(api.create(f"/apis/batch/v1/namespaces/{team.name}/jobs", body, user=team.owner))
    # And one that waits over night: nobody else's share is large enough.
    team = workloads.TEAMS[1]
    body = workloads.training(team, "fine-tuning", workers=5, gpus=2, seconds=3 * 3600)
    _prioritized(body, "batch")
    await _asked(api.create(f"/apis/batch/v1/namespaces/{team.name}/jobs", body, user=team.owner))


def _prioritized(body: Json, name: str) -> None:
    body["spec"]["template"]["spec"]["priorityClassName"] = name
    # As the API server's own admission writes it.
    body["spec"]["template"]["spec"]["priority"] = {"interactive": 1000, "batch": 100}[name]


async def _asked(write: Awaitable[Json]) -> None:
    """Do it; a person whose request is refused lets it be."""
    with suppress(RequestRefusedError):
        await write
