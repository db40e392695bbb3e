"""A cluster whose quotas borrow."""

import pytest

from tests.reactors.evictions.scene import Evicting


@pytest.fixture
async def cluster():
    """``q`` may use 10 of 20 cards while ``other`` asks for its own; enough pods elsewhere for two at a time."""
    async with Evicting() as running:
        await running.nodes(20)
        await running.see_elastic("q", 10, 20)
        await running.see_elastic("other", 10, 20)
        await running.policy(monitor_all_quotas=True, delay_evict_seconds=20)
        for number in range(100):
            await running.run_pod(f"else-{number}", quota="nobody", gpu=0)
        yield running
