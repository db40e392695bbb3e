"""What a few teams run on a shared GPU cluster, as objects to apply: namespaces, notebooks,
training jobs, services. Pure: from names and amounts to manifests.
"""

from dataclasses import dataclass

from tests.cluster.api import Json


@dataclass(frozen=True)
class Team:
    """A team, its namespace of the same name, and the people whose notebooks run there."""

    name: str
    people: tuple[str, ...]

    @property
    def owner(self) -> str:
        return f"{self.people[0]}@example.org"


TEAMS = (
    Team("vision", ("ada", "emmy", "mary")),
    Team("language", ("grace", "alan")),
    Team("robotics", ("katherine", "norbert")),
)


def path(item: Json) -> str:
    """Where an object lives in the API."""
    group = "api/v1" if item["apiVersion"] == "v1" else f"apis/{item['apiVersion']}"
    name = item["kind"].lower()
    plural = f"{name}es" if name.endswith("s") else f"{name}s"
    metadata = item["metadata"]
    if "namespace" not in metadata:
        return f"/{group}/{plural}/{metadata['name']}"
    return f"/{group}/namespaces/{metadata['namespace']}/{plural}/{metadata['name']}"


def namespace(team: Team) -> Json:
    """The team's namespace, with the two marks by which usage finds its team and its person."""
    metadata = {
        "name": team.name,
        "labels": {"bursar.io/team": team.name},
        "annotations": {"owner": team.owner},
    }
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def notebook(team: Team, person: str, *, gpus: int = 1) -> Json:
    """A person's notebook server, which runs until somebody stops it; marked as docs/culling.md says."""
    name = f"notebook-{person}"
    labels = {"app": name, "bursar.io/user": f"{person}", "bursar.io/probe": "jupyter"}
    spec = {
        "serviceName": name,
        "replicas": 1,
        "selector": {"matchLabels": {"app": name}},
        "template": _template(labels, "jupyter", cpu="4", memory="32Gi", gpus=gpus),
    }
    return _object("apps/v1", "StatefulSet", team, name, spec)


def service(team: Team, name: str, *, replicas: int, gpus: int = 1, claim: str = "") -> Json:
    """An inference service of so many equal replicas; `claim` as in :func:`training`."""
    labels = {"app": name}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": _template(labels, "server", cpu="2", memory="16Gi", gpus=gpus),
    }
    _claiming(spec["template"], claim)
    return _object("apps/v1", "Deployment", team, name, spec)


def training(
    team: Team,
    name: str,
    *,
    workers: int,
    gpus: int,
    seconds: int,
    model: str = "",
    claim: str = "",
    failing: bool = False,
) -> Json:
    """A training job; its pods end by themselves after `seconds`, well or badly.

    With `claim`, a claim template's name, each pod has a device by claim, beside `gpus`.
    """
    template = _template({"app": name}, "trainer", cpu="8", memory="64Gi", gpus=gpus)
    template["metadata"]["annotations"] = {
        "bursar.test/run-seconds": str(seconds),
        "bursar.test/exit-code": "1" if failing else "0",
    }
    template["spec"]["restartPolicy"] = "Never"
    _claiming(template, claim)
    if model:
        template["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": model}
    spec = {
        "parallelism": workers,
        "completions": workers,
        "backoffLimit": 0,
        "ttlSecondsAfterFinished": 300,
        "template": template,
    }
    return _object("batch/v1", "Job", team, name, spec)


def _claiming(template: Json, claim: str) -> None:
    if claim:
        source = {"name": "gpu", "resourceClaimTemplateName": claim}
        template["spec"]["resourceClaims"] = [source]
        template["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]


def _object(version: str, kind: str, team: Team, name: str, spec: Json) -> Json:
    metadata = {"name": name, "namespace": team.name}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _template(labels: dict[str, str], image: str, *, cpu: str, memory: str, gpus: int) -> Json:
    amounts = {"cpu": cpu, "memory": memory}
    if gpus:
        amounts["nvidia.com/gpu"] = str(gpus)
    container = {
        "name": image,
        "image": f"registry.example.org/{image}",
        "resources": {"requests": amounts, "limits": amounts},
    }
    return {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
