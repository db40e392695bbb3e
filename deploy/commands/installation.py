"""The objects of an installation for a size, a mode and Bursar's acts, made from ``deploy/manifests``.

Each object is in one file. If `bursar up` is divided, `pods/part.yaml` is read for each of its processes. A part of an
installation names files, and additions to its pods: variables, and Secrets as files. Secret values are never in an
object or in a variable. Pure but for reading the files of this package.

Source: docs/install.md.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from deploy.errors import SettingsError

FOLDER = Path(__file__).parents[1] / "manifests"
NAMESPACE = "bursar-system"
#: The folder of Secrets in pods.
MOUNTED = "/etc/bursar"

Json = dict[str, Any]


class Size(StrEnum):
    """How much there is to do."""

    #: One pod, with the bundled nats-server and SQLite on a volume.
    SMALL = "small"
    #: Your own NATS and PostgreSQL; who watches, writes the ledger, acts and answers reviews are pods of their own.
    STANDARD = "standard"
    #: The same with three nodes of NATS, one more of each pod in reserve, and three for reviews.
    LARGE = "large"


class Mode(StrEnum):
    """What Bursar does with workloads: ``admission.mode``."""

    #: It reads, and changes nothing.
    WATCH = "watch"
    #: It decides reviews and records them, and refuses nothing.
    SHADOW = "shadow"
    #: It refuses what does not fit its quota.
    ENFORCE = "enforce"


class Act(StrEnum):
    """What Bursar may do by itself, each with rights of its own."""

    CULLING = "culling"
    EVICTIONS = "evictions"
    QUEUES = "queues"
    SCHEDULING = "scheduling"
    JOBS = "jobs"
    MIGRATION = "migration"


@dataclass(frozen=True)
class ManifestPart:
    """Files of manifests, and their additions to Bursar's pods."""

    files: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    #: Secret to the folder below :data:`MOUNTED` where its keys are files.
    secrets: Mapping[str, str] = field(default_factory=dict)


#: Policies of the API server that bound the changes by Bursar's accounts.
_BOUNDS = ("rbac/fields.yaml", "rbac/namespaces.yaml")
_REVIEWS = (
    "crds/bursar.io.yaml", "rbac/status.yaml", "rbac/registrar.yaml", *_BOUNDS, "service.yaml",
)  # fmt: skip
#: Command to the purpose of its process, if `bursar up` is divided.
_PROCESSES = {
    "watch": "Following the cluster: what happens there is written into the history",
    "ledger": "Writing the ledger from the history; it knows no cluster and has no token",
    "act": "Keeping the quotas, registering the webhook, deciding and acting",
}
_DIVIDED = tuple(f"pods/part.yaml {name}" for name in _PROCESSES)
SIZES = {
    Size.SMALL: ManifestPart(("pods/small.yaml",)),
    Size.STANDARD: ManifestPart(_DIVIDED),
    Size.LARGE: ManifestPart(
        (*_DIVIDED, *(f"pods/reserve.yaml {name}" for name in _PROCESSES)),
        {"BURSAR_BUS__REPLICAS": "3"},
    ),
}
MODES = {
    Mode.WATCH: ManifestPart(),
    Mode.SHADOW: ManifestPart(_REVIEWS, {"BURSAR_ADMISSION__MODE": "shadow"}),
    Mode.ENFORCE: ManifestPart(
        _REVIEWS,
        {
            "BURSAR_ADMISSION__MODE": "enforce",
            "BURSAR_ADMISSION__CLIENT_CA": f"{MOUNTED}/clients/ca.crt",
            "BURSAR_ADMISSION__CLIENT_NAMES": '["kube-apiserver"]',
        },
        {"bursar-clients": "clients"},
    ),
}
ACTS = {
    Act.CULLING: ManifestPart(("rbac/culler.yaml", *_BOUNDS), {"BURSAR_CULLING__MODE": "on"}),
    Act.EVICTIONS: ManifestPart(
        ("rbac/evictor.yaml", *_BOUNDS, "flow.yaml"), {"BURSAR_EVICTIONS__MODE": "on"}
    ),
    Act.QUEUES: ManifestPart(("rbac/queue.yaml", *_BOUNDS)),
    Act.SCHEDULING: ManifestPart(
        ("rbac/scheduler.yaml", *_BOUNDS, "flow.yaml"),
        {"BURSAR_SCHEDULING__MODE": "on"},
    ),
    Act.JOBS: ManifestPart(("training/jobs.yaml", *_BOUNDS), {"BURSAR_JOBS__MODE": "on"}),
    Act.MIGRATION: ManifestPart(
        ("rbac/migrator.yaml", "rbac/evictor.yaml", *_BOUNDS, "flow.yaml"),
        {"BURSAR_MIGRATION__MODE": "on"},
    ),
}
#: The policy while the webhook is down.
FLOOR = ManifestPart(("floor.yaml",))
#: Reviews are answered by pods of their own.
APART = ManifestPart(
    ("pods/webhook.yaml",),
    {
        "BURSAR_ADMISSION__CERTIFICATE": f"{MOUNTED}/tls/tls.crt",
        "BURSAR_ADMISSION__KEY": f"{MOUNTED}/tls/tls.key",
        "BURSAR_ADMISSION__AUTHORITY": f"{MOUNTED}/tls/ca.crt",
    },
    {"bursar-webhook-tls": "tls"},
)
#: Questions are answered over HTTPS, for `kubectl bursar`: by `bursar up` itself, or by pods of their own.
_API = ("questions/rights.yaml", "questions/askers.yaml", "questions/service.yaml")
API_WITHIN = ManifestPart(_API, {"BURSAR_API__SERVES": "true"})
API_APART = ManifestPart((*_API, "pods/api.yaml"))


