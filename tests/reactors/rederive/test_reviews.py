"""Answers to reviews derived again from the history are the same bytes; forged and altered ones are found.

Every other test of reviews derives its own history again, too: :class:`tests.reactors.cluster.Cluster`.
"""

import asyncio

import msgspec
import pytest

from bus.events.admissions import AdmissionsGrouped
from bus.events.namespaces import NamespaceObserved
from reactors.rederive import journals
from tests.reactors.cluster import QUOTA, Cluster, job
from tests.reactors.rederive.forging import decisions, forge

pytestmark = pytest.mark.simulated

QUOTAS = {"group": "bursar.io", "version": "v1alpha1", "resource": "bizgroupresourcequotas"}


@pytest.fixture
async def cluster():
    async with Cluster() as running:
        await running.see_quota("team", {"limits.cpu": 4000})
        yield running


async def live(cluster):
    """Answers of every kind: together and one by one, refused, of a scale, by a namespace's label, of a quota."""
    await see_shop(cluster, "team", "1")
    await asyncio.gather(*(cluster.ask(uid, 1) for uid in "abcde"))
    await cluster.review(job("f", 1, "", "shop"))
    await cluster.review(
        {
            "metadata": {"name": "team", "uid": "uid-team", "annotations": {}},
            "spec": {"hard": {"limits.cpu": "5"}},
        },
        **QUOTAS, operation="UPDATE",
    )  # fmt: skip
    await cluster.ask("f", 1)
    await cluster.settled()


async def test_what_was_asked_together_is_decided_again_in_its_order(cluster):
    await live(cluster)
    found = cluster.rederived()
    (group,) = [e for e in cluster.transport.events if e.type == AdmissionsGrouped.wire_type]

    assert [1, 2, 3, 4] == [
        one.number - 1 for one in AdmissionsGrouped.read(group).decisions if one.charge
    ]
    assert (8, ()) == (found.reviews.same, found.reviews.differences)
    assert {} == found.passed_over


FORGERIES = {
    "a charge": {"charge": {"limits.cpu": 1, "requests.cpu": 1}},
    "a verdict": {"verdict": "refused", "charge": {}},
    "a reason": {"reason": "raised"},
    "a demand": {"demand": {"limits.cpu": 9000}},
    "its quota": {"quota": "other"},
    "its place in the history": {"based_on": 1},
    "its place in the journal": {"number": 7},
    "its review": {"request": "review-99"},
}


@pytest.mark.parametrize("fields", FORGERIES.values(), ids=FORGERIES)
async def test_an_answer_of_which_something_was_altered_is_found(cluster, fields):
    await live(cluster)
    id = forge(cluster, "a", **fields)

    assert id in named(cluster)


BASES = {
    "a later place of the history than it has": {"read": 10**6},
    "another label": {"label": ""},
    "a refusal": {"refusal": "quota-not-yours"},
    "quotas for mapped namespaces only": {"mapped_only": True},
    "a label of another kind of quota": {"label": "elastic"},
    "children": {"live": {"limits.cpu": 2000}},
}


@pytest.mark.parametrize("fields", BASES.values(), ids=BASES)
async def test_an_answer_whose_basis_was_altered_is_found(cluster, fields):
    await live(cluster)
    fact = next(one for _, _, one in decisions(cluster) if one.uid == "a")
    id = forge(cluster, "a", basis=msgspec.structs.replace(fact.basis, **fields))

    assert id in named(cluster)


async def test_answers_of_older_versions_are_counted_and_passed_over(cluster):
    await live(cluster)
    before = cluster.rederived()
    for uid in "abcde":
        forge(cluster, uid, basis=None)
    found = cluster.rederived()

    assert (before.reviews.same - 5, ()) == (found.reviews.same, found.reviews.differences)
    assert 5 == found.passed_over["older"]


@pytest.mark.parametrize(("events", "readings"), [(journals.BEHIND, 2), (0, 3)])
async def test_processes_that_have_read_to_different_places_are_each_taken_by_theirs(
    cluster, monkeypatch, events, readings
):
    """The other process has not seen that the namespace went to another quota. Only one that is further behind is read for anew."""
    monkeypatch.setattr(journals, "BEHIND", events)
    await cluster.see_quota("rest", {"limits.cpu": 4000})
    behind = Behind(cluster.transport)
    async with Cluster(behind) as other:
        await see_shop(cluster, "team", "1")
        await other.settled()
        behind.may_read.clear()
        await see_shop(cluster, "rest", "2")
        await cluster.review(job("a", 1, "", "shop"))
        await other.review(job("b", 1, "", "shop"), uid="review-of-b")
        behind.may_read.set()
    quotas = {fact.name: fact.quota for _, _, fact in decisions(cluster)}
    asked = []

    def history():
        asked.append(len(asked))
        return cluster.transport.events

    found = journals.rederive(
        history, cluster="c1", transport=cluster.transport, clock=cluster.clock
    )

    assert {"a": "rest", "b": "team"} == quotas
    assert (2, ()) == (found.reviews.same, found.reviews.differences)
    assert readings == len(asked)


async def see_shop(cluster, quota, version):
    fact = NamespaceObserved(uid="n", name="shop", resource_version=version, labels={QUOTA: quota})
    await cluster.say(fact, "shop")


class Behind:
    """A way to a history on which reading can be held up."""

    def __init__(self, transport):
        self._transport = transport
        self.may_read = asyncio.Event()
        self.may_read.set()

    def __getattr__(self, name):
        return getattr(self._transport, name)

    async def read(self, **how):
        async for events in self._transport.read(**how):
            await self.may_read.wait()
            yield events


def named(cluster):
    return [one.id for one in cluster.rederived().reviews.differences]
