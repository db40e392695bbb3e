"""A list page by page: the server reads the next page while one is used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from bus.kube.watch.contract import Cluster, Page


async def pages(cluster: Cluster, path: str, *, limit: int) -> AsyncGenerator[Page]:
    """The pages of one list of ``path``. Raises what :meth:`Cluster.page` raises."""
    page = await cluster.page(path, limit=limit)
    while page.following:
        coming = asyncio.ensure_future(cluster.page(path, limit=limit, following=page.following))
        try:
            yield page
            page = await coming
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
    yield page
