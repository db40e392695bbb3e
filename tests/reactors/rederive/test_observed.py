"""What was adopted, given back and declared because of what was seen, derived again; forged entries are found."""

import msgspec
import pytest

from bus.events.admissions import (
    JOURNAL,
    AdmissionDecided,
    AdmissionReleased,
    QuotaDeclared,
    TreeMetered,
)
from tests.reactors.cluster import Cluster

pytestmark = pytest.mark.simulated

FACTS = {fact.wire_type: fact for fact in JOURNAL}


@pytest.fixture
async def cluster():
    async with Cluster() as running:
        await running.see_quota("team", {"limits.cpu": 4000})
        await running.see_quota(
            "elastic", {}, kind="ElasticQuota", namespace="q", max={"cpu": 9}, min={"cpu": 1}
        )
        await running.see_node("n", "n", allocatable={"cpu": "8"})
        yield running


async def live(cluster):
    """Something is there without having been asked for, shrinks and goes; what was asked for is seen, and lapses."""
    await cluster.see("there", 2)
    await cluster.ask("a", 2)
    await cluster.see("a", 2)
    await cluster.see("a", 1)
    await cluster.lose("there")
    await cluster.ask("never", 1)
    cluster.clock.after(100)
    await cluster.list("a")
    await cluster.see_quota("team", {"limits.cpu": 6000})


def entries(cluster, type):
    for place, event in enumerate(cluster.transport.events):
        if event.type == type.wire_type:
            yield place, type.read(event)


def forge(cluster, fact, **fields):
    """The entry with other ``fields``; its id."""
    place = next(at for at, one in entries(cluster, type(fact)) if one == fact)
    event = cluster.transport.events[place]
    body = msgspec.json.encode(msgspec.structs.replace(fact, **fields))
    cluster.is_tampered = True
    cluster.transport.events[place] = msgspec.structs.replace(event, body=body)
    return event.id


def released(cluster, reason):
    found = (fact for _, fact in entries(cluster, AdmissionReleased))
    return next(fact for fact in found if fact.releases[0].reason == reason)


def adopted(cluster):
    found = (fact for _, fact in entries(cluster, AdmissionDecided))
    return next(fact for fact in found if fact.verdict == "adopted")


def named(cluster):
    return [one.id for one in cluster.rederived().observed.differences]


async def test_every_entry_is_made_again_of_what_was_seen(cluster):
    await live(cluster)
    found = cluster.rederived()
    made = [sum(1 for _ in entries(cluster, type)) for type in JOURNAL]
    reasons = [fact.releases[0].reason for _, fact in entries(cluster, AdmissionReleased)]

    assert ["shrunk", "vanished", "lapsed"] == reasons
    assert (sum(made) - 2, ()) == (found.observed.same, found.observed.differences)
    assert (2, {}) == (found.reviews.same, found.passed_over)


@pytest.mark.parametrize("reason", ["shrunk", "vanished", "lapsed"])
async def test_a_release_of_another_amount_is_found(cluster, reason):
    await live(cluster)
    fact = released(cluster, reason)
    less = msgspec.structs.replace(fact.releases[0], charge={"limits.cpu": 500})

    assert forge(cluster, fact, releases=(less,)) in named(cluster)


async def test_an_entry_that_gives_nothing_back_is_found(cluster):
    await live(cluster)

    assert forge(cluster, released(cluster, "shrunk"), releases=()) in named(cluster)


EVIDENCE = {
    "gone, though it was there": {"is_gone": True, "quota": ""},
    "less than was seen": {"demand": {}},
    "later than it was stored": {"read": 10**6},
    "of another quota": {"quota": "other"},
}


@pytest.mark.parametrize("fields", EVIDENCE.values(), ids=EVIDENCE)
async def test_a_release_on_other_evidence_is_found(cluster, fields):
    await live(cluster)
    fact = released(cluster, "shrunk")
    evidence = msgspec.structs.replace(fact.evidence, **fields)

    assert forge(cluster, fact, evidence=evidence) in named(cluster)


async def test_a_release_of_what_was_still_there_is_found(cluster):
    """It follows from its evidence, and the history shows the object."""
    await live(cluster)
    fact = released(cluster, "vanished")
    evidence = msgspec.structs.replace(fact.evidence, read=fact.evidence.read - 1)

    assert forge(cluster, fact, evidence=evidence) in named(cluster)


async def test_an_adoption_of_more_than_was_seen_is_found(cluster):
    await live(cluster)
    more = {"limits.cpu": 3000, "requests.cpu": 3000}

    assert forge(cluster, adopted(cluster), demand=more, charge=more) in named(cluster)


async def test_a_quota_with_other_limits_than_its_object_is_found(cluster):
    await live(cluster)
    fact = next(fact for _, fact in entries(cluster, QuotaDeclared) if fact.quota == "team")
    spec = msgspec.structs.replace(fact.spec, hard={"limits.cpu": 10**6})

    assert forge(cluster, fact, spec=spec) in named(cluster)


async def test_a_capacity_that_the_nodes_do_not_have_is_found(cluster):
    await live(cluster)
    (fact,) = [fact for _, fact in entries(cluster, TreeMetered)]

    assert forge(cluster, fact, total={"cpu": 10**6}) in named(cluster)
