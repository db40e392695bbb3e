"""The views of admissions say what the tree of the same journal says, on both databases."""

from bus.events.admissions import AdmissionDecided
from tests.projections.engine.archives import fill, sequenced
from tests.projections.journals import Recorded
from tests.quota_trees import CPU

MOST = 2**63 - 1


def lived():
    """A parent with a child, grants of its own, one adopted, one given back, one refused."""
    books = Recorded()
    books.show_quota("q", 10)
    books.show_quota("a", 4, "q")
    books.ask("v", 3, "q")
    books.ask("w", 2, "a")
    books.show("x", {CPU: 5, "requests.memory": 7}, "a", at=1)
    books.ask("y", 9, "q", at=2)
    books.show("w", 2, "a", at=3)
    books.show("w", 0, "a", at=200, is_gone=True)
    books.propose("a", 2, "q", "UPDATE", at=210)
    return books


def asked(store, query):
    with store.engine.connect() as connection:
        return [dict(row._mapping) for row in connection.exec_driver_sql(query)]


def test_usage_equals_what_the_tree_says_of_every_key(store):
    books = lived()
    fill(store, sequenced(books.events))

    got = {
        (row["quota"], row["key"]): (
            row["hard"], row["used"], row["self_used"], row["claimed"], row["ungoverned"],
        )
        for row in asked(store, "SELECT * FROM v1_quota_usage")
    }  # fmt: skip

    want = {}
    for name, node in books.tree.nodes.items():
        for key in node.limited().keys() | node.self_used.keys() | node.claims.keys():
            adopted = sum(g.charge.get(key, 0) for g in node.grants.values() if g.is_adopted)
            want[(name, key)] = (
                node.limit(key), node.used(key), node.self_used.get(key, 0),
                node.claims.get(key, 0), adopted,
            )  # fmt: skip
    assert got == want
    assert want[("a", CPU)] == (2, 5, 5, 0, 5)
    assert want[("a", "requests.memory")] == (None, 7, 7, 0, 7)


def test_grants_are_rows_by_key(store):
    fill(store, sequenced(lived().events))

    rows = asked(store, "SELECT * FROM v1_grants ORDER BY quota, uid, key")

    assert [(r["quota"], r["uid"], r["key"], r["amount"], r["is_adopted"]) for r in rows] == [
        ("a", "x", CPU, 5, 1),
        ("a", "x", "requests.memory", 7, 1),
        ("q", "v", CPU, 3, 0),
    ]


def test_decisions_are_rows_in_the_order_of_the_journal(store):
    fill(store, sequenced(lived().events))

    rows = asked(store, "SELECT * FROM v1_admissions ORDER BY number")

    assert [(r["uid"], r["verdict"], r["reason"]) for r in rows] == [
        ("v", "admitted", "fits"),
        ("w", "admitted", "fits"),
        ("x", "adopted", "ungoverned"),
        ("y", "refused", "over-quota"),
    ]
    assert rows[3]["deficits"] == '[{"key":"limits.cpu","asked":9,"used":7,"limit":10,"own":3}]'


def test_a_sum_stops_at_the_largest_number_so_that_no_workload_hides_all_quotas(store):
    books = Recorded()
    books.show_quota("q", 10)
    for uid in ("u", "v", "w"):
        charge = AdmissionDecided(
            number=books.tree.number + 1, quota="q", uid=uid, kind="Pod", namespace="ns", name=uid,
            verdict="adopted", reason="ungoverned", charge={CPU: MOST},
        )  # fmt: skip
        books.store(charge)
    fill(store, sequenced(books.events))

    (row,) = asked(store, "SELECT * FROM v1_quota_usage")

    assert (row["used"], row["ungoverned"], row["objects"]) == (MOST, MOST, 3)
