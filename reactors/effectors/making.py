"""Makes objects that belong to another one. An existing object of the same name is either the wanted one or a foreign one.

Source: docs/jobs.md; docs/migration.md; docs/architecture.md (effectors).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from bus.errors import ConflictError, NotFoundError, PermissionDeniedError, RequestRefusedError
from bus.events.decisions import Result

Json = dict[str, Any]
Outcome = tuple[Result, str]

#: Words before which a refusal is cut: the API server repeats template values after them. Outcomes go into the history,
#: and templates do not. After such a word, values and reasons cannot be told apart.
_VALUES = re.compile(r"(\bvalue: ).*", re.DOTALL)
#: Longest words of a refusal.
LONGEST = 500
DONE: Outcome = ("done", "")
NAMESAKE: Outcome = ("gone", "another object has this name")


class MakingClient(Protocol):
    """The needed part of :class:`bus.kube.client.KubeCluster`, with its errors."""

    async def get(self, path: str) -> Json:
        """The object at ``path``."""
        ...

    async def create(self, path: str, body: Mapping[str, Any]) -> Json:
        """A new object in the collection at ``path``."""
        ...

    async def merge(self, path: str, body: Mapping[str, Any]) -> Json:
        """JSON merge patch of the object at ``path``."""
        ...

    async def delete(self, path: str, *, uid: str) -> Json:
        """Delete the object at ``path`` if it still has this uid."""
        ...


def _fits(there: Json) -> str:
    """The fault of an existing object of the owner: any fits."""
    return ""


async def made(
    cluster: MakingClient,
    collection: str,
    body: Json,
    owner: str,
    fault_of: Callable[[Json], str] = _fits,
) -> str:
    """Make an object, unless it exists. Returns the fault of an unwanted object of its name; "" = none."""
    try:
        await cluster.create(collection, body)
    except ConflictError:
        return await _taken(cluster, f"{collection}/{body['metadata']['name']}", owner, fault_of)
    except (RequestRefusedError, PermissionDeniedError) as error:
        message = _VALUES.sub(r"\1…", error.message)
        raise type(error)(**{**error.fields, "message": message}) from None
    return ""


async def _taken(
    cluster: MakingClient, path: str, owner: str, fault_of: Callable[[Json], str]
) -> str:
    try:
        there = await cluster.get(path)
    except NotFoundError:
        raise ConflictError(reason="Gone", message=path) from None
    if not is_of(there, owner):
        return "belongs to another object"
    if there["metadata"].get("deletionTimestamp"):
        raise ConflictError(reason="Terminating", message=path)
    return fault_of(there)


def is_of(found: Json, owner: str) -> bool:
    """Whether an object's controller has this uid."""
    references = found["metadata"].get("ownerReferences") or ()
    return any(one.get("controller") and one.get("uid") == owner for one in references)
