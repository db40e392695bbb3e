"""The first status of a new quota is written within two seconds, not with the next round."""

import asyncio
from types import SimpleNamespace

import pytest

from projections.quota_trees import Tree
from reactors.budgets import rounds
from reactors.effectors.quota_status import WriteOutcome
from tests.deploy.metered import Ledger

pytestmark = pytest.mark.simulated


class Writer:
    """Keeps when it was asked to write which status."""

    def __init__(self):
        self.written = []

    async def write(self, status):
        self.written.append((status.name, asyncio.get_running_loop().time()))
        return WriteOutcome(status.name, "written")


@pytest.fixture
async def world(tmp_path, monkeypatch):
    """A process that meters; its ledger has a quota from the moment in ``has`` on."""
    process = Ledger(tmp_path).process()
    process._writer, found = Writer(), SimpleNamespace(process=process, has={}, begun=[])
    process._trees.trees["biz/q"] = Tree("biz/q")
    now = asyncio.get_running_loop().time

    def report(tree, node, read, judged):
        is_there = found.has.get(node.name, now()) <= now()
        return SimpleNamespace(name=node.name, uid=node.uid) if is_there and node.observed else None

    async def round():
        found.begun.append(now())
        await process._write(process._writer, None, None)

    monkeypatch.setattr(process, "_report", report)
    monkeypatch.setattr(process, "round", round)
    task = asyncio.create_task(process.run())
    await asyncio.sleep(0.1)
    yield found
    task.cancel()


def see(world, name, *, is_seen=True):
    node = SimpleNamespace(
        name=name, uid=f"uid-{name}", kind=rounds.BUSINESS, observed=object() if is_seen else None
    )
    world.process._trees.trees["biz/q"].nodes[name] = node
    return asyncio.get_running_loop().time()


async def test_a_new_quota_has_its_status_within_two_seconds(world):
    for name in ("a", "b"):
        since = see(world, name)
        await asyncio.sleep(3)
        (at,) = [moment for written, moment in world.process._writer.written if written == name][:1]
        assert at - since <= 2


async def test_a_quota_that_the_ledger_has_a_moment_later_does_not_wait_for_the_next_round(world):
    world.has["a"] = see(world, "a") + 1.2
    await asyncio.sleep(3)

    assert world.process._writer.written[0][1] - world.has["a"] <= 1


async def test_without_a_new_quota_rounds_keep_their_pace(world):
    see(world, "a")
    see(world, "declared", is_seen=False)
    await asyncio.sleep(100)

    assert 10 <= len(world.begun) <= 12


async def test_a_quota_that_never_reaches_the_ledger_hurries_no_round_for_ever(world):
    world.has["a"] = see(world, "a") + 10_000
    await asyncio.sleep(200)

    assert len(world.begun) <= 20 + rounds.SOON_ROUNDS
