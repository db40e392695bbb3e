"""What the keeper sees together is charged together: one entry for each tree, of the same charges in the same order."""

import asyncio

import pytest

from bus.errors import BusUnavailableError
from bus.memory import MemoryTransport
from reactors.admission.reconciling import reconciler
from reactors.admitting import following
from tests.reactors.admission.below import owner
from tests.reactors.cluster import Cluster

pytestmark = pytest.mark.simulated

NAMES = [f"job-{number:02}" for number in range(30)]


@pytest.fixture
async def cluster():
    async with Cluster(Interrupted()) as running:
        for name in ("team", "other"):
            await running.see_quota(name, {"limits.cpu": 10_000})
        yield running


class Interrupted(MemoryTransport):
    """Entries of journals that are refused before they are taken, while there are some to refuse."""

    def __init__(self):
        super().__init__()
        self.refused, self.asked, self.pauses = 0, [], 0

    async def publish(self, events, *, expect=None):
        for _ in range(self.pauses):
            await asyncio.sleep(0)
        if events[0].type.startswith("admission."):
            self.asked.append(events[0].key)
            if self.refused:
                self.refused -= 1
                raise BusUnavailableError(reason="away")
        return await super().publish(events, expect=expect)


async def together(cluster, *quotas):
    """See a job of one core for each name, of the quotas in turn; the entries that came of it."""
    before = len(cluster.transport.events)
    for number, name in enumerate(NAMES):
        await cluster.see(name, 1, quota=quotas[number % len(quotas)], settles=False)
    await cluster.settled()
    return [e.key for e in cluster.transport.events[before:] if e.type.startswith("admission.")]


async def test_first_charges_of_a_tree_are_one_entry(cluster):
    """Above the limit, too: they exist."""
    assert await together(cluster, "team") == ["biz/team"]
    told = cluster.said("decided")
    assert [(one["uid"], one["reason"]) for one in told] == [(n, "ungoverned") for n in NAMES]
    assert cluster.used() == 30_000


async def test_no_more_are_stored_together_than_are_soon_decided(cluster, monkeypatch):
    """What other processes decide on a tree meanwhile undoes them all."""
    monkeypatch.setattr(reconciler, "STORED_EVERY", 10)
    assert await together(cluster, "team") == ["biz/team"] * 3
    assert cluster.used() == 30_000


async def test_each_tree_has_an_entry_of_its_own(cluster):
    assert sorted(await together(cluster, "team", "other")) == ["biz/other", "biz/team"]
    assert (cluster.used(), cluster.used("other")) == (15_000, 15_000)


async def test_what_is_charged_already_is_none_of_them(cluster):
    """A charge that falls, or belongs to what lives below, is decided by itself, behind those before it."""
    for name in NAMES[:20:2]:
        await cluster.see(name, 2)
    assert cluster.used() == 20_000
    await together(cluster, "team")
    assert cluster.used() == 30_000
    for name in NAMES:
        await cluster.lose(name)
    assert cluster.used() == 0


async def test_owners_and_what_is_below_them_are_charged_once(cluster):
    """Each job has two pods of two cores, which are more than it asks for itself."""
    for number, name in enumerate(NAMES[:10]):
        for pod in ("a", "b") if number % 2 else ():
            await cluster.see_pod(f"{pod}-{name}", 2, owner=owner("Job", name), settles=False)
        await cluster.see(name, 1, settles=False)
        for pod in () if number % 2 else ("a", "b"):
            await cluster.see_pod(f"{pod}-{name}", 2, owner=owner("Job", name), settles=False)
    await cluster.settled()

    grants = cluster.admission.journals.tree("biz/team").nodes["team"].grants
    requests = {uid: grant.charge["requests.cpu"] for uid, grant in grants.items()}
    assert requests == dict.fromkeys(NAMES[:10], 4000)


@pytest.mark.parametrize("refused", [1, 2])
async def test_what_could_not_be_stored_is_charged_later_and_once(cluster, refused):
    cluster.transport.refused = refused
    await together(cluster, "team", "other")
    await cluster.see("last", 1)
    await cluster.settled()

    assert (cluster.used(), cluster.used("other")) == (16_000, 15_000)
    assert len(cluster.said("decided")) == 31


async def test_two_keepers_charge_it_once(cluster):
    """Whose entry comes second decides again, and finds nothing to say."""
    second = following(
        cluster.transport, cluster.clock, cluster="c1", source="webhook/2", keeps=True
    )
    async with second as other:
        cluster.transport.asked.clear()
        await together(cluster, "team", "other")
        assert len(cluster.transport.asked) > 2, "both tried"

        assert (cluster.used(), cluster.used("other")) == (15_000, 15_000)
        assert len(cluster.said("decided")) == 30
        assert other.journals.tree("biz/team").nodes["team"].used("limits.cpu") == 15_000


@pytest.mark.parametrize("pauses", [0, 1, 3, 7])
async def test_reviews_meanwhile_are_entries_of_their_own(cluster, pauses):
    """Who decided on a tree after the draft, and before that was stored, made it old: its numbers would have been given twice."""

    async def asked(number):
        for _ in range(number):
            await asyncio.sleep(0)
        return await cluster.ask(f"asked-{number}", 1, quota=("team", "other")[number % 2])

    cluster.transport.pauses = pauses
    await cluster.see_quota("team", {"limits.cpu": 100_000})
    await cluster.see_quota("other", {"limits.cpu": 100_000})
    asking = [asyncio.create_task(asked(number)) for number in range(120)]
    await together(cluster, "team", "other")
    answers = await asyncio.gather(*asking)
    await cluster.settled()

    assert all(answer.allowed for answer in answers)
    assert (cluster.used(), cluster.used("other")) == (75_000, 75_000)
    assert cluster.admission.journals.parked == 0