@dataclass(frozen=True)
class Installed:
    """An object, and the purpose of its file."""

    object: Json
    purpose: str


#: Files of every installation.
ALWAYS = ("pods/namespace.yaml", "rbac/reader.yaml", "pods/network.yaml")


def installation(
    size: Size,
    mode: Mode,
    acts: Iterable[Act],
    image: str,
    *,
    floor: bool = False,
    api: bool = False,
) -> list[Installed]:
    """Every object, in the order of applying. Raises SettingsError for a wrong combination.

    ``floor``: a policy of the API server holds jobs of queues back while the webhook is down. ``api``: questions
    are answered over HTTPS.
    """
    acts = sorted(set(acts))
    if Act.QUEUES in acts and mode is not Mode.ENFORCE:
        raise SettingsError(
            "--act queues needs --mode enforce: only what is held to its quota waits"
        )
    if floor and Act.QUEUES not in acts:
        raise SettingsError(
            "--floor needs --act queues: what it holds back is started by Bursar alone"
        )
    reviews = mode is not Mode.WATCH
    parts = [SIZES[size], MODES[mode], *(ACTS[act] for act in acts)]
    if reviews and size is not Size.SMALL:
        parts.append(APART)
    if floor:
        parts.append(FLOOR)
    if api:
        parts.append(API_WITHIN if size is Size.SMALL else API_APART)
    files = [*ALWAYS]
    files += [file for part in parts for file in part.files]
    # Rights before the pods with a need for them.
    files = sorted(dict.fromkeys(files), key=lambda file: file.partition(" ")[0] in PODS)
    found: dict[tuple[str, str, str], Installed] = {}
    for file in files:
        text, purpose = read(file)
        for one in copy.deepcopy(_parsed(text)):
            # The first is complete: the namespace of `reader.yaml` is that of `pods/namespace.yaml` without its labels.
            found.setdefault(identity(one), Installed(one, purpose))
    for made in found.values():
        if "template" in made.object.get("spec", {}):
            _tell(made.object, parts, size, is_acting=bool(acts))
            made.object["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return list(found.values())


PODS = {"pods/small.yaml", "pods/part.yaml", "pods/webhook.yaml", "pods/api.yaml"}


@cache
def _parsed(text: str) -> tuple[Json, ...]:
    return tuple(yaml.safe_load_all(text))


@cache
def read(file: str) -> tuple[str, str]:
    """The text of a file, for the process in its name, if there is one; and its purpose."""
    name, _, process = file.partition(" ")
    text = (FOLDER / name).read_text("utf-8")
    if not process:
        return text, _purpose(text)
    made = text.replace("bursar-part", f"bursar-{process}")
    made = made.replace("[bursar, part]", f"[bursar, {process}]")
    return made, _PROCESSES[process] if name in PODS else _purpose(text)


def koordinator_kinds() -> list[Json]:
    """The definitions of Koordinator's kinds, for a cluster without Koordinator."""
    return list(_parsed(read("koordinator/crds.yaml")[0]))


def identity(one: Json) -> tuple[str, str, str]:
    """The identity of an object in an installation."""
    metadata = one["metadata"]
    return one["kind"], metadata.get("namespace", ""), metadata["name"]


#: Processes without reviews: they have none of the Secrets for them.
UNASKED = ("watch", "ledger", "api")
#: The sections of variables in processes with only a part of them; the watching one has more if a reactor needs it.
_TOLD = {"webhook": ("ADMISSION", "BUS"), "ledger": ("BUS",), "watch": (), "api": ()}


def has_variable(command: str, name: str) -> bool:
    """Whether the process of a command gets a variable of an installation."""
    if command not in _TOLD:
        return True
    section = name.removeprefix("BURSAR_").partition("__")[0]
    return section != "ADMISSION" if command == "watch" else section in _TOLD[command]


def _tell(workload: Json, parts: Iterable[ManifestPart], size: Size, *, is_acting: bool) -> None:
    """Add the parts' variables and Secrets to the pods of a workload."""
    spec = workload["spec"]["template"]["spec"]
    [container] = spec["containers"]
    command = container["command"][1]
    environment, secrets = dict[str, str](), dict[str, str]()
    for part in parts:
        environment |= part.environment
        secrets |= part.secrets
    if size is Size.LARGE:
        workload["spec"]["replicas"] = 3 if command == "webhook" else 2
    if command in ("up", "act") and "bursar-webhook-tls" in secrets:
        environment["BURSAR_ADMISSION__SERVES"] = "false"
    if command in ("up", "act") and is_acting:
        spec["serviceAccountName"] = "bursar-actor"
    environment = {k: v for k, v in environment.items() if has_variable(command, k)}
    if command in UNASKED:
        secrets = {}
    if command == "ledger":
        spec["automountServiceAccountToken"] = False
    container["env"] += [{"name": name, "value": value} for name, value in environment.items()]
    for secret, folder in secrets.items():
        path = f"{MOUNTED}/{folder}"
        container["volumeMounts"].append({"name": folder, "mountPath": path, "readOnly": True})
        spec["volumes"].append({"name": folder, "secret": {"secretName": secret}})


def _purpose(text: str) -> str:
    """The first sentence of a file's leading comment."""
    lines: list[str] = []
    for line in text.splitlines():
        if not line.startswith("# "):
            break
        lines.append(line[2:])
    whole = " ".join(lines)
    return whole.partition(". ")[0].rstrip(".")
