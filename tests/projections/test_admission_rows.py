"""Decisions, grants and declared quotas as rows: what the journals say, in whatever order their entries come."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from bus.events.admissions import AdmissionReleased, QuotaDeclared, QuotaSpec, Release
from projections.quota_trees.decisions import admissions
from projections.quota_trees.declared import declared_quotas
from projections.quota_trees.held import grants
from tests.factories import numbered
from tests.projections.journals import PARENTS, ROOT, Recorded, journals
from tests.projections.ledger import folded, rows
from tests.quota_trees import CPU

TABLES = (admissions, grants, declared_quotas)


def said(events, **options):
    """The three tables after events, without the sequences that depend on the order."""
    store = folded(numbered(events), **options)
    return {table.name: rows(store, table, without=("sequence",)) for table in TABLES}


@given(journals(), st.randoms(use_true_random=False), st.integers(1, 5))
def test_the_same_entries_in_any_order_and_any_batches_give_the_same_rows(books, random, batch):
    shuffled = [*books.events, *books.events]
    random.shuffle(shuffled)

    assert said(books.events) == said(shuffled, batch=batch, restart_every=2)


@given(journals())
def test_a_grant_counts_if_its_quota_stands_and_did_not_leave_the_tree_since(books):
    found = said(books.events)
    gone = {row["quota"]: row["gone_number"] for row in found["declared_quotas"] if row["stands"]}
    held = {
        (row["quota"], row["uid"]): (json.loads(row["charge"]), bool(row["is_adopted"]))
        for row in found["grants"]
        if row["number"] > gone.get(row["quota"], 2**63) and row["charge"] != "{}"
    }

    assert held == {
        (node.name, grant.uid): (grant.charge, grant.is_adopted)
        for node in books.tree.nodes.values()
        for grant in node.grants.values()
        if grant.charge
    }


@given(journals())
def test_a_declared_quota_has_the_limits_and_claims_of_its_node(books):
    found = {
        row["quota"]: (
            row["uid"],
            row["parent"],
            json.loads(row["hard"]),
            json.loads(row["claims"]),
        )
        for row in said(books.events)["declared_quotas"]
        if row["stands"]
    }

    assert found == {
        name: (node.uid, node.parent, node.limited(), node.claimed())
        for name, node in books.tree.nodes.items()
    }


def test_every_decision_is_a_row_and_an_event_that_is_said_twice_is_one():
    books = Recorded()
    books.show_quota(hard=4)
    books.ask("v", 3)
    refused = books.ask("w", 2)

    found = said([*books.events, books.events[-1]])["admissions"]

    assert [(row["uid"], row["verdict"], row["number"]) for row in found] == [
        ("v", "admitted", 2),
        ("w", "refused", 3),
    ]
    assert json.loads(found[1]["deficits"]) == [
        {"key": CPU, "asked": 2, "used": 3, "limit": 4, "own": 3}
    ]
    assert refused.based_on == found[1]["based_on"]


def test_a_release_about_many_gives_each_its_own():
    books = Recorded()
    books.show_quota(hard=9)
    books.ask("v", 3)
    books.ask("w", 2)
    releases = (Release("q", "v", "vanished"), Release("q", "w", "shrunk", {CPU: 1}))
    books.store(AdmissionReleased(number=books.tree.number + 1, releases=releases))

    found = {row["uid"]: row["charge"] for row in said(books.events[::-1])["grants"]}

    assert found == {"v": "{}", "w": '{"limits.cpu":1}'}


def test_a_refused_change_is_no_change_and_a_pending_one_takes_the_stricter_limit():
    books = Recorded()
    books.show_quota(hard=4)
    books.propose("q", 9, operation="UPDATE")
    books.propose("q", 2, parent="nowhere", operation="UPDATE")

    (row,) = said(books.events)["declared_quotas"]

    assert (row["hard"], row["claims"], row["pending"]) == (
        '{"limits.cpu":4}',
        '{"limits.cpu":9}',
        1,
    )


def test_the_limit_of_an_elastic_quota_is_its_max():
    spec = QuotaSpec(max={"cpu": 8000}, min={"cpu": 2000})
    fact = QuotaDeclared(
        number=1, quota="e", uid="uid-e", kind="ElasticQuota", parent="", stage="observed",
        verdict="adopted", reason="seen", spec=spec,
    )  # fmt: skip
    event = fact.event(cluster="c1", key="elastic/", id="1", source="test", time_us=0)

    (row,) = said([event])["declared_quotas"]

    assert (row["hard"], row["tree"]) == ('{"requests.cpu":8000}', "elastic/")


def test_random_journals_meet_every_tree(request):
    """The generator above is worth its name: it makes quotas, grants and adoptions."""
    seen = set()

    @settings(deadline=None, max_examples=100, database=None, derandomize=True)
    @given(journals())
    def look(books):
        seen.update(books.tree.nodes)
        seen.update(
            bool(g.is_adopted) for n in books.tree.nodes.values() for g in n.grants.values()
        )

    look()

    assert seen >= {*PARENTS, True, False}
    assert ROOT == Recorded().tree.name
