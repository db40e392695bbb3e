"""A list page by page: the server reads the next page while one is used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from functools import partial

from bus.kube.watch.contract import Cluster, Page


async def pages(
    cluster: Cluster, path: str, *, limit: int, metadata_only: bool = False
) -> AsyncGenerator[Page]:
    """The pages of one list of ``path``. Raises the errors of :meth:`Cluster.page`."""
    ask = partial(cluster.page, path, limit=limit, metadata_only=metadata_only)
    page = await ask()
    while page.following:
        coming = asyncio.ensure_future(ask(following=page.following))
        try:
            yield page
            page = await coming
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
    yield page
