"""Callers and their rights, both as the API server reports them. Of a request itself only its token counts.

A token must be made for Bursar (its audience), so it is of no use elsewhere. Its rights are rights of RBAC on
``questions.bursar.io``, a group without objects: the resource is the first word of the question, the verb ``get``, the name
the cluster in question. A right in one namespace only gives answers limited to it, about the cluster
of the asked API server.

Source: Kubernetes, "Authenticating", "Authorization"; authentication/v1 TokenReview, authorization/v1 SubjectAccessReview.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from bus.errors import BursarError

GROUP = "questions.bursar.io"
#: The audience of tokens.
AUDIENCE = "bursar-api"
#: Questions whose answer for one namespace reveals nothing of others.
OF_NAMESPACES = ("report", "acct")
_TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class CallerClient(Protocol):
    """The needed requests to the API server."""

    async def create(self, path: str, body: Mapping[str, Any]) -> Any:
        """A review is created, and comes back with its status."""


class UnauthenticatedError(BursarError):
    """No token, or none that the API server knows as made for Bursar."""


class ForbiddenError(BursarError):
    """The asker has no right to this question."""


class Caller(msgspec.Struct, frozen=True):
    """A caller, as the API server reports it."""

    name: str
    uid: str = ""
    groups: Sequence[str] = ()
    extra: Mapping[str, Sequence[str]] = {}


class Callers:
    """Asks an API server about callers."""

    def __init__(self, cluster: CallerClient, name: str = "default") -> None:
        """``name``: of this API server's cluster."""
        self._cluster = cluster
        self.cluster = name

    async def of(self, token: str) -> Caller:
        """The owner of a token. Raises UnauthenticatedError, and the adapter's errors."""
        spec = {"token": token, "audiences": [AUDIENCE]}
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        status = (await self._cluster.create(_TOKENS, review)).get("status") or {}
        # A server without audiences names none: its tokens are made for itself.
        if not status.get("authenticated") or AUDIENCE not in (status.get("audiences") or ()):
            raise UnauthenticatedError(
                f"no token of this cluster that was made for {AUDIENCE}:"
                f" kubectl create token ACCOUNT --audience {AUDIENCE}"
            )
        user = status.get("user") or {}
        return Caller(
            user.get("username") or "", user.get("uid") or "", user.get("groups") or (), user.get("extra") or {},
        )  # fmt: skip

    async def require(
        self, caller: Caller, words: Sequence[str], namespace: str, cluster: str
    ) -> bool:
        """Whether the caller may have the whole answer about a cluster ("" = about all clusters).

        False: only the part of ``namespace``. Raises ForbiddenError.
        """
        if await self._may(caller, words[0], "", cluster):
            return True
        # Namespaces are this API server's, and so are rights in them.
        is_kept = bool(namespace) and words[0] in OF_NAMESPACES and cluster == self.cluster
        if is_kept and await self._may(caller, words[0], namespace, cluster):
            return False
        where = f" in the namespace {namespace}" if is_kept else ""
        if cluster != self.cluster:
            where = f" of the cluster {cluster}" if cluster else " of all clusters"
        raise ForbiddenError(f"{caller.name} may not get {words[0]} of {GROUP}{where}")

    async def _may(self, caller: Caller, resource: str, namespace: str, cluster: str) -> bool:
        wanted = {
            "group": GROUP,
            "resource": resource,
            "verb": "get",
            "namespace": namespace,
            "name": cluster,
        }
        spec = {
            "user": caller.name, "uid": caller.uid, "groups": [*caller.groups], "extra": {k: [*v] for k, v in caller.extra.items()},
            "resourceAttributes": wanted,
        }  # fmt: skip
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
        found = await self._cluster.create(_ACCESS, {**review, "spec": spec})
        return bool((found.get("status") or {}).get("allowed"))
