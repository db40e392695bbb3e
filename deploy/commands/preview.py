"""The changes of an installation in a cluster: each object after a dry run of the API server, beside the existing one.

Source: Kubernetes, "Server-Side Apply" and "API concepts, dry-run".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from bus.errors import BursarError, ClusterUnavailableError, NotFoundError
from deploy.commands.installation import Installed

#: The field manager of the dry runs; no object is ever stored with it.
MANAGER = "bursar-install"
#: Fields written by the server itself.
_WRITTEN = ("managedFields", "resourceVersion", "generation", "creationTimestamp", "uid")

Json = dict[str, Any]


class PreviewClient(Protocol):
    """The needed part of :class:`bus.kube.client.KubeCluster`, with its errors."""

    async def get(self, path: str) -> Json:
        """The object at ``path``."""

    async def apply(
        self, path: str, body: Mapping[str, Any], *, manager: str, force: bool, dry_run: bool
    ) -> Json:
        """Server-side apply."""


class Change(msgspec.Struct, frozen=True):
    """The change of one object."""

    object: str
    namespace: str
    #: ``new``, ``changed``, ``same`` or ``refused``.
    change: str
    #: Changed fields, or the server's reason to refuse.
    fields: tuple[str, ...]
    #: The grants of a role: verbs and resources of each rule.
    grants: tuple[str, ...]
    purpose: str


async def preview(cluster: PreviewClient, found: Sequence[Installed]) -> list[Change]:
    """The change of each object, in order. Raises ClusterUnavailableError where the server does not answer."""
    changes: list[Change] = []
    made: set[str] = set()
    for one in found:
        metadata = one.object["metadata"]
        namespace = metadata.get("namespace", "")
        change, fields = await _tried(cluster, one.object, is_checked=namespace not in made)
        if change == "new" and one.object["kind"] == "Namespace":
            made.add(metadata["name"])
        name = f"{one.object['kind']}/{metadata['name']}"
        grants = tuple(_granted(one.object.get("rules", ())))
        changes.append(Change(name, namespace, change, fields, grants, one.purpose))
    return changes


async def _tried(
    cluster: PreviewClient, one: Json, *, is_checked: bool
) -> tuple[str, tuple[str, ...]]:
    if not is_checked:
        return "new", ("checked once its namespace is there",)
    where = path(one)
    try:
        try:
            before = await cluster.get(where)
        except NotFoundError:
            before = None
        after = await cluster.apply(where, one, manager=MANAGER, force=True, dry_run=True)
    except ClusterUnavailableError:
        raise
    except BursarError as error:
        return "refused", (str(error),)
    if before is None:
        return "new", ()
    fields = tuple(dict.fromkeys(_differing(_plain(before), _plain(after), "")))
    return ("changed" if fields else "same"), fields


def path(one: Json) -> str:
    """Where the API server has this object."""
    version, kind, metadata = one["apiVersion"], one["kind"].lower(), one["metadata"]
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
    below = f"namespaces/{metadata['namespace']}/" if "namespace" in metadata else ""
    return f"/{'apis' if '/' in version else 'api'}/{version}/{below}{plural}/{metadata['name']}"


def _plain(one: Json) -> Json:
    """An object without the fields written by the server itself."""
    metadata = {key: value for key, value in one["metadata"].items() if key not in _WRITTEN}
    return {**one, "metadata": metadata, "status": None}


def _differing(before: Any, after: Any, place: str) -> Iterator[str]:
    """Places of different fields; of lists the whole list."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from _differing(before.get(key), after.get(key), f"{place}.{key}".lstrip("."))
    elif before != after:
        yield place


def _granted(rules: Sequence[Json]) -> Iterator[str]:
    for rule in rules:
        if "verbs" in rule:
            yield f"{', '.join(rule['verbs'])}: {', '.join(rule['resources'])}"
