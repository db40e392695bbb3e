"""The choice of notebooks among pods, their addresses, and the kinds of evidence to ask of them.

All of it is read from the API server's pod, never from an answer of the pod itself. Source: ``docs/culling.md``, "Notebooks";
paths and ports of Kubeflow's notebook controller; labels and annotations of JupyterHub's KubeSpawner.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from urllib.parse import quote

import msgspec

from bus.clock import parse_stamp
from bus.errors import TimestampError
from bus.kube.watch import records
from bus.notebooks import jupyter
from bus.notebooks.catalogue import PROBES
from bus.notebooks.contract import NOTEBOOK_NAME, EvidenceKind, Peer

#: Annotation or label: kinds by name, with commas (a label holds one). It makes any pod a notebook.
PROBE = "bursar.io/probe"
#: Annotations: where the server listens, and where it is mounted.
PORT = "bursar.io/probe-port"
BASE_PATH = "bursar.io/probe-base-path"

#: JupyterHub KubeSpawner's labels for a user's server: the current key and the one before.
HUB_COMPONENTS = ("app.kubernetes.io/component", "component")
HUB_SERVER = "singleuser-server"
#: Annotations of KubeSpawner: the server's user, and its name; absent or empty = the user's default one.
HUB_USER = "hub.jupyter.org/username"
HUB_NAME = "hub.jupyter.org/servername"

_PATH = re.compile(r"/(?:[A-Za-z0-9._~-]{1,128}/){0,16}")
_HUB_PART = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._~@%-]{1,512}")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_SIDECAR_PORT = 15_090


class _Port(msgspec.Struct, rename="camel"):
    container_port: int = 0


class _Container(msgspec.Struct):
    name: str = ""
    image: str = ""
    ports: list[_Port] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    containers: list[_Container] = []
    init_containers: list[_Container] | None = None
    host_network: bool | None = None


class _Status(msgspec.Struct, rename="camel"):
    phase: str = ""
    pod_ip: str | None = msgspec.field(default=None, name="podIP")
    start_time: str | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str
    namespace: str
    name: str
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


def peer_of(pod: bytes) -> Peer | None:
    """The notebook of a pod; None for other pods, and for a pod not running or being deleted.

    Raises MalformedJsonError or ObservationError for invalid pods.
    """
    found = records.decoded(pod, _Pod)
    meta, status = found.metadata, found.status
    labels, annotations = meta.labels or {}, meta.annotations or {}
    is_up = status.phase == "Running" and not meta.deletion_timestamp
    if not (is_notebook(labels, annotations) and is_up and status.pod_ip and found.spec.containers):
        return None
    server = found.spec.containers[0]
    others = [*found.spec.containers[1:], *(found.spec.init_containers or [])]
    return Peer(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        address=status.pod_ip,
        port=_port(annotations, server),
        base_path=base_path(meta.namespace, labels, annotations),
        image=server.image,
        labels=labels,
        annotations=annotations,
        started_us=_us(status.start_time),
        counters_port=_SIDECAR_PORT if any(c.name == "istio-proxy" for c in others) else 0,
        is_on_host=bool(found.spec.host_network),
    )


def is_notebook(labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
    """Whether a pod with these is looked at as a notebook."""
    is_marked = NOTEBOOK_NAME in labels or PROBE in labels or PROBE in annotations
    return is_marked or _is_of_hub(labels)


def _is_of_hub(labels: Mapping[str, str]) -> bool:
    return any(labels.get(key) == HUB_SERVER for key in HUB_COMPONENTS)


def base_path(namespace: str, labels: dict[str, str], annotations: dict[str, str]) -> str:
    """The base URL of the server, with slashes at both ends; an annotation without a plain path is ignored."""
    asked = annotations.get(BASE_PATH, "")
    if asked and _PATH.fullmatch(asked := f"/{asked.strip('/')}/".replace("//", "/")):
        return asked
    if NOTEBOOK_NAME in labels:
        return f"/notebook/{namespace}/{labels[NOTEBOOK_NAME]}/"
    if _is_of_hub(labels):
        # As JupyterHub writes its users' addresses (`jupyterhub.user.User.escaped_name`).
        parts = [quote(annotations.get(key, ""), safe="@~") for key in (HUB_USER, HUB_NAME)]
        if _HUB_PART.fullmatch(parts[0]) and (not parts[1] or _HUB_PART.fullmatch(parts[1])):
            return "/".join(("/user", *filter(None, parts), ""))
    return "/"


def kinds_of(peer: Peer) -> tuple[EvidenceKind, ...]:
    """The kinds to ask, in the order of ``PROBES``: the chosen ones, and the universal ones.

    Chosen by annotation, else by label, else by the first kind with a fitting image pattern; else it is taken for a
    Jupyter.
    """
    choice = peer.annotations.get(PROBE) or peer.labels.get(PROBE, "")
    names = {name.strip() for name in choice.split(",")}
    chosen = [kind for kind in PROBES if kind.name in names]
    if not chosen:
        # The image's name alone: a registry or a folder may be called anything.
        image = peer.image.rpartition("/")[2]
        fitting = [k for k in PROBES if any(fnmatchcase(image, pattern) for pattern in k.images)]
        chosen = fitting[:1] or [jupyter.kind]
    return tuple(kind for kind in PROBES if kind in chosen or kind.everywhere)


def _port(annotations: dict[str, str], server: _Container) -> int:
    asked = annotations.get(PORT, "")
    if _PORT.fullmatch(asked):
        return int(asked)
    return next((port.container_port for port in server.ports or () if port.container_port), 8888)


def _us(stamp: str | None) -> int:
    try:
        return parse_stamp(stamp) if stamp else 0
    except TimestampError:
        return 0
