"""ADAPTER: small texts in immutable ConfigMaps of one namespace.

Each call is a connection of its own, from a thread that runs no event loop: a few in a day.

Source: Kubernetes, "Immutable ConfigMaps".
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from bus.errors import ConflictError
from bus.kube.client.access import Access
from bus.kube.client.cluster import KubeCluster, connect

T = TypeVar("T")

#: The key of the text.
KEY = "text"
#: Its value is the owner of the ConfigMap.
LABEL = "bursar.io/kept-for"
#: Each may have a megabyte, whoever made it, and a page is held in memory (:data:`bus.kube.client.requests.LARGEST_PAGE`).
PAGE_SIZE = 100


class _Metadata(msgspec.Struct):
    name: str = ""


class _ConfigMap(msgspec.Struct):
    metadata: _Metadata
    data: Any = None


_decoder = msgspec.json.Decoder(_ConfigMap)


class ConfigMaps:
    """The ConfigMaps of ``namespace`` for ``purpose``: a label's value and the prefix of their names."""

    def __init__(
        self, access: Access, namespace: str, purpose: str, trust_env: bool = False
    ) -> None:
        self._access, self._trust_env = access, trust_env
        self._path = f"/api/v1/namespaces/{namespace}/configmaps"
        self._purpose = purpose

    def named(self, name: str) -> str:
        """The name of the ConfigMap for ``name``."""
        return f"{self._purpose}-{name}"

    def make(self, name: str, text: str) -> str | None:
        """Stores ``text``; if the ConfigMap exists already, returns its text ("" = no such text)."""
        body = {
            "apiVersion": "v1", "kind": "ConfigMap", "immutable": True, "data": {KEY: text},
            "metadata": {"name": self.named(name), "labels": {LABEL: self._purpose}},
        }  # fmt: skip

        async def make(cluster: KubeCluster) -> str | None:
            try:
                await cluster.create(self._path, body)
                return None
            except ConflictError:
                found = await cluster.get(f"{self._path}/{self.named(name)}")
                return _text(found.get("data"))

        return self._asked(make)

    def all(self) -> dict[str, str]:
        """The text of each, by the name of its ConfigMap."""

        async def listed(cluster: KubeCluster) -> dict[str, str]:
            found: dict[str, str] = {}
            path, following = f"{self._path}?labelSelector={LABEL}={self._purpose}", ""
            while True:
                page = await cluster.page(path, limit=PAGE_SIZE, following=following)
                for one in map(_decoder.decode, page.items):
                    found[one.metadata.name] = _text(one.data)
                if not (following := page.following):
                    return found

        return self._asked(listed)

    def _asked(self, work: Callable[[KubeCluster], Awaitable[T]]) -> T:
        async def ask() -> T:
            cluster = await connect(self._access, trust_env=self._trust_env)
            try:
                return await work(cluster)
            finally:
                await cluster.close()

        return asyncio.run(ask())


def _text(data: object) -> str:
    found = data.get(KEY) if isinstance(data, dict) else None
    return found if isinstance(found, str) else ""
