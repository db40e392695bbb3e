"""Who asks, and whether they may: both are said by the API server. Nothing that a request says of itself counts but its token.

A token is one that was made for Bursar (its audience), so it is of no use elsewhere. What it may ask is a right of RBAC on
``questions.bursar.io``, a group that has no objects: the resource is the first word of the question, the verb ``get``, the name
the cluster that is asked about. Who has the right in one namespace only gets the answers that keep to it, of the cluster
whose API server is asked.

Source: Kubernetes, "Authenticating", "Authorization"; authentication/v1 TokenReview, authorization/v1 SubjectAccessReview.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from bus.errors import BursarError

GROUP = "questions.bursar.io"
#: For whom tokens are made.
AUDIENCE = "bursar-api"
#: Questions of which an answer that is kept to one namespace says nothing of another one.
OF_NAMESPACES = ("report", "acct")
_TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class Creates(Protocol):
    """What is asked of the API server."""

    async def create(self, path: str, body: Mapping[str, Any]) -> Any:
        """A review is created, and comes back with its status."""


class UnauthenticatedError(BursarError):
    """No token, or none that the API server knows as made for Bursar."""


class ForbiddenError(BursarError):
    """The asker has no right to this question."""


class Caller(msgspec.Struct, frozen=True):
    """Who asks, as the API server has it."""

    name: str
    uid: str = ""
    groups: Sequence[str] = ()
    extra: Mapping[str, Sequence[str]] = {}


class Callers:
    """Asks an API server about those who ask us."""

    def __init__(self, cluster: Creates, name: str = "default") -> None:
        """``name``: of the cluster whose API server this is."""
        self._cluster = cluster
        self.cluster = name

    async def of(self, token: str) -> Caller:
        """The owner of a token. Raises UnauthenticatedError, and what the adapter raises."""
        spec = {"token": token, "audiences": [AUDIENCE]}
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        status = (await self._cluster.create(_TOKENS, review)).get("status") or {}
        # A server that knows no audiences names none: its tokens are made for itself.
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
        """Whether the caller may have the whole answer of a cluster ("" = of all that there are).

        False: only what is of ``namespace``. Raises ForbiddenError.
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
