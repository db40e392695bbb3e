"""Makes objects of training jobs. An existing object of the same name is either the wanted one or a foreign one.

Source: docs/jobs.md; docs/architecture.md (effectors).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Protocol

from bus.errors import ConflictError, NotFoundError, PermissionDeniedError, RequestRefusedError
from bus.events.decisions import Result
from reactors.jobs.shape import INDEX, JOB, TYPE

Json = dict[str, Any]
Outcome = tuple[Result, str]

#: Words before which a refusal is cut: the API server repeats template values after them. Outcomes go into the history,
#: and templates do not. After such a word, values and reasons cannot be told apart.
_VALUES = re.compile(r"(\bvalue: ).*", re.DOTALL)
#: Longest words of a refusal.
LONGEST = 500
DONE: Outcome = ("done", "")
NAMESAKE: Outcome = ("gone", "another object has this name")


class JobClient(Protocol):
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


async def made(cluster: JobClient, collection: str, body: Json, owner: str) -> str:
    """Make an object, unless it exists. Returns the fault of a foreign object of its name; "" = none."""
    try:
        await cluster.create(collection, body)
    except ConflictError:
        return await _taken(cluster, f"{collection}/{body['metadata']['name']}", body, owner)
    except (RequestRefusedError, PermissionDeniedError) as error:
        message = _VALUES.sub(r"\1…", error.message)
        raise type(error)(**{**error.fields, "message": message}) from None
    return ""


async def _taken(cluster: JobClient, path: str, body: Json, owner: str) -> str:
    try:
        there = await cluster.get(path)
    except NotFoundError:
        raise ConflictError(reason="Gone", message=path) from None
    if not is_of(there, owner):
        return "belongs to somebody else"
    if there["metadata"].get("deletionTimestamp"):
        raise ConflictError(reason="Terminating", message=path)
    labels, wanted = there["metadata"].get("labels") or {}, body["metadata"]["labels"]
    is_there = all(labels.get(name) == wanted.get(name) for name in (JOB, TYPE, INDEX))
    return "" if is_there else "is in another place of the job"


def is_of(found: Json, owner: str) -> bool:
    """Whether an object's controller has this uid."""
    references = found["metadata"].get("ownerReferences") or ()
    return any(one.get("controller") and one.get("uid") == owner for one in references)
